"""A member by the classic group protocol (KIP-62, KIP-345, KIP-394, KIP-429).

Joining waits for the application's poll, as in Kafka: until then it may be working on records. The
machine of `ClassicConsumer` says what it owns from one generation to the next.
"""

from math import inf

from attrs import define, field

from refimpl.clients.assignors import (
    PROTOCOL_TYPE,
    Assignor,
    Member,
    read_assignment,
    unracked,
    write_assignment,
)
from refimpl.clients.consumer.membership import Membership, sorted_partitions
from refimpl.errors import Refusal
from refimpl.machines.classic_consumer import ClassicConsumer
from refimpl.messages import group as g
from refimpl.messages.broker import TopicPartition

OUT, JOINING, ASSIGNING, SYNCING, STABLE = "out", "joining", "assigning", "syncing", "stable"
LOST = frozenset(("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"))
#: What a rebalance may take longer than its time-out
GRACE_MS = 5000


@define(eq=False)
class ClassicMembership(Membership):
    """One member: out of the group, joining, waiting for its assignment, or stable."""

    state: str = OUT
    consumer: ClassicConsumer = field(init=False)
    #: It must join again, as soon as the application polls
    rejoin: bool = field(default=True, init=False)
    #: The listener is called before it joins
    _preparing: bool = field(default=False, init=False)
    _protocol: str | None = field(default=None, init=False)
    _assignor: Assignor = field(init=False)
    _members: tuple[Member, ...] = field(default=(), init=False)
    #: What it owned last, which a sticky assignor is told
    _last: tuple[tuple[str, int], ...] = field(default=(), init=False)
    _heard_ms: int = field(default=0, init=False)
    #: An answer to an earlier attempt is not one to this
    _attempt: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Keep partitions during a rebalance if all assignors can."""
        self._assignor = self.config.assignors[0]
        self.consumer = ClassicConsumer(all(one.cooperative for one in self.config.assignors))

    @property
    def group_generation(self) -> int:
        """The generation that it is in."""
        return self.consumer.generation or g.UNKNOWN_GENERATION

    @property
    def is_member(self) -> bool:
        """True once it has joined, or a member id was reserved for it."""
        return bool(self.member_id) and not self.ended

    @property
    def _owned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(*one) for one in self.consumer.owned)  # pyright: ignore

    def subscribe(self, topics: frozenset[str]) -> None:
        """It reads these topics from now on, and joins to say so."""
        if topics != self.topics:
            self.topics, self.rejoin = topics, True

    # Time

    def run(self, now: int, polling: bool) -> None:
        """Join, sync, or say that it lives."""
        if self.ended:
            return
        if not self.coordinator.is_ready(now):
            self.coordinator.find(now)
            return
        if self.state == STABLE and self._added():
            self.rejoin = True
        if self.state == ASSIGNING:
            self._assign(now)
        elif (self.state == STABLE and not self.rejoin) or (self.state == STABLE and not polling):
            self._heartbeat(now)
        elif polling and self.state in (OUT, STABLE) and self.rejoin and now >= self.not_before:
            self._prepare(now)

    def due(self, now: int, polling: bool) -> float:
        """When it has to say that it lives, or may try again."""
        if self.ended:
            return inf
        if not self.coordinator.is_ready(now):
            return self.coordinator.due(now)
        if self.state == STABLE:
            return inf if self.asking else max(self.next_heartbeat, now + 1)
        if self.state == OUT and polling and not self._preparing:
            return max(self.not_before, now + 1)
        return inf

    def _added(self) -> bool:
        """True if it leads, and topics have more partitions than it has assigned."""
        return self.consumer.must_assign_again(self._count())

    def _count(self) -> int:
        metadata = self.owner.metadata
        topics = {topic for member in self._members for topic in member.topics}
        return sum(len(metadata.topics[one].partitions) for one in topics & set(metadata.topics))

    # Joining

    def _prepare(self, now: int) -> None:
        """Give up what has to be given up before a join, then join."""
        if not self.owner.is_settled or self._preparing:
            return
        self._preparing = True
        owned = self._owned
        if self.consumer.cooperative:
            owned = frozenset(one for one in owned if one.topic not in self.topics)
        self.owner.revoke(now, owned, self._join)

    def _join(self, now: int) -> None:
        self._preparing = False
        if self.ended or not self.coordinator.is_ready(now):
            return
        consumer = self.consumer
        self._last = tuple(sorted(self._owned)) or self._last
        consumer.prepare_join()
        if consumer.cooperative:
            consumer.owned = frozenset(one for one in self._owned if one.topic in self.topics)
        kept = sorted(self._owned) if consumer.cooperative else self._last
        self.state, self.rejoin, self.asking = JOINING, False, True
        self._attempt += 1
        attempt, config = self._attempt, self.config
        protocols = [
            (one.name, one.subscription(self.topics, kept, self.group_generation, self._rack))
            for one in config.assignors
        ]
        body = g.JoinGroupRequest(
            self.coordinator.key,
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            self.member_id,
            config.group_instance_id,
            PROTOCOL_TYPE,
            protocols,
            client_id=config.client_id,
        )
        patience = max(config.request_timeout_ms, config.max_poll_interval_ms + GRACE_MS)
        self.coordinator.ask(
            now, body, lambda at, one: self._joined(at, one, attempt), timeout_ms=patience
        )

    @property
    def _rack(self) -> str | None:
        return self.config.client_rack or None

    def _joined(self, now: int, answer: g.JoinGroupResponse | None, attempt: int) -> None:
        if self.state != JOINING or attempt != self._attempt:
            return
        self.state, self.rejoin, self.asking = OUT, True, False
        error = None if answer is None else answer.error
        if answer is not None and error is None:
            self._begin(now, answer)
        elif error == "MEMBER_ID_REQUIRED":
            assert answer is not None
            self.member_id = answer.member_id
            self._join(now)
        elif not self._trouble(now, error):
            self._refused(now, error or "")

    def _begin(self, now: int, answer: g.JoinGroupResponse) -> None:
        """A generation begins; of one that missed another the partitions may have new owners."""
        self.member_id, before = answer.member_id, self._owned
        self.consumer.joined(answer.generation_id)
        self.rejoin = False
        self._heard_ms = now
        self._protocol = answer.protocol_name
        named = [one for one in self.config.assignors if one.name == answer.protocol_name]
        self._assignor = named[0] if named else self._assignor
        self._members = ()
        if gone := before - self._owned:
            self.owner.lose(now, gone, lambda at: None)
        if answer.leader != answer.member_id or answer.skip_assignment:
            self._sync(now, ())
            return
        try:
            read = self._assignor.member
            self._members = tuple(
                read(one.member_id, one.metadata, one.group_instance_id) for one in answer.members
            )
        except Refusal as refusal:
            self._fatal("INCONSISTENT_GROUP_PROTOCOL", f"a member's subscription: {refusal}")
            return
        self.state = ASSIGNING
        for topic in {topic for one in self._members for topic in one.topics}:
            self.owner.metadata.use(topic, now)
        self._assign(now)

    def _assign(self, now: int) -> None:
        """The leader assigns, once it knows of all topics that anybody reads."""
        metadata = self.owner.metadata
        topics = {topic for one in self._members for topic in one.topics}
        counts: dict[str, int] = {}
        for name in topics:
            topic = metadata.use(name, now)
            if not topic.partitions and topic.error is None:
                return
            if topic.partitions:
                counts[name] = len(topic.partitions)
        self.consumer.assigns(sum(counts.values()))
        made = self._assignor.assign(self._members, unracked(counts))
        self._sync(now, [(member, write_assignment(parts)) for member, parts in made.items()])

    def _sync(self, now: int, assignments: "list[tuple[str, bytes]] | tuple[()]") -> None:
        if not self.coordinator.is_ready(now):
            self.state, self.rejoin = OUT, True
            return
        self.state, self.asking = SYNCING, True
        body = g.SyncGroupRequest(
            self.coordinator.key,
            self.group_generation,
            self.member_id,
            self.config.group_instance_id,
            PROTOCOL_TYPE,
            self._protocol,
            assignments,
        )
        attempt = self._attempt
        patience = max(self.config.request_timeout_ms, self.config.max_poll_interval_ms + GRACE_MS)
        self.coordinator.ask(
            now, body, lambda at, one: self._synced(at, one, attempt), timeout_ms=patience
        )

    def _synced(self, now: int, answer: g.SyncGroupResponse | None, attempt: int) -> None:
        if self.state != SYNCING or attempt != self._attempt:
            return
        self.state, self.rejoin, self.asking = OUT, True, False
        error = None if answer is None else answer.error
        if answer is None or error is not None:
            if not self._trouble(now, error):
                self._refused(now, error or "")
            return
        self.state, self.rejoin = STABLE, False
        self._heard_ms = now
        self.next_heartbeat = now + self.config.heartbeat_interval_ms
        self._take_over(now, frozenset(sorted_partitions(read_assignment(answer.assignment))))

    def _take_over(self, now: int, assigned: frozenset[TopicPartition]) -> None:
        """Give up what belongs to others now, then own the rest."""
        before = self._owned
        gone = before - assigned

        def own(at: int) -> None:
            gives_up = self.consumer.assigned(assigned)
            self.rejoin = self.rejoin or gives_up
            self.owner.take(at, assigned - before)

        self.owner.revoke(now, gone, own)

    def _refused(self, now: int, error: str) -> None:
        if error in LOST:
            self.lost(now, error)
        elif error not in ("REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR"):
            self.lost(now, error)
            self._fatal(error, f"the group {self.coordinator.key} does not take this member")

    # Living

    def _heartbeat(self, now: int) -> None:
        if now - self._heard_ms >= self.config.session_timeout_ms:
            self._heard_ms = now
            self.coordinator.unknown(now)
            return
        if self.asking or now < self.next_heartbeat:
            return
        self.asking = True
        self.next_heartbeat = now + self.config.heartbeat_interval_ms
        generation = self.group_generation
        body = g.HeartbeatRequest(
            self.coordinator.key, generation, self.member_id, self.config.group_instance_id
        )
        self.coordinator.ask(now, body, lambda at, one: self._lives(at, one, generation))

    def _lives(self, now: int, answer: g.HeartbeatResponse | None, generation: int) -> None:
        if self.state != STABLE or generation != self.group_generation:
            return
        self.asking = False
        error = None if answer is None else answer.error
        if answer is not None and error is None:
            self._heard_ms = now
        elif error == "REBALANCE_IN_PROGRESS":
            self._heard_ms = now
            self.rejoin = True
        elif not self._trouble(now, error):
            self._refused(now, error or "")

    def rejected(self, now: int) -> None:
        """A commit was refused because the group rebalances."""
        self.rejoin = True

    def lost(self, now: int, error: str) -> None:
        """Nothing is its own any more; it joins again, as itself if the group knows it."""
        owned = self._owned
        self.consumer.lost()
        self._last = ()
        self.state, self.rejoin, self.asking, self._preparing = OUT, True, False, False
        self._attempt += 1
        if error == "UNKNOWN_MEMBER_ID":
            self.member_id = ""
        self.owner.lose(now, owned, lambda at: None)

    def leaving(self) -> g.LeaveGroupRequest | None:
        """A static member leaves without a word, and its place is kept (KIP-345)."""
        if self.config.group_instance_id is not None and not self.expired:
            return None
        member = g.LeavingMember(self.member_id, self.config.group_instance_id)
        return g.LeaveGroupRequest(self.coordinator.key, [member])
