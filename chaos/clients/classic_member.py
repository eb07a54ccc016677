"""A member by the classic group protocol (KIP-62, KIP-394, KIP-429)."""

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from chaos.clients.group_member import ANSWER_MS, CommitTag, GroupMember
from chaos.sim.addresses import MISSING, MOST_PARTITIONS, TOPIC
from refimpl.clients.assignors import (
    ASSIGNORS,
    PROTOCOL_TYPE,
    Assignor,
    read_assignment,
    unracked,
    write_assignment,
)
from refimpl.machines.classic_consumer import ClassicConsumer
from refimpl.messages import group as g
from refimpl.messages.broker import Response

UNKNOWN, JOINING, SYNCING, STABLE = "unknown", "joining", "syncing", "stable"
FENCED = frozenset(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID"))
NOT_IN_A_GENERATION = -1


@define(eq=False)
class ClassicMember(GroupMember):
    """One member; its machine decides its owned partitions from one generation to the next."""

    state: str = UNKNOWN
    consumer: ClassicConsumer = field(factory=ClassicConsumer)
    #: The request of its last join: an answer to an earlier one comes by a connection given up
    join_number: int = 0

    def __attrs_post_init__(self) -> None:
        """Know from the start whether partitions are kept while the group rebalances."""
        GroupMember.__attrs_post_init__(self)
        self.consumer = ClassicConsumer(self.assignor.cooperative)

    @property
    def assignor(self) -> Assignor:
        """The group's assignor."""
        return ASSIGNORS[self.simulation.settings.assignor]

    @property
    def group_generation(self) -> int:
        """The generation that it believes to be in."""
        return self.consumer.generation or NOT_IN_A_GENERATION

    @property
    def _topics(self) -> tuple[str, ...]:
        """The topics that it subscribes to: every other member names one that there is not."""
        several = self.simulation.settings.several_subscriptions and self.member % 2
        return (MISSING, TOPIC) if several else (TOPIC,)

    # Time

    def _be_member(self, now: int) -> None:
        if self.state == UNKNOWN:
            if now >= self.next_at:
                self._join()
        elif self.state == STABLE and self.consumer.must_assign_again(self.leaders.partitions):
            self._join()
        elif self.state == STABLE and now >= self.next_heartbeat:
            self.next_heartbeat = now + self.simulation.settings.member_session_ms // 4
            who = self.group_generation, self.member_id, self.instance
            self._ask_coordinator(g.HeartbeatRequest(self.group, *who), self._heartbeat_answered)

    def _patience_ms(self) -> int:
        return ANSWER_MS + (self._rebalance_ms if self.state in (JOINING, SYNCING) else 0)

    def _unanswered(self) -> None:
        if self.state != STABLE:
            self.state = UNKNOWN

    # Joining

    def _join(self) -> None:
        """Join the next generation. An eager member first commits its processed records."""
        if not self.consumer.cooperative:
            self._commit_all(self.owned)
        self.consumer.prepare_join()
        self._own_as_told("revoked")
        self.state = JOINING
        metadata = self.assignor.subscription(
            self._topics, [(TOPIC, one) for one in self.owned], self.group_generation
        )
        session_ms = self.simulation.settings.member_session_ms
        body = g.JoinGroupRequest(
            self.group,
            session_ms,
            self._rebalance_ms,
            self.member_id,
            self.instance,
            PROTOCOL_TYPE,
            ((self.assignor.name, metadata),),
            client_id=f"c{self.member - 1}",
        )
        self.join_number = self.requests + 1
        self._ask_coordinator(body, self._join_answered, self.join_number)

    def _join_answered(self, response: Response, about: int) -> None:
        body: g.JoinGroupResponse = response.body
        if self.state != JOINING or about != self.join_number:
            return
        self.state = UNKNOWN
        match body.error:
            case None:
                self._sync(body)
            case "MEMBER_ID_REQUIRED":
                self.member_id = body.member_id
                self._join()
            case "UNKNOWN_MEMBER_ID" | "FENCED_INSTANCE_ID":
                self._lose(body.error)
            case error:
                self._refused(error)

    def _sync(self, body: g.JoinGroupResponse) -> None:
        """Ask for the assignment; the leader makes it."""
        self.member_id = body.member_id
        self.consumer.joined(body.generation_id)
        self._own_as_told("lost")
        self.state = SYNCING
        assignments: Sequence[tuple[str, bytes]] = ()
        if body.leader == body.member_id:
            members = [self.assignor.member(one.member_id, one.metadata) for one in body.members]
            self.consumer.assigns(self.leaders.partitions)
            topics = unracked({TOPIC: self.leaders.partitions})
            made = self.assignor.assign(members, topics)
            assignments = [(member, write_assignment(parts)) for member, parts in made.items()]
        who = self.group_generation, self.member_id, self.instance
        protocol = PROTOCOL_TYPE, body.protocol_name
        request = g.SyncGroupRequest(self.group, *who, *protocol, assignments)
        self._ask_coordinator(request, self._synced, self.group_generation)

    def _synced(self, response: Response, about: Any) -> None:
        body: g.SyncGroupResponse = response.body
        if self.state != SYNCING or about != self.group_generation:
            return  # a late answer is of a request that was given up, as its connection would be
        self.state = UNKNOWN
        if body.error in FENCED:
            self._lose(body.error)
        elif body.error is not None:
            self._refused(body.error)
        else:
            self._take_over([partition for _, partition in read_assignment(body.assignment)])

    def _refused(self, error: str) -> None:
        if not self._troubled(error):
            self.simulation.counts[f"rejoins: {error}"] += 1

    def _take_over(self, assigned: list[int]) -> None:
        """Own the assigned partitions, after all others are revoked."""
        self.state = STABLE
        self.next_heartbeat = self.simulation.timeline.now
        before = self.owned
        self._commit_all([one for one in before if one not in assigned])
        gives_up = self.consumer.assigned(assigned)
        self._own_as_told("revoked")
        self._took_over(tuple([one for one in self.owned if one not in before]))
        if gives_up:
            self._join()  # in the next generation a revoked partition has another owner

    def _own_as_told(self, left: str) -> None:
        self._own([one for one in range(MOST_PARTITIONS) if one in self.consumer.owned], left)

    def _lose(self, error: str) -> None:
        """The group has gone on without us: nothing is ours any more."""
        self.consumer.lost()
        self._own_as_told("lost")
        if error in ("UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"):
            self.member_id = ""
        self.state = UNKNOWN

    # Answers

    def _commit_refused(self, tag: CommitTag, error: str) -> None:
        if error in FENCED:
            if (tag.member_id, tag.generation) == (self.member_id, self.group_generation):
                self._lose(error)
        elif self.state == STABLE:
            self._join()

    def _heartbeat_answered(self, response: Response, about: Any) -> None:
        error = response.body.error
        if error is None or self.state != STABLE or self._troubled(error):
            return
        if error in FENCED:
            self._lose(error)
        self._join()

    # The process

    def _leaving(self) -> Any:
        """A static member ends without a word, and its session may outlive it."""
        if self.instance is not None:
            return None
        return g.LeaveGroupRequest(self.group, (g.LeavingMember(self.member_id),))

    def _forget(self) -> None:
        GroupMember._forget(self)
        self.state = UNKNOWN
        self.consumer = ClassicConsumer(self.assignor.cooperative)
