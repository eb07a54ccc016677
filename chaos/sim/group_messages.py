"""The observations that members of a group make of their own steps."""

from typing import NamedTuple


class Assigned(NamedTuple):
    """A member has its part in a generation, or member epoch."""

    member: int
    member_id: str
    generation: int
    partitions: tuple[int, ...]


class Told(NamedTuple):
    """A member received its epoch, and its new assignment if there is one (KIP-848)."""

    member: int
    member_id: str
    epoch: int
    partitions: frozenset[int] | None


class FetchSent(NamedTuple):
    """A member asks for committed offsets, in the request of this number."""

    member: int
    number: int


class OffsetFetched(NamedTuple):
    """A member received a committed offset, or -1."""

    partition: int
    member: int
    number: int
    offset: int


class Joined(NamedTuple):
    """A member begins to read a partition, at this offset."""

    partition: int
    member: int
    generation: int
    offset: int


class Polled(NamedTuple):
    """A member was handed the record before this position."""

    partition: int
    member: int
    position: int


class Processed(NamedTuple):
    """A member processed the record before this position."""

    partition: int
    member: int
    done: int


class CommitAnswered(NamedTuple):
    """A member's commit, with this member id, generation and number, was acknowledged."""

    partition: int
    member: int
    tag: tuple[str, int, int]
