"""The project's own consumer, hosted in a run: `refimpl.clients.consumer` on simulated time.

It is a member of the group, by either protocol, and judged as the others are. Every other member
commits automatically, unless it must commit before it processes. The commits of a member carry
their identity in their metadata, which the host adds to each request.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.clients.connected import ConnectedClient
from chaos.clients.group_member import ZOMBIE, CommitTag
from chaos.clients.member_process import MemberProcess, described, identity
from chaos.sim import group_messages as o
from chaos.sim.addresses import (
    BROKERS,
    GROUP,
    MISSING,
    TICK,
    TOPIC,
    TOPIC_ID,
    Restart,
    Tick,
)
from chaos.sim.history import Call
from chaos.sim.settings import Settings
from chaos.sim.simulation import Simulation
from refimpl.clients.consumer.classic import ClassicMembership
from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import (
    CallDone,
    Called,
    CallFailed,
    CallListener,
    CloseConsumer,
    CommitOffsets,
    Disconnect,
    Poll,
    Polled,
)
from refimpl.clients.consumer.position import FETCHING, VALIDATING, Position
from refimpl.clients.consumer.records import Read
from refimpl.machines.log import Record
from refimpl.messages import group as g
from refimpl.messages.broker import (
    MetadataResponse,
    Request,
    Response,
    Timer,
    TopicPartition,
)
from refimpl.records.schema import Uuid

RETRY_MS, RETRY_MAX_MS, MAX_AGE_MS, READ_WAIT_MS = 20, 100, 300, 50
POLL_MS, CLOSE_MS, GRACE_MS = 100, 500, 100
AT_ONCE = 4
"""Records that an application processes in one tick."""
AHEAD = 50
"""Records that wait for an application which polls on meanwhile."""


class ReadRecord(NamedTuple):
    """A record as the application gets it."""

    offset: int
    record: Record


@define
class ReadBatch:
    """Records that one leader has written, one behind the other."""

    base_offset: int
    records: Sequence[ReadRecord]
    leader_epoch: int
    producer_id: int = -1
    is_transactional: bool = False
    is_control: bool = False
    is_abort: bool = False

    @property
    def next_offset(self) -> int:
        """The offset behind the last one."""
        return self.base_offset + len(self.records)

    def read(self, offset: int) -> Read:
        """Those from an offset on."""
        return Read(self.records[max(0, offset - self.base_offset) :])


@define(eq=False)
class ValuesOpener:
    """Reads records in memory, which begin where they were asked for: at the position."""

    positions: dict[TopicPartition, Position] = field(factory=dict[TopicPartition, Position])

    def batches(self, partition: TopicPartition, data: Sequence[Record]) -> Iterator[ReadBatch]:
        """A batch for each leader epoch."""
        start = self.positions[partition].offset
        records = [ReadRecord(offset, one) for offset, one in enumerate(data, start)]
        first = 0
        for at in range(1, len(records) + 1):
            epoch = records[first].record.epoch
            if at == len(records) or records[at].record.epoch != epoch:
                yield ReadBatch(start + first, records[first:at], epoch)
                first = at


def config_of(settings: Settings, member: int, automatic: bool) -> ConsumerConfig:
    """The settings of one consumer of a run, under Kafka's names."""
    given: dict[str, Any] = {
        "group.id": GROUP,
        "group.protocol": settings.group_protocol,
        "client.id": f"c{member - 1}",
        "enable.auto.commit": automatic,
        "auto.commit.interval.ms": settings.commit_ms,
        "auto.offset.reset": "earliest",
        "max.poll.records": 2 * AT_ONCE,
        "max.poll.interval.ms": 2 * settings.member_session_ms,
        "fetch.max.wait.ms": READ_WAIT_MS,
        "fetch.max.bytes": settings.read_limit,
        "max.partition.fetch.bytes": settings.read_limit,
        "request.timeout.ms": max(settings.request_timeout_ms, 2 * READ_WAIT_MS),
        "default.api.timeout.ms": settings.delivery_timeout_ms,
        "metadata.max.age.ms": MAX_AGE_MS,
        "allow.auto.create.topics": False,
        "retry.backoff.ms": RETRY_MS,
        "retry.backoff.max.ms": RETRY_MAX_MS,
        "reconnect.backoff.ms": RETRY_MS,
        "reconnect.backoff.max.ms": RETRY_MAX_MS,
    }
    if settings.group_protocol == "classic":
        given["session.timeout.ms"] = settings.member_session_ms
        given["heartbeat.interval.ms"] = settings.member_session_ms // 4
        given["partition.assignment.strategy"] = [settings.assignor]
    if settings.static_members:
        given["group.instance.id"] = f"i{member}"
    return ConsumerConfig.of(given)


class SentCommit(NamedTuple):
    """An OffsetCommit request: its identity, and the calls of the history."""

    tag: CommitTag
    calls: dict[int, Call]


@define(eq=False)
class ReferenceConsumer(MemberProcess):
    """One member of the group; a crash ends its process, and another boot follows."""

    id: int
    simulation: Simulation
    machine: ConsumerMachine = field(init=False)
    connected: ConnectedClient = field(init=False)
    up: bool = True
    boot: int = 0
    paused_until: int = 0
    owned: tuple[int, ...] = ()
    commits: int = 0
    #: Records that the application has, and has not processed
    todo: deque[tuple[int, ReadRecord]] = field(factory=deque[tuple[int, ReadRecord]])
    #: The call that the application waits for: poll, commit or close; "" for none
    waits_for: str = ""
    committed_at: int = 0
    #: A commit before the work has failed: what it covered is passed over, and committed still
    owes_commit: bool = False
    #: Partitions whose position is not known, and how it came to that
    unplaced: dict[int, str] = field(factory=dict[int, str])
    #: The position of each partition, as it was last seen
    placed: dict[int, int] = field(factory=dict[int, int])
    sent: dict[int, SentCommit] = field(factory=dict[int, SentCommit])
    #: A process is to follow as soon as this one has ended
    begins_again: bool = False

    def __attrs_post_init__(self) -> None:
        """Begin with the first process."""
        self.connected = ConnectedClient(self.id, self.simulation)
        self._begin()

    def _begin(self) -> None:
        settings, opener = self.simulation.settings, ValuesOpener()
        config = config_of(settings, self.member, self._is_automatic)
        chance = self.simulation.rng.random
        self.machine = ConsumerMachine(config, opener, BROKERS, chance, id=self.id)
        opener.positions = self.machine.positions

    @property
    def _is_automatic(self) -> bool:
        return self.member % 2 == 1 and self.simulation.settings.commit_when != "before"

    @property
    def member_id(self) -> str:
        """The name that the group has given it."""
        return "" if self.machine.membership is None else self.machine.membership.member_id

    @property
    def group_generation(self) -> int:
        """The generation, or member epoch, that it believes to be in."""
        return -1 if self.machine.membership is None else self.machine.membership.group_generation

    # Messages

    def handle(self, message: Any) -> None:
        """Handle any message. A process that is down handles only the order to start."""
        now = self.simulation.timeline.now
        if type(message) is Tick:
            self.simulation.timeline.at(now + self.simulation.settings.work_ms, self.id, TICK)
            if self.up:
                self._tick(now)
        elif type(message) is Restart:
            self._restart()
        elif not self.up:
            return
        elif type(message) is Response:
            for number, request, answer in self.connected.answered(message):
                self._read(number, request, answer)
                self._give(now, _with_topic_id(answer))
        elif self.connected.is_due():
            self._give(now, message)

    def _give(self, now: int, message: Any) -> None:
        outputs = deque(self.machine.handle(now, message))
        self._look(now)
        while outputs and self.up:
            outputs.extend(self._carry_out(now, outputs.popleft()))

    def _carry_out(self, now: int, output: Any) -> Iterable[Any]:
        match output:
            case Request():
                self._ask(output)
            case Disconnect(node):
                self.connected.close(node)
            case Timer():
                self.connected.set_timer(output)
            case Polled():
                self._ended(output)
                self._polled(now, output)
            case CallListener():
                self._changed(now, output)
                more = self.machine.handle(now, Called())
                self._look(now)
                return more
            case CallDone() | CallFailed():
                self._ended(output)
            case _:
                pass
        return ()

    # The application

    def _tick(self, now: int) -> None:
        """Process some of what was polled, commit now and then, and poll again."""
        settings = self.simulation.settings
        if self.machine.membership is None:
            self.subscribe()
        if self.waits_for != "commit":
            for _ in range(min(AT_ONCE, len(self.todo))):
                self._process(*self.todo.popleft())
        most = AHEAD if settings.commit_when == "polled" else 0
        if self.waits_for or len(self.todo) > most:
            return
        by_hand = settings.commit_when != "before" and not self._is_automatic
        if by_hand and now - self.committed_at > settings.commit_ms:
            self.committed_at = now
            self._give(now, CommitOffsets("now and then", retries=False))
        if self.owes_commit:
            self._commit_first(now)
            return
        self.waits_for = "poll"
        self._give(now, Poll("poll", POLL_MS))

    def _commit_first(self, now: int) -> None:
        """Commit before the work, and wait."""
        self.waits_for = "commit"
        patience = self.simulation.settings.member_session_ms
        self._give(now, CommitOffsets("commit", timeout_ms=patience))

    def _polled(self, now: int, output: Polled) -> None:
        for name, records in output.records:
            number = name.partition
            for one in records:
                self.placed[number] = one.offset + 1
                self._say(o.Polled(number, self.member, one.offset + 1))
                self._note("poll", records=[described(number, *one)])
                self.todo.append((number, one))
        if self.todo and self.simulation.settings.commit_when == "before":
            self._commit_first(now)

    def _process(self, number: int, one: ReadRecord) -> None:
        self._say(o.Processed(number, self.member, one.offset + 1))
        self._note("process", records=[described(number, *one)])

    def _ended(self, call: Polled | CallDone | CallFailed) -> None:
        """A call has its result; records whose commit has failed are passed over."""
        if call.handle == "commit":
            self.owes_commit = isinstance(call, CallFailed)
            if self.owes_commit:
                self.todo.clear()
        if call.handle == self.waits_for:
            self.waits_for = ""
        if call.handle == "close":
            self._end("close")

    def _changed(self, now: int, change: CallListener) -> None:
        """The listener: it commits what is processed, if the consumer does not."""
        numbers = tuple(one.partition for one in change.partitions)
        if change.kind == "assigned":
            self.owned = tuple(sorted({*self.owned, *numbers}))
            self.unplaced |= dict.fromkeys(numbers, "")
            who = self.member, self.member_id, self.group_generation
            self._say(o.Assigned(*who, self.owned))
            self._note("assigned", partitions=self._names(numbers))
            return
        if change.kind == "lost":
            self.simulation.counts["members that lost their partitions"] += 1
        self.owned = tuple(one for one in self.owned if one not in numbers)
        self.todo = deque(one for one in self.todo if one[0] in self.owned)
        for number in numbers:
            self.unplaced.pop(number, None)
            self.placed.pop(number, None)
        self._note(change.kind, partitions=self._names(numbers))

    # Positions

    def _look(self, now: int) -> None:
        """See where each partition is to be read, and whether that has moved by itself."""
        for number in self.owned:
            position = self.machine.positions.get(TopicPartition(TOPIC, number))
            if position is None:
                continue
            if position.state not in (FETCHING, VALIDATING):
                if number not in self.unplaced:
                    self.unplaced[number] = "out_of_range"
            elif number in self.unplaced:
                self._placed(number, position.offset, self.unplaced.pop(number))
            elif position.offset < self.placed.get(number, -1):
                self._placed(number, position.offset, "truncation")

    def _placed(self, number: int, offset: int, reason: str) -> None:
        self.placed[number] = offset
        self.commits += 1  # what is committed from here on is later than this
        name = self._name(number)
        if reason:
            self.simulation.counts[f"readers that were moved: {reason}"] += 1
            self._note("reset", partitions=[name], offsets={name: offset}, reason=reason)
        self._say(o.Joined(number, self.member, self.group_generation, offset))

    # Requests and answers

    def _ask(self, request: Request) -> None:
        body = request.body
        if type(body) is g.OffsetCommitRequest:
            self._send_commit(request, body)
            return
        number = self.connected.send(request)
        if type(body) is g.OffsetFetchRequest:
            self._say(o.FetchSent(self.member, number))

    def _send_commit(self, request: Request, body: g.OffsetCommitRequest) -> None:
        self.commits += 1
        tag = CommitTag(body.member_id, body.generation_id, self.commits)
        offsets = [one._replace(metadata=str(tag)) for one in body.partitions]
        number = self.connected.send(request._replace(body=body._replace(partitions=offsets)))
        self.sent[number] = SentCommit(tag, self._call_commits(body))

    def _call_commits(self, body: g.OffsetCommitRequest) -> dict[int, Call]:
        history, calls = self.simulation.history, dict[int, Call]()
        if history is None:
            return calls
        for one in body.partitions:
            number = one.partition.partition
            offsets = {self._name(number): one.offset}
            who = self._identity()
            calls[number] = history.invoke(self.process, "commit", offsets=offsets, **who)
        return calls

    def _read(self, number: int, request: Request, answer: Response) -> None:
        """Tell the oracles of what a coordinator has answered, before the machine takes it."""
        body: Any = answer.body
        match body:
            case g.OffsetCommitResponse():
                self._committed(self.sent.pop(number), body)
            case g.OffsetFetchResponse():
                self._fetched(number, body)
            case g.ConsumerGroupHeartbeatResponse(error=None) if request.body.member_epoch >= 0:
                told = None
                if body.assignment is not None:
                    told = frozenset(n for one in body.assignment for n in one.partitions)
                who = self.member, body.member_id or self.member_id
                self._say(o.Told(*who, body.member_epoch, told))
            case _:
                pass

    def _committed(self, sent: SentCommit, body: g.OffsetCommitResponse) -> None:
        history = self.simulation.history
        for name, error in body.partitions:
            call = sent.calls.get(name.partition)
            if error is None:
                self._say(o.CommitAnswered(name.partition, self.member, sent.tag))
            else:
                self.simulation.counts[f"commits refused: {error}"] += 1
                if error in ZOMBIE:
                    self.simulation.counts["commits of an old generation"] += 1
            if call is not None and history is not None and error is None:
                history.complete(call)
            elif call is not None and history is not None:
                history.complete(call, "info", error=error)

    def _fetched(self, number: int, body: g.OffsetFetchResponse) -> None:
        if body.error is not None:
            return
        for one in body.partitions:
            partition = one.partition.partition
            if one.error is not None:
                continue
            self._say(o.OffsetFetched(partition, self.member, number, one.offset))
            if partition in self.unplaced:
                name = self._name(partition)
                offsets = {name: max(one.offset, 0)}
                self._note("committed", partitions=[name], offsets=offsets)

    # The process

    def subscribe(self) -> None:
        """Send a subscription: every other member names a topic that there is not."""
        several = self.simulation.settings.several_subscriptions and self.member % 2
        topics = (MISSING, TOPIC) if several else (TOPIC,)
        self.machine.subscribe(self.simulation.timeline.now, topics)
        if isinstance(self.machine.membership, ClassicMembership):
            self.machine.membership.grace_ms = GRACE_MS
        self._note_subscription()

    def crash(self) -> None:
        """The process ends; its sent messages are still in flight."""
        self._end("crash")

    def leave(self) -> None:
        """Close in order: commit, give everything up, and leave the group.

        A consumer takes what it has returned for processed, so the application ends its work first.
        """
        if self.waits_for == "close":
            return
        while self.todo and self.waits_for != "commit":
            self._process(*self.todo.popleft())
        self.waits_for = "close"
        self._give(self.simulation.timeline.now, CloseConsumer("close", CLOSE_MS))

    def close(self) -> None:
        """The run is over."""
        self._note("close")
        self.up = False

    def _end(self, how: str) -> None:
        self._note(how)
        self.up = False
        self.connected.end()
        self.todo.clear()
        self.unplaced.clear()
        self.placed.clear()
        self.sent.clear()
        self.owned, self.waits_for, self.owes_commit = (), "", False
        if self.begins_again:
            self._restart()

    def _restart(self) -> None:
        self.begins_again = self.up and self.waits_for == "close"
        if self.up:
            return
        self.up, self.paused_until = True, 0
        self.boot += 1
        self._begin()

    def _identity(self) -> dict[str, Any]:
        member, instance = self.member_id, self.machine.config.group_instance_id
        member = member or f"c{self.member - 1}"
        return identity(GROUP, member, self.group_generation, instance)


def _with_topic_id(answer: Response) -> Response:
    """Metadata name the topic's id, which brokers add at their edge."""
    if isinstance(answer.body, MetadataResponse):
        return answer._replace(body=answer.body._replace(topic_ids={TOPIC: Uuid(TOPIC_ID)}))
    return answer
