"""Everything mutable that a system reaches: remembered, compared, put back.

The exhaustive check tries many steps from one state, and must know that a refused one changed
nothing, wherever it might have. So it remembers objects and their contents rather than asking the
abstraction, which sees only what the spec sees: a stale cache behind it would go unnoticed.

On the way an object that can be reached twice shows. If two machines share it, a step of one is
secretly a step of the other.
"""

from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter
from typing import Any, TypeAlias

import attrs
from attrs import define, field

Fields: TypeAlias = tuple[str, ...]
Getter: TypeAlias = Callable[[Any], tuple[Any, ...]]

_VALUES = frozenset({int, bool, str, float, type(None), frozenset})


@define
class Memory:
    """What a system was made of when this was taken."""

    objects: list[tuple[Any, Getter, tuple[Any, ...]]] = field(factory=list[Any])
    containers: list[tuple[Any, Any]] = field(factory=list[Any])
    shared: list[str] = field(factory=list[str])
    """Paths that end at an object which another path has reached already."""

    @classmethod
    def of(cls, system: object) -> "Memory":
        """Remember everything that can be reached from here."""
        memory = cls()
        memory._visit(system, "system", {})
        return memory

    def _visit(self, thing: Any, path: str, known: dict[int, str]) -> None:
        kind: Any = type(thing)  # pyright: ignore[reportUnknownVariableType]
        if kind is tuple:
            self._visit_all(enumerate(thing), path, known)
            return
        if _is_value(kind):
            return
        if id(thing) in known:
            self.shared.append(f"{path} is {known[id(thing)]}")
            return
        known[id(thing)] = path
        if kind is list:
            self.containers.append((thing, thing[:]))
            self._visit_all(enumerate(thing), path, known)
        elif kind is dict:
            self.containers.append((thing, thing.copy()))
            self._visit_all(thing.items(), path, known)
        elif kind is set:
            self.containers.append((thing, thing.copy()))
        else:
            names, get = _shape(kind) if attrs.has(kind) else _fields(tuple(vars(thing)))
            values = get(thing)
            self.objects.append((thing, get, values))
            for name, value in zip(names, values, strict=True):
                if type(value) not in _VALUES:
                    self._visit(value, f"{path}.{name}", known)

    def _visit_all(self, items: Iterable[Any], path: str, known: dict[int, str]) -> None:
        for key, item in items:
            if type(item) not in _VALUES:
                self._visit(item, f"{path}[{key}]", known)

    def changed(self) -> bool:
        """Whether anything is not as it was."""
        return any(get(thing) != values for thing, get, values in self.objects) or any(
            now != then for now, then in self.containers
        )

    def restore(self) -> None:
        """Put everything back as it was."""
        for thing, get, values in self.objects:
            if get(thing) != values:
                for name, value in zip(_names(thing), values, strict=True):
                    setattr(thing, name, value)
        for now, then in self.containers:
            if now != then:
                if type(now) is list:
                    now[:] = then
                else:
                    now.clear()
                    now.update(then)


@cache
def _is_value(kind: type) -> bool:
    """Whether things of this class never change."""
    if kind in _VALUES:
        return True
    return attrs.has(kind) and kind.__setattr__ is not object.__setattr__


def _names(thing: Any) -> Fields:
    kind: type = type(thing)
    return _shape(kind)[0] if attrs.has(kind) else tuple(vars(thing))


@cache
def _shape(kind: type) -> tuple[Fields, Getter]:
    return _fields(tuple(one.name for one in attrs.fields(kind)))


@cache
def _fields(names: Fields) -> tuple[Fields, Getter]:
    if len(names) == 1:
        only = attrgetter(names[0])
        return names, lambda thing: (only(thing),)
    return names, attrgetter(*names)
