"""What members of a group say of their own steps."""

from typing import NamedTuple


class Assigned(NamedTuple):
    """A member has its part in a generation, or member epoch."""

    member: int
    member_id: str
    generation: int
    partitions: tuple[int, ...]


class Told(NamedTuple):
    """A member was told its epoch, and what it shall own if there is news of that (KIP-848)."""

    member: int
    member_id: str
    epoch: int
    partitions: frozenset[int] | None


class FetchSent(NamedTuple):
    """A member asks for committed offsets, in the request of this number."""

    member: int
    number: int


class OffsetFetched(NamedTuple):
    """A member was told what is committed, or -1."""

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
    """A member was told that its commit, of this member id, generation and number, is taken."""

    partition: int
    member: int
    tag: tuple[str, int, int]
