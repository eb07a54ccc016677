"""A member by the consumer group protocol (KIP-848): heartbeats, and the assignment in steps."""

from math import inf
from typing import NamedTuple

from attrs import define, field

from refimpl.clients.consumer.membership import Membership, by_topic, names
from refimpl.machines import consumer_membership
from refimpl.machines.consumer_group import LEAVE, LEAVE_FOR_A_WHILE
from refimpl.messages import group as g
from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import Uuid

FENCED = frozenset(("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH"))
AGAIN = frozenset(("UNRELEASED_INSTANCE_ID", "GROUP_ID_NOT_FOUND", "UNKNOWN_SERVER_ERROR"))
#: Before the first answer says how often
FIRST_INTERVAL_MS = 3000
Owned = frozenset[tuple[Uuid, int]]


class Said(NamedTuple):
    """The contents of a heartbeat: everything, or at least the owned partitions."""

    number: int
    everything: bool
    owned: bool


@define(eq=False)
class ReconcilingMembership(Membership):
    """One member; its machine says what it owns, and what it was assigned."""

    machine: consumer_membership.ConsumerMembership = field(
        factory=consumer_membership.ConsumerMembership, init=False
    )
    interval_ms: int = field(default=FIRST_INTERVAL_MS, init=False)
    #: The next heartbeat reports everything
    full: bool = field(default=True, init=False)
    #: It has to report soon that its assignment is taken
    acknowledges: bool = field(default=False, init=False)
    #: The application is being told of a change
    _changing: bool = field(default=False, init=False)
    _number: int = field(default=0, init=False)

    @property
    def group_generation(self) -> int:
        """The member epoch."""
        return self.machine.epoch or g.UNKNOWN_GENERATION

    @property
    def is_member(self) -> bool:
        """True once the group has answered."""
        return self.machine.epoch > 0 and not self.ended

    @property
    def commit_refusal(self) -> str | None:
        """Outside of the group it commits nothing: a group without members takes any commit."""
        return None if self.is_member else "UNKNOWN_MEMBER_ID"

    def subscribe(self, topics: frozenset[str]) -> None:
        """It reads these topics from now on, and says so with its next heartbeat."""
        if topics != self.topics:
            self.topics, self.full, self.next_heartbeat = topics, True, 0

    def run(self, now: int, polling: bool) -> None:
        """Take a step of the assignment, and say that it lives."""
        if self.ended:
            return
        if polling:
            self._reconcile(now)
        if not self.coordinator.is_ready(now):
            self.coordinator.find(now)
            return
        joins = self.machine.epoch == 0
        if self.asking or now < self.not_before or (joins and not polling):
            return
        if joins or self.acknowledges or now >= self.next_heartbeat:
            self._heartbeat(now)

    def due(self, now: int, polling: bool) -> float:
        """When the next heartbeat is."""
        if self.ended:
            return inf
        if not self.coordinator.is_ready(now):
            return self.coordinator.due(now)
        if self.asking or (self.machine.epoch == 0 and not polling):
            return inf
        at_once = self.machine.epoch == 0 or self.acknowledges
        return max(self.not_before, now + 1, 0 if at_once else self.next_heartbeat)

    # The assignment

    def _reconcile(self, now: int) -> None:
        """Give up what is not its own any more; then take what is new, if its topic is known."""
        machine = self.machine
        if self._changing or not self.owner.is_settled or machine.owned == machine.told:
            return
        known = names(self.owner.metadata)
        if any(topic_id not in known for topic_id, _ in machine.told):
            self.owner.metadata.wanted = True
            return
        self._changing = True
        if machine.owned <= machine.told:
            self._take(now)
            return
        gone = self._named(machine.owned - machine.told)
        self.owner.revoke(now, gone, self._revoked)

    def _revoked(self, now: int) -> None:
        self._changing = False
        if not self.machine.owned <= self.machine.told:
            self.machine.revoke()
        if self.machine.owned == self.machine.told:
            self.acknowledges = True
            self.owner.take(now, ())

    def _take(self, now: int) -> None:
        new = self._named(self.machine.told - self.machine.owned)
        self.machine.take()
        self._changing, self.acknowledges = False, True
        self.owner.take(now, new)

    def _named(self, partitions: Owned) -> frozenset[TopicPartition]:
        known = names(self.owner.metadata)
        return frozenset(
            TopicPartition(known[topic_id], number)
            for topic_id, number in partitions
            if topic_id in known
        )

    # Heartbeats

    def _heartbeat(self, now: int) -> None:
        machine, config = self.machine, self.config
        self._number += 1
        owned: Owned | None = machine.reported  # pyright: ignore[reportAssignmentType]
        said = Said(self._number, self.full and owned is not None, owned is not None)
        body = g.ConsumerGroupHeartbeatRequest(
            self.coordinator.key, self.member_id, machine.epoch, config.group_instance_id
        )
        if said.owned and (self.full or self.acknowledges):
            body = body._replace(topic_partitions=_by_id(owned or frozenset()))
        if self.full:
            body = body._replace(
                rack_id=config.client_rack or None,
                rebalance_timeout_ms=config.max_poll_interval_ms,
                subscribed_topic_names=tuple(sorted(self.topics)),
                server_assignor=config.group_remote_assignor,
            )
        self.asking = True
        self.next_heartbeat = now + self.interval_ms
        self.coordinator.ask(now, body, lambda at, one: self._lives(at, one, said))

    def _lives(self, now: int, answer: g.ConsumerGroupHeartbeatResponse | None, said: Said) -> None:
        if said.number != self._number:
            return
        self.asking = False
        error = None if answer is None else answer.error
        if answer is not None and error is None:
            self._heard(now, answer, said)
            return
        self.full = True
        if self._trouble(now, error):
            return
        if error in FENCED:
            self.lost(now, error or "")
        elif error not in AGAIN:
            assert answer is not None
            self.lost(now, error or "")
            self.ended = True
            self._fatal(error or "", answer.error_message or "")

    def _heard(self, now: int, answer: g.ConsumerGroupHeartbeatResponse, said: Said) -> None:
        self.member_id = answer.member_id or self.member_id
        self.interval_ms = answer.heartbeat_interval_ms or self.interval_ms
        self.next_heartbeat = now + self.interval_ms
        if said.everything:
            self.full = False
        if said.owned:
            self.acknowledges = False
        told = None
        if answer.assignment is not None:
            told = {(one.topic_id, number): 0 for one in answer.assignment for number in one[1]}
        self.machine.answered(answer.member_epoch, told)

    def lost(self, now: int, error: str) -> None:
        """Nothing is its own any more, and it joins again."""
        owned = self._named(self.machine.owned)  # pyright: ignore[reportArgumentType]
        self.machine.fenced()
        self._number += 1
        self.full, self.asking, self.acknowledges, self._changing = True, False, False, False
        self.owner.lose(now, owned, lambda at: None)

    def leaving(self) -> g.ConsumerGroupHeartbeatRequest:
        """A static member leaves for a while."""
        instance = self.config.group_instance_id
        epoch = LEAVE if instance is None else LEAVE_FOR_A_WHILE
        return g.ConsumerGroupHeartbeatRequest(
            self.coordinator.key, self.member_id, epoch, instance
        )


def _by_id(owned: Owned) -> tuple[g.TopicIdPartitions, ...]:
    found = by_topic([TopicPartition(*one) for one in owned])  # pyright: ignore
    return tuple(g.TopicIdPartitions(Uuid(id), tuple(numbers)) for id, numbers in found.items())  # pyright: ignore
