"""Members of a classic group, what they ask of it, and what they are answered.

Spec: ClassicGroup. Requests and responses are those of Kafka's JoinGroup and SyncGroup; a request
that waits is known by its token, which the caller chose.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeAlias

from attrs import frozen

Token: TypeAlias = int
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


@frozen
class JoinRequest:
    """Be a member of the next generation.

    `member` is "" for who has no id yet, and `new_id` the id that it shall have then. `protocols`
    are the assignors that it supports, its favourite first, each with its metadata. Who `knows`
    that an id may be required is given one first (KIP-394), and who `can_skip` may be told that it
    leads and need not assign (KIP-814).
    """

    token: Token
    member: str
    protocols: Protocols
    protocol_type: str = "consumer"
    instance: str | None = None
    new_id: str = ""
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    client_id: str = ""
    client_host: str = ""
    knows: bool = True
    can_skip: bool = True

    @property
    def needs_id(self) -> bool:
        """Whether it is given an id, and has to come again with it (KIP-394)."""
        return not self.member and self.instance is None and self.knows


@frozen
class SyncRequest:
    """Tell me what is assigned to me; the leader says what is assigned to whom."""

    token: Token
    member: str
    generation: int
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@frozen
class Member:
    """One member: who it is, what it supports, what it was assigned, and what it waits for.

    `join` and `sync` are the tokens of its parked requests. `is_new` is who has not been answered
    any join: it cannot send heartbeats, for it does not know its id. `absent` is a static member
    of a generation that it has not joined.
    """

    id: str
    protocols: Protocols
    instance: str | None = None
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    client_id: str = ""
    client_host: str = ""
    assignment: bytes = b""
    join: Token | None = None
    sync: Token | None = None
    is_new: bool = False
    absent: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether it lives for sure: a parked request stands for its heartbeats, but for who is
        new and may have given up (KAFKA-9232)."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says to an assignor; nothing to one that it does not support."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """Its favourite among protocols of which it supports one at least."""
        return next(name for name, _ in self.protocols if name in candidates)


def common_protocols(members: Collection[Member]) -> frozenset[str]:
    """The protocols that all members support."""
    votes = Counter(name for member in members for name, _ in dict(member.protocols).items())
    return frozenset(name for name, count in votes.items() if count == len(members))


def select_protocol(members: Collection[Member]) -> str:
    """The protocol with most votes, each member voting for its favourite among the common ones.

    Of those with as many votes it is the first by name; Kafka leaves that to a HashMap.
    """
    candidates = common_protocols(members)
    votes = Counter(member.vote(candidates) for member in members)
    return min(votes, key=lambda name: (-votes[name], name))


@frozen
class JoinResponse:
    """The generation that a member is in; `members` are for the leader alone.

    `error` is the name that Kafka's clients know. With MEMBER_ID_REQUIRED `member` is the id to
    come back with.
    """

    error: str | None
    member: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[Member] = ()


@frozen
class SyncResponse:
    """What is assigned to a member."""

    error: str | None
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@frozen
class HeartbeatResponse:
    """Whether the member is to join the next generation: REBALANCE_IN_PROGRESS then."""

    error: str | None


@frozen
class LeaveResponse:
    """What became of each who wanted to leave: member id, instance id, and the error, if any."""

    left: tuple[tuple[str, str | None, str | None], ...]


Response: TypeAlias = JoinResponse | SyncResponse | HeartbeatResponse | LeaveResponse
