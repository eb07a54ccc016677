"""A member by the consumer group protocol (KIP-848)."""

from typing import Any, NamedTuple

from attrs import define, field

from chaos.clients.group_member import RETRY_MS, GroupMember
from chaos.sim.addresses import MISSING, TOPIC, TOPIC_ID
from chaos.sim.group_messages import Told
from refimpl.machines.consumer_group import LEAVE, LEAVE_FOR_A_WHILE, Owned
from refimpl.machines.consumer_membership import ConsumerMembership
from refimpl.messages import group as g
from refimpl.messages.broker import Response
from refimpl.records.schema import Uuid

FENCED = frozenset(("UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH", "GROUP_ID_NOT_FOUND"))
ORDERS = Uuid(TOPIC_ID)
#: Names and regular expressions; each member has one of them
SUBSCRIPTIONS = (((TOPIC,), None), ((), "ord.*"), ((MISSING,), "o.*s"))


class Said(NamedTuple):
    """A sent heartbeat: its number, and its content (everything, or at least owned partitions)."""

    number: int
    everything: bool
    owned: bool


@define(eq=False)
class ConsumerMember(GroupMember):
    """One member. Its machine decides its epoch, its owned partitions, and those assigned to it.

    One heartbeat is in flight at a time. After an unanswered one, the next reports everything.
    """

    membership: ConsumerMembership = field(factory=ConsumerMembership)
    #: The heartbeat that is under way, 0 for none
    waits_for: int = 0
    #: True if the next heartbeat must report everything, and the owned partitions
    full: bool = True
    acknowledges: bool = False
    #: The time at which the application lets the revoked partitions go
    revokes_at: int = 0

    @property
    def group_generation(self) -> int:
        """The latest member epoch that it received."""
        return self.membership.epoch

    @property
    def _subscription(self) -> tuple[tuple[str, ...], str | None]:
        """The names of topics, and the regular expression, by which it reads the topic."""
        several = self.simulation.settings.several_subscriptions
        return SUBSCRIPTIONS[self.member % len(SUBSCRIPTIONS)] if several else ((TOPIC,), None)

    # Time

    def _take_part(self, now: int) -> None:
        self._reconcile(now)
        GroupMember._take_part(self, now)

    def _be_member(self, now: int) -> None:
        if not self.waits_for and now >= self.next_at:
            news = self.acknowledges or not self.membership.epoch
            if news or now >= self.next_heartbeat:
                self._heartbeat(now)

    def _unanswered(self) -> None:
        self.waits_for, self.full = 0, True

    # The target assignment

    def _reconcile(self, now: int) -> None:
        """Revoke partitions when the application lets go of them; then take the new ones."""
        membership = self.membership
        if membership.owned == membership.told:
            return
        if not membership.owned <= membership.told:
            if now < self.revokes_at:
                return
            kept = membership.owned & membership.told
            self._commit_all([number for _, number in sorted(membership.owned - kept)])
            membership.revoke()
            self._own_as_told("revoked")
        if membership.owned != membership.told:
            before = self.owned
            membership.take()
            self._own_as_told("revoked")
            self._took_over(tuple([one for one in self.owned if one not in before]))
        self.acknowledges = True

    def _own_as_told(self, left: str) -> None:
        self._own([number for _, number in self.membership.owned], left)

    # Heartbeats

    def _heartbeat(self, now: int) -> None:
        membership, settings = self.membership, self.simulation.settings
        self.next_heartbeat = now + settings.member_session_ms // 4
        owned = membership.reported
        said = Said(self.requests + 1, self.full and owned is not None, owned is not None)
        who = self.member_id, membership.epoch, self.instance
        body = g.ConsumerGroupHeartbeatRequest(self.group, *who)
        if said.owned and (self.full or self.acknowledges):
            body = body._replace(topic_partitions=_by_topic(owned or frozenset()))
        if said.everything:
            names, regex = self._subscription
            body = body._replace(
                rebalance_timeout_ms=self._rebalance_ms,
                subscribed_topic_names=names,
                subscribed_topic_regex=regex,
            )
        self.waits_for = said.number
        self._ask_coordinator(body, self._heartbeat_answered, said)

    def _heartbeat_answered(self, response: Response, said: Said) -> None:
        body: g.ConsumerGroupHeartbeatResponse = response.body
        if said.number != self.waits_for:
            return  # it was given up
        self.waits_for = 0
        if body.error is None:
            self._told(body, said)
        elif body.error in FENCED:
            self.simulation.counts[f"members fenced: {body.error}"] += 1
            self._lose()
        else:
            self.full = True
            if not self._troubled(body.error):
                self._wait_for_instance(body.error)

    def _wait_for_instance(self, error: str) -> None:
        """The earlier process of a static member is a member until its session is over."""
        if error == "UNRELEASED_INSTANCE_ID":
            self.simulation.counts["static members that wait for their instance"] += 1
            self.next_at = self.simulation.timeline.now + RETRY_MS

    def _told(self, body: g.ConsumerGroupHeartbeatResponse, said: Said) -> None:
        now, membership = self.simulation.timeline.now, self.membership
        if said.everything:
            self.full = False
        if said.owned:
            self.acknowledges = False
        told = None if body.assignment is None else _partitions(body.assignment)
        was_done = membership.reported is not None
        membership.answered(body.member_epoch, told)
        numbers = None if told is None else frozenset(number for _, number in told)
        self._say(Told(self.member, self.member_id, body.member_epoch, numbers))
        if was_done and not membership.owned <= membership.told:
            hesitates = self.simulation.rng.random() * self.simulation.settings.member_session_ms
            self.revokes_at = now + int(hesitates)
        self._reconcile(now)

    def _lose(self) -> None:
        """The group has gone on without us: nothing is ours any more, and we join again."""
        self.membership.fenced()
        self._own_as_told("lost")
        self.full = True

    def _reader(self) -> tuple[str | None, int]:
        return self.member_id, self.membership.epoch

    # The process

    def _leaving(self) -> Any:
        """A static member leaves for a while."""
        instance = self.instance
        epoch = LEAVE if instance is None else LEAVE_FOR_A_WHILE
        return g.ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch, instance)

    def subscribe(self) -> None:
        """Send a subscription; the id is for the life of the process (KIP-1082)."""
        GroupMember.subscribe(self)
        self.member_id = self.process

    def _forget(self) -> None:
        GroupMember._forget(self)
        self.membership = ConsumerMembership()
        self.waits_for, self.full, self.acknowledges = 0, True, False


def _partitions(assignment: tuple[g.TopicIdPartitions, ...]) -> Owned:
    return {(topic_id, number): 0 for topic_id, numbers in assignment for number in numbers}


def _by_topic(owned: frozenset[tuple[Uuid, int]]) -> tuple[g.TopicIdPartitions, ...]:
    numbers = tuple(sorted(number for _, number in owned))
    return (g.TopicIdPartitions(ORDERS, numbers),) if numbers else ()
