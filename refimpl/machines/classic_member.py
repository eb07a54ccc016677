"""Members of a classic group, their requests, and the responses to them.

Spec: ClassicGroup. Requests and responses are those of Kafka's JoinGroup and SyncGroup. A token,
chosen by the caller, names a request that waits.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeAlias

from attrs import frozen

Token: TypeAlias = int
Protocols: TypeAlias = tuple[tuple[str, bytes], ...]


@frozen
class JoinRequest:
    """A JoinGroup request: become a member of the next generation.

    `member` is "" for a client without an id, and `new_id` the id that it will get. `protocols` are
    the assignors that it supports, its favourite first, each with its metadata. A client that
    `knows` MEMBER_ID_REQUIRED is given an id first (KIP-394). One that `can_skip` may lead without
    assigning (KIP-814).
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
        """True if the client is given an id, and has to join again with it (KIP-394)."""
        return not self.member and self.instance is None and self.knows


@frozen
class SyncRequest:
    """A SyncGroup request: ask for the assignment; the leader's carries all assignments."""

    token: Token
    member: str
    generation: int
    instance: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@frozen
class ClassicGroupMember:
    """One member: its identity, its protocols, its assignment, and its parked requests.

    `join` and `sync` are the tokens of its parked requests. `is_new` is true until a first join is
    answered: before that it does not know its id, so it cannot send heartbeats. `absent` is a
    static member of a generation that it has not joined.
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
        """True if a parked request shows that the member lives, as heartbeats would.

        A new member is excepted: it may have given up (KAFKA-9232).
        """
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for an assignor; empty for one that it does not support."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        """Its favourite among these protocols; it supports at least one of them."""
        return next(name for name, _ in self.protocols if name in candidates)


def common_protocols(members: Collection[ClassicGroupMember]) -> frozenset[str]:
    """The protocols that all members support."""
    votes = Counter(name for member in members for name, _ in dict(member.protocols).items())
    return frozenset(name for name, count in votes.items() if count == len(members))


def select_protocol(members: Collection[ClassicGroupMember]) -> str:
    """The protocol with most votes, each member voting for its favourite among the common ones.

    A tie goes to the first by name; Kafka leaves that to a HashMap.
    """
    candidates = common_protocols(members)
    votes = Counter(member.vote(candidates) for member in members)
    return min(votes, key=lambda name: (-votes[name], name))


@frozen
class JoinResponse:
    """The generation that a member is in; `members` are for the leader alone.

    `error` is Kafka's name of the error. With MEMBER_ID_REQUIRED, `member` is the id to join again
    with.
    """

    error: str | None
    member: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: Sequence[ClassicGroupMember] = ()


@frozen
class SyncResponse:
    """The assignment of a member."""

    error: str | None
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@frozen
class HeartbeatResponse:
    """The answer to a heartbeat: REBALANCE_IN_PROGRESS if the member is to join the next
    generation.
    """

    error: str | None


@frozen
class LeaveResponse:
    """The result for each leaving member: member id, instance id, and the error, if any."""

    left: tuple[tuple[str, str | None, str | None], ...]


Response: TypeAlias = JoinResponse | SyncResponse | HeartbeatResponse | LeaveResponse
