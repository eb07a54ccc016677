"""A faster constructor for named tuples that are made very often: it takes half the time."""

from typing import Any, Protocol, TypeVar, cast

T = TypeVar("T", bound=tuple[Any, ...])


class _Named(Protocol):
    def __call__(self, kind: type[T], fields: tuple[Any, ...], /) -> T: ...


named = cast("_Named", tuple.__new__)  # pyright: ignore[reportUnknownMemberType]
"""`named(Kind, fields)` is `Kind(*fields)`: 0.1 µs instead of 0.2, for no Python runs in between.

Nobody counts the fields, so it is for the few places where a message or an observation is made in
every event, and names all of them.
"""
