"""Everything mutable that a system reaches: remembered, compared, restored.

The exhaustive check tries many steps from one state, and must know that a refused one changed
nothing anywhere. The abstraction shows only the spec's state, and would miss a stale cache. So this
remembers objects and their contents.

An OPAQUE class is not entered; it is found only if two machines share it.

The search also finds objects that can be reached twice. If two machines share one, a step of one is
secretly a step of the other.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from operator import attrgetter, is_not
from types import FunctionType, MappingProxyType, MethodType
from typing import Any, TypeAlias, cast

import attrs
from attrs import define, field

from properties.tla import Rec

Fields: TypeAlias = tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]

_ANY: Fields = (), lambda thing: ()

#: Classes whose objects never change. Frozen ones of attrs join them when they are met.
_values: set[type] = {
    *(int, bool, str, bytes, float, type(None), frozenset, Rec),
    *(FunctionType, MethodType, MappingProxyType, type),
}


@define
class Snapshot:
    """A copy of a system's parts at one moment."""

    objects: list[tuple[Any, Fields, tuple[Any, ...]]] = field(factory=list[Any])
    containers: list[tuple[Any, Any]] = field(factory=list[Any])
    shared: list[Any] = field(factory=list[Any])
    """The objects that were reached twice."""

    @classmethod
    def of(cls, system: object) -> "Snapshot":
        """Remember everything that can be reached from here."""
        memory = cls()
        known: set[int] = set()
        waiting: list[Any] = [system]
        on_purpose = getattr(system, "shared_on_purpose", ())
        while waiting:
            thing = waiting.pop()
            kind = thing.__class__
            if kind in _values:
                continue
            if kind is tuple or isinstance(thing, tuple):
                waiting += thing
            elif isinstance(thing, Enum):
                continue
            elif id(thing) in known:
                if kind not in on_purpose:
                    memory.shared.append(thing)
            else:
                known.add(id(thing))
                inside = memory._remember(thing, kind)
                waiting += [one for one in inside if one.__class__ not in _values]
        return memory

    def _remember(self, thing: Any, kind: Any) -> Iterable[Any]:
        """Remember the parts of a thing, and return them."""
        if kind is list or kind is deque:
            self.containers.append((thing, thing.copy()))
            return thing
        if kind is dict:
            self.containers.append((thing, thing.copy()))
            return thing.values()
        if kind is set:
            self.containers.append((thing, thing.copy()))
            return ()
        fields = _fields_of(kind)
        if fields is None:
            return ()
        if fields is _ANY:
            fields = _named(tuple(thing.__dict__))
        values = fields[1](thing)
        self.objects.append((thing, fields, values))
        return values

    def changed(self) -> bool:
        """True if anything differs from the copy."""
        for thing, (_, get), then in self.objects:
            if get(thing) != then:
                return True
        return any(now != then for now, then in self.containers)

    def restore(self) -> None:
        """Put everything back as it was.

        An object that is equal to the one in its place before is not that one: the other may be
        elsewhere by now, as a copy of a log that replaced it.
        """
        for thing, (names, get), then in self.objects:
            if any(map(is_not, get(thing), then)):
                for name, value in zip(names, then, strict=True):
                    setattr(thing, name, value)
        for now, then in self.containers:
            if now != then or _holds_others(now, then):
                now.clear()
                _fill(now, then)


def _holds_others(now: Any, then: Any) -> bool:
    """True if a container that is equal to what it was holds other objects."""
    if isinstance(now, dict):
        now, then = cast("dict[Any, Any]", now).values(), then.values()
    return not isinstance(now, set) and any(map(is_not, now, then))


def _fill(container: Any, contents: Any) -> None:
    if isinstance(container, list | deque):
        cast("list[Any]", container).extend(contents)
    else:
        container.update(contents)


@cache
def _fields_of(kind: Any) -> Fields | None:
    """The fields of a class, None if its objects never change or are opaque; `_ANY` if each has
    its own."""
    if getattr(kind, "OPAQUE", False):
        return None
    if not attrs.has(kind):
        return _ANY
    if kind.__setattr__ is not object.__setattr__:
        _values.add(kind)
        return None
    return _named(tuple(one.name for one in attrs.fields(kind)))


@cache
def _named(names: tuple[str, ...]) -> Fields:
    if len(names) == 1:
        only = attrgetter(names[0])
        return names, lambda thing: (only(thing),)
    return names, attrgetter(*names)
