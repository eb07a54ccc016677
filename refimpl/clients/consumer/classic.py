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
FENCED = "FENCED_INSTANCE_ID"
#: JOIN_GROUP_TIMEOUT_LAPSE of Kafka's client
GRACE_MS = 5000


@define(eq=False)
class ClassicMembership(Membership):
    """One member: out of the group, joining, waiting for its assignment, or stable."""

    state: str = OUT
    consumer: ClassicConsumer = field(init=False)
    #: It must join again, as soon as the application polls
    rejoin: bool = field(default=True, init=False)
    #: A join is under way, up to its assignment
    is_joining: bool = field(default=False, init=False)
    #: The listener is called before it joins, and has been
    _preparing: bool = field(default=False, init=False)
    _prepared: bool = field(default=False, init=False)
    #: Kafka's member gives partitions up without another commit once it has joined
    commits_twice: bool = field(default=True, init=False)
    #: The time that a rebalance may take beyond its time-out
    grace_ms: int = field(default=GRACE_MS, init=False)
    #: Its assignment, of which the application hears when it polls
    taken: frozenset[TopicPartition] | None = field(default=None, init=False)
    #: The topics that its last join named
    _joined_topics: frozenset[str] = field(default=frozenset(), init=False)
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
    def _rebalance_timeout_ms(self) -> int:
        """The longest wait for an answer that other members hold up."""
        rebalance = self.config.max_poll_interval_ms + self.grace_ms
        return max(self.config.request_timeout_ms, rebalance)

    @property
    def _owned(self) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(*one) for one in self.consumer.owned)  # pyright: ignore

    def subscribe(self, topics: frozenset[str]) -> None:
        """It reads these topics from now on, and joins with the next poll to say so."""
        self.topics = topics

    # Time

    def run(self, now: int, polling: bool) -> None:
        """Join, sync, or say that it lives."""
        if self.ended:
            return
        if not self.coordinator.is_ready(now):
            if self.coordinator.target is None:
                self._heard_ms = now
            if polling or self.lives:
                self.coordinator.find(now)
            return
        if polling and self.state == STABLE:
            self.rejoin |= self._added() or self.topics != self._joined_topics
        if self.state == ASSIGNING:
            self._assign(now)
        if self.lives:
            self._heartbeat(now)
        if polling and self.taken is not None and self.owner.is_settled:
            taken, self.taken = self.taken, None
            self._take_over(now, taken)
        if polling and self.rejoin and not self.is_joining and now >= self.not_before:
            self._prepare(now)

    def due(self, now: int, polling: bool) -> float:
        """When it has to say that it lives, or may try again."""
        if self.ended:
            return inf
        if not self.coordinator.is_ready(now):
            return self.coordinator.due(now) if polling or self.lives else inf
        due = inf
        if self.lives:
            due = max(min(self.next_heartbeat, self._session_ends), now + 1)
        if polling and self.rejoin and not self.is_joining and now < self.not_before:
            due = min(due, self.not_before)
        return due

    @property
    def rejoins(self) -> bool:
        """True from the time on that it must join, until it has joined."""
        return self.rejoin or self.is_joining

    @property
    def lives(self) -> bool:
        """True if the group waits for its heartbeats."""
        return self.state in (ASSIGNING, SYNCING, STABLE) and not self.ended

    def _added(self) -> bool:
        """True if it leads, and topics have more partitions than it has assigned."""
        return self.consumer.must_assign_again(self._count())

    def _count(self) -> int:
        metadata = self.owner.metadata
        topics = {topic for member in self._members for topic in member.topics}
        return sum(len(metadata.topics[one].partitions) for one in topics & set(metadata.topics))

    # Joining

    def _prepare(self, now: int) -> None:
        """Give up what has to be given up before a join, then join; once for all its attempts."""
        if not self.owner.is_settled or self._preparing:
            return
        if self._prepared:
            self._join(now)
            return
        self._preparing = True
        if self.consumer.cooperative:
            self.owner.revoke(now, (), self._give_up)
        else:
            self.owner.revoke(now, self._owned, self._join)

    def _give_up(self, now: int) -> None:
        """With its positions committed, give up topics to which it is not subscribed any more."""
        gone = frozenset(one for one in self._owned if one.topic not in self.topics)

        def join(at: int) -> None:
            self.consumer.owned -= gone
            self._join(at)

        self.owner.revoke(now, gone, join, commits=False)

    def _join(self, now: int) -> None:
        self._preparing, self._prepared = False, True
        if self.ended or not self.coordinator.is_ready(now):
            return
        consumer = self.consumer
        self._last = tuple(sorted(self._owned)) or self._last
        consumer.prepare_join()
        kept = sorted(self._owned) if consumer.cooperative else self._last
        self.state, self.rejoin, self.is_joining = JOINING, False, True
        self._attempt += 1
        self._joined_topics = self.topics
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
        patience = self._rebalance_timeout_ms
        self.coordinator.ask(
            now, body, lambda at, one: self._joined(at, one, attempt), timeout_ms=patience
        )

    @property
    def _rack(self) -> str | None:
        return self.config.client_rack or None

    def _joined(self, now: int, answer: g.JoinGroupResponse | None, attempt: int) -> None:
        if attempt != self._attempt or self.ended:
            return
        self.rejoin, self.is_joining = True, False
        error = None if answer is None else answer.error
        if answer is not None and error is None:
            self._begin(now, answer)
        elif error == "MEMBER_ID_REQUIRED":
            assert answer is not None
            self.member_id = answer.member_id
        elif not self._trouble(now, error):
            self._refused(now, error or "")

    def _begin(self, now: int, answer: g.JoinGroupResponse) -> None:
        """A generation begins; of one that missed another the partitions may have new owners."""
        self.member_id, before = answer.member_id, self._owned
        self.consumer.joined(answer.generation_id)
        self.rejoin, self.is_joining = False, True
        self._heard_ms = self.joined_ms = now
        self.next_heartbeat = now + self.config.heartbeat_interval_ms
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
        self.state = SYNCING
        if not self.coordinator.is_ready(now):
            self.rejoin, self.is_joining = True, False
            return
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
        patience = self._rebalance_timeout_ms
        self.coordinator.ask(
            now, body, lambda at, one: self._synced(at, one, attempt), timeout_ms=patience
        )

    def _synced(self, now: int, answer: g.SyncGroupResponse | None, attempt: int) -> None:
        if attempt != self._attempt or self.ended:
            return
        self.rejoin, self.is_joining = True, False
        error = None if answer is None else answer.error
        if answer is None or error is not None:
            if not self._trouble(now, error):
                self._refused(now, error or "")
            return
        self.state, self.rejoin, self._prepared = STABLE, False, False
        self.taken = frozenset(sorted_partitions(read_assignment(answer.assignment)))

    def _take_over(self, now: int, assigned: frozenset[TopicPartition]) -> None:
        """Give up what belongs to others now, then own the rest."""
        before = self._owned
        if not {one.topic for one in assigned} <= self.topics:
            self.rejoin = True  # it has subscribed to others since
            return
        gone = before - assigned

        def own(at: int) -> None:
            gives_up = self.consumer.assigned(assigned)
            self.rejoin = self.rejoin or gives_up
            self.owner.take(at, assigned - before)

        self.owner.revoke(now, gone, own, commits=self.commits_twice)

    def _refused(self, now: int, error: str) -> None:
        if error in LOST:
            self.lost(now, error)
        elif error not in ("REBALANCE_IN_PROGRESS", "UNKNOWN_SERVER_ERROR"):
            self._fatal(error, f"the group {self.coordinator.key} does not take this member")

    # Living

    def is_heard(self, now: int) -> bool:
        """True until session.timeout.ms has passed without an answer to a heartbeat."""
        return now < self._session_ends

    @property
    def _session_ends(self) -> int:
        return self._heard_ms + self.config.session_timeout_ms

    def _heartbeat(self, now: int) -> None:
        if not self.is_heard(now):
            self._heard_ms = now
            self.coordinator.unknown(now)
            return
        if now < self.next_heartbeat:
            return
        self.next_heartbeat = now + self.config.heartbeat_interval_ms
        generation = self.group_generation
        body = g.HeartbeatRequest(
            self.coordinator.key, generation, self.member_id, self.config.group_instance_id
        )
        self.coordinator.ask(now, body, lambda at, one: self._heard(at, one, generation))

    def _heard(self, now: int, answer: g.HeartbeatResponse | None, generation: int) -> None:
        """One that fails is sent again soon, and the interval goes on behind it."""
        error = None if answer is None else answer.error
        if answer is not None and error in (None, "REBALANCE_IN_PROGRESS"):
            self._heard_ms = now
            self.rejoin |= error is not None and self.state == STABLE
            return
        self.next_heartbeat = now + self.coordinator.network.backoff.wait_ms(0)
        if self.coordinator.is_trouble(now, error):
            return
        if self.lives and generation == self.group_generation and error is not None:
            self._refused(now, error)
            if error == FENCED:
                self.lost(now, error)

    @property
    def commit_refusal(self) -> str | None:
        """The error of a commit that it may not send now."""
        if self.state == STABLE:
            return None
        return "UNKNOWN_MEMBER_ID" if self.state == OUT else "REBALANCE_IN_PROGRESS"

    def commit_refused(self, now: int, error: str, generation: int) -> None:
        """Join again, if the group says that it rebalances; or with nothing, if it is out."""
        unchanged = generation == self.group_generation
        if error == "REBALANCE_IN_PROGRESS":
            self.rejoin = True
        elif error in LOST and unchanged:
            self.lost(now, error)
        elif error == FENCED and unchanged:
            self.is_fenced = True
            self._fatal(error, "another member has its group.instance.id")

    def lost(self, now: int, error: str) -> None:
        """Nothing is its own any more; it joins again, as itself if the group knows it."""
        owned = self._owned
        self.consumer.lost()
        self._last = ()
        self.state, self.rejoin, self.is_joining = OUT, True, False
        self._preparing = self._prepared = False
        self.taken = None
        self._attempt += 1
        if error != "ILLEGAL_GENERATION":
            self.member_id = ""
        self.owner.lose(now, owned, lambda at: None)

    def leaving(self) -> g.LeaveGroupRequest | None:
        """A static member leaves without a word, and its place is kept (KIP-345)."""
        if self.config.group_instance_id is not None and not self.expired:
            return None
        member = g.LeavingMember(self.member_id, self.config.group_instance_id)
        return g.LeaveGroupRequest(self.coordinator.key, [member])
