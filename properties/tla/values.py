"""TLA+ values as plain, hashable Python values, and their three notations.

Equal TLA+ values are equal Python values in every notation: `1..3` is `{1, 2, 3}`, and a
function with domain `1..n` is the sequence it is equal to in TLA+.

| TLA+                               | Python                     | in a protocol event        |
|------------------------------------|----------------------------|----------------------------|
| number, boolean, string            | `int`, `bool`, `str`       | the same                   |
| sequence, function on `1..n`       | `tuple`                    | list                       |
| set                                | `frozenset`                | `{"set": [...]}`           |
| record, function on strings        | `Rec`                      | object                     |
| any other function                 | `Rec`                      | `{"fun": [[k, v], ...]}`   |
| model value                        | `ModelValue`               | `{"model": "name"}`        |
"""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from attrs import frozen

# A recursive alias would make every caller narrow at each step; canonical values are built by
# this module and compared as wholes, so "hashable" is the promise that matters.
Value: TypeAlias = Any

#: The field of a `Rec`'s keys.
_KEYS = slice(1, None, 2)


class Rec(tuple[Value, ...]):
    """A record, or a function whose domain is not `1..n`: a mapping that can be hashed.

    It is a tuple `(..., key, value, key, value)` in key order underneath, so that hashing and
    comparing run at C speed; the leading `...`, which no TLA+ value contains, keeps it apart
    from the sequence with the same elements. `Rec.of` and `Rec.function` build one.
    """

    __slots__ = ()

    @classmethod
    def of(cls, **fields: Value) -> "Rec":
        """The record with these fields."""
        flat: list[Value] = [...]
        for key in sorted(fields):
            flat += (key, fields[key])
        return cls(flat)

    @classmethod
    def function(cls, pairs: Iterable[tuple[Value, Value]]) -> Value:
        """The function with these `(argument, value)` pairs: a tuple if its domain is `1..n`."""
        mapping = dict(pairs)
        count = len(mapping)
        if all(isinstance(key, int) for key in mapping) and mapping.keys() == {
            *range(1, count + 1)
        }:
            return tuple(mapping[index] for index in range(1, count + 1))
        flat: list[Value] = [...]
        for key in sorted(mapping, key=order):
            flat += (key, mapping[key])
        return cls(flat)

    def items(self) -> Iterator[tuple[Value, Value]]:
        flat = super().__iter__()
        next(flat)
        return zip(flat, flat, strict=True)

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return super().__len__() // 2

    def __contains__(self, key: object) -> bool:
        return any(key == known for known in self)

    def __getitem__(self, key: Value) -> Value:  # pyright: ignore[reportIncompatibleMethodOverride]
        cell = super().__getitem__
        try:
            return cell(2 * cell(_KEYS).index(key) + 2)
        except ValueError:
            raise KeyError(key) from None

    def replace(self, **fields: Value) -> "Rec":
        """The same record with these fields changed: TLA+'s EXCEPT."""
        return Rec.of(**{**dict(self.items()), **fields})

    def __repr__(self) -> str:
        return f"Rec({dict(self.items())!r})"


@frozen
class ModelValue:
    """A constant that is equal to itself and to nothing else."""

    name: str


def order(value: Value) -> tuple[Any, ...]:
    """A key that sorts canonical values of any mixture, the same way in every run."""
    if isinstance(value, bool):
        return (0, value)
    if isinstance(value, int):
        return (1, value)
    if isinstance(value, str):
        return (2, value)
    if isinstance(value, ModelValue):
        return (3, value.name)
    if isinstance(value, Rec):
        return (5, len(value), tuple((order(key), order(item)) for key, item in value.items()))
    if isinstance(value, frozenset):
        members = cast("frozenset[Value]", value)
        return (6, len(members), tuple(sorted(order(member) for member in members)))
    return (4, len(value), tuple(order(item) for item in value))
