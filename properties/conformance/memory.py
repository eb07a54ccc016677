"""Everything mutable that a system reaches: remembered, compared, put back.

The exhaustive check tries many steps from one state, and must know that a refused one changed
nothing, wherever it might have. So it remembers objects and their contents rather than asking the
abstraction, which sees only what the spec sees: a stale cache behind it would go unnoticed.

A class that says OPAQUE is looked at from outside only: it is found when two machines share it.

On the way an object that can be reached twice shows. If two machines share it, a step of one is
secretly a step of the other.
"""

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

import attrs
from attrs import define, field

from properties.tla import Rec

Fields: TypeAlias = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]

#: Classes whose objects never change. Frozen ones of attrs join them when they are met.
_values: set[type] = {int, bool, str, float, type(None), frozenset, Rec}


@define
class Memory:
    """What a system was made of when this was taken."""

    objects: list[tuple[Any, Fields, tuple[Any, ...]]] = field(factory=list[Any])
    containers: list[tuple[Any, Any]] = field(factory=list[Any])
    shared: list[Any] = field(factory=list[Any])
    """Whatever was reached a second time, by another way."""

    @classmethod
    def of(cls, system: object) -> "Memory":
        """Remember everything that can be reached from here."""
        memory = cls()
        memory._visit(system, set())
        return memory

    def _visit(self, thing: Any, known: set[int]) -> None:
        kind: Any = thing.__class__
        inner: Iterable[Any]
        if kind is tuple:
            inner = thing
        elif id(thing) in known:
            self.shared.append(thing)
            return
        elif getattr(kind, "OPAQUE", False):
            known.add(id(thing))
            return
        elif kind is list:
            inner = thing
            self.containers.append((thing, thing[:]))
        elif kind is dict:
            inner = thing.values()
            self.containers.append((thing, thing.copy()))
        elif kind is set:
            inner = ()
            self.containers.append((thing, thing.copy()))
        elif attrs.has(kind) and kind.__setattr__ is not object.__setattr__:
            _values.add(kind)
            return
        else:
            fields = _slots(kind) if attrs.has(kind) else _named(tuple(thing.__dict__))
            inner = values = fields[1](thing)
            self.objects.append((thing, fields, values))
        known.add(id(thing))
        for one in inner:
            if type(one) not in _values:
                self._visit(one, known)

    def changed(self) -> bool:
        """Whether anything is not as it was."""
        return any(get(thing) != then for thing, (_, get), then in self.objects) or any(
            now != then for now, then in self.containers
        )

    def restore(self) -> None:
        """Put everything back as it was."""
        for thing, (names, get), then in self.objects:
            if get(thing) != then:
                for name, value in zip(names, then, strict=True):
                    setattr(thing, name, value)
        for now, then in self.containers:
            if now != then:
                now.clear()
                _fill(now, then)


def _fill(container: Any, contents: Any) -> None:
    if isinstance(container, list):
        container[:] = contents
    else:
        container.update(contents)


@cache
def _slots(kind: type) -> Fields:
    return _named(tuple(one.name for one in attrs.fields(kind)))


@cache
def _named(names: tuple[str, ...]) -> Fields:
    if len(names) == 1:
        only = attrgetter(names[0])
        return names, lambda thing: (only(thing),)
    return names, attrgetter(*names)
