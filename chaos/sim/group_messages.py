"""What members of a group and their coordinator say, and what they say of their own steps.

`boot` counts the processes of a member.
"""

from collections.abc import Mapping
from typing import NamedTuple

from refimpl.machines.group import OffsetCommit


class JoinGroupRequest(NamedTuple):
    """A member wants its part; `joined` is the newest generation that it was in."""

    boot: int
    joined: int


class JoinGroupResponse(NamedTuple):
    """The member's partitions in this generation, each with the committed offset."""

    boot: int
    number: int
    generation: int
    assigned: Mapping[int, int]


class HeartbeatRequest(NamedTuple):
    """A member lives."""

    boot: int
    generation: int


class HeartbeatResponse(NamedTuple):
    """The group has moved on: join again."""

    boot: int
    error: str


class LeaveGroupRequest(NamedTuple):
    """A member goes."""

    boot: int


class OffsetCommitRequest(NamedTuple):
    """A member commits what it has passed of a partition."""

    partition: int
    commit: OffsetCommit


class OffsetCommitResponse(NamedTuple):
    """Whether the commit was taken."""

    partition: int
    commit: OffsetCommit
    error: str | None


# Observations


class Rebalanced(NamedTuple):
    """A new generation began."""

    partition: int
    generation: int
    owner: int


class JoinAnswered(NamedTuple):
    """The coordinator told a member that a partition is its, in the answer of this number."""

    partition: int
    member: int
    number: int


class Joined(NamedTuple):
    """A member took a partition over, at this offset."""

    partition: int
    member: int
    number: int
    generation: int
    committed: int


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


class CommitSent(NamedTuple):
    """A member sent a commit."""

    partition: int
    member: int


class CommitReceived(NamedTuple):
    """The coordinator took a commit; `again`, if it had come before."""

    partition: int
    commit: OffsetCommit
    before: int
    again: bool


class MemberCrashed(NamedTuple):
    """A member's process ended."""

    partition: int
    member: int


# Observations of members of a group that brokers coordinate


class Assigned(NamedTuple):
    """A member has its part in a generation."""

    member: int
    member_id: str
    generation: int
    partitions: tuple[int, ...]


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


class CommitAnswered(NamedTuple):
    """A member was told that its commit, of this member id, generation and number, is taken."""

    partition: int
    member: int
    tag: tuple[str, int, int]
