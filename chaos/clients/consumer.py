"""A consumer in a group: polls, processes, commits; and may go on when it should not."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from chaos.clients.history import Call
from chaos.clients.leaders import Leaders
from chaos.sim.addresses import BROKERS, COORDINATOR, FIRST_CLIENT, TICK, TOPIC, Restart, Tick
from chaos.sim.group_messages import (
    CommitSent,
    HeartbeatRequest,
    HeartbeatResponse,
    Joined,
    JoinGroupRequest,
    JoinGroupResponse,
    MemberCrashed,
    OffsetCommitRequest,
    OffsetCommitResponse,
    Polled,
    Processed,
)
from chaos.sim.simulation import Simulation
from refimpl.broker.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    MetadataResponse,
    Request,
    Response,
    TopicPartition,
)
from refimpl.errors import Refusal
from refimpl.machines.group import Member, OffsetCommit
from refimpl.machines.log import Record

READ_TIMEOUT_MS = 150
READ_WAIT_MS = 50


@define(eq=False)
class Part:
    """What a member has of one partition: its machine, and records read ahead."""

    name: TopicPartition
    member: Member
    buffer: deque[tuple[int, Record]] = field(factory=deque[tuple[int, Record]])
    current: tuple[int, Record] | None = None
    asked: int = 0
    asked_from: int = 0
    asked_at: int = 0
    committed_at: int = 0
    commit: OffsetCommit | None = None
    calls: dict[tuple[int, int], Call] = field(factory=dict[tuple[int, int], Call])


@define(eq=False)
class Consumer:
    """One member of the group; a crash ends its process, and another boot follows."""

    id: int
    simulation: Simulation
    parts: list[Part]
    leaders: Leaders
    up: bool = True
    boot: int = 0
    paused_until: int = 0
    generation: int = 0
    joining: bool = True
    owned: tuple[int, ...] = ()
    requests: int = 0
    joined_at: int = -1_000
    next_heartbeat: int = 0
    handlers: dict[type, Callable[[Response], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.handlers = {
            FetchResponse: self._records,
            MetadataResponse: lambda response: self.leaders.told(response.body),
            JoinGroupResponse: self._assigned,
            HeartbeatResponse: self._rejoin,
            OffsetCommitResponse: self._committed,
        }

    @property
    def member(self) -> int:
        """The member's number in the spec."""
        return self.id - FIRST_CLIENT + 1

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"c{self.member - 1}#{self.boot}"

    def handle(self, message: Any) -> None:
        """Whatever comes; a process that is down hears nothing but that it shall start."""
        kind = message.__class__
        if kind is Tick:
            self._tick()
        elif kind is Restart:
            self._restart()
        elif self.up:
            self.handlers[type(message.body)](message)

    # The group

    def _tick(self) -> None:
        timeline, settings = self.simulation.timeline, self.simulation.settings
        now = timeline.now
        timeline.at(now + settings.work_ms, self.id, TICK)
        if not self.up:
            return
        if self.joining:
            if now - self.joined_at > 100:
                self._join()
            return
        for partition in self.owned:
            self._work(self.parts[partition])
        if now >= self.next_heartbeat:
            self.next_heartbeat = now + settings.member_session_ms // 4
            self._send(HeartbeatRequest(self.boot, self.generation))

    def _join(self) -> None:
        self.joining, self.owned = True, ()
        self.joined_at = self.simulation.timeline.now
        self._send(JoinGroupRequest(self.boot, self.generation))

    def _rejoin(self, response: Response) -> None:
        """The group has moved on. Nothing more is done in the old generation."""
        if response.body.boot == self.boot and not self.joining:
            self._note("lost", partitions=self._names(self.owned))
            self._join()

    def _assigned(self, response: Response) -> None:
        body: JoinGroupResponse = response.body
        if body.boot != self.boot or not self.joining or body.generation <= self.generation:
            return
        self.generation, self.joining = body.generation, False
        for partition, committed in body.assigned.items():
            self._take(partition, body, committed)
        self.owned = tuple(body.assigned)
        if self.simulation.history is not None:
            self._note("assigned", partitions=self._names(self.owned))
            offsets = {self._name(p): committed for p, committed in body.assigned.items()}
            self._note("committed", partitions=self._names(self.owned), offsets=offsets)

    def _take(self, partition: int, body: JoinGroupResponse, committed: int) -> None:
        part = self.parts[partition]
        part.member.join(body.generation, committed)
        part.buffer.clear()
        part.current, part.commit, part.asked = None, None, 0
        self._say(Joined(partition, self.member, body.number, body.generation, committed))

    # Work

    def _work(self, part: Part) -> None:
        """Finish the record in hand, take the next ones, and commit now and then."""
        self._process(part)
        if self.simulation.settings.commit_when == "after":
            for _ in range(min(4, len(part.buffer))):
                self._process(part)
                self._poll(part)
        else:
            if part.buffer and part.current is None:
                self._poll(part)
            if part.buffer and self.simulation.settings.commit_when == "polled":
                self._process(part)
                self._poll(part)
        if not part.buffer:
            self._ask(part)
        now = self.simulation.timeline.now
        if now - part.committed_at > self.simulation.settings.commit_ms:
            self._commit(part)

    def _ask(self, part: Part) -> None:
        """Read on from where we are, at whoever leads, or at any replica (KIP-392)."""
        now = self.simulation.timeline.now
        if part.asked:
            if now - part.asked_at < READ_TIMEOUT_MS:
                return
            self.leaders.refresh()
        leader = self.leaders.of(part.name)
        if leader is None:
            return
        rack_id = None
        if self.simulation.settings.follower_reads:
            leader, rack_id = self.simulation.rng.choice(BROKERS), ""
        self.requests += 1
        part.asked, part.asked_at, part.asked_from = self.requests, now, part.member.position
        wanted = FetchPartition(part.name, part.member.position)
        limit = self.simulation.settings.read_limit
        body = FetchRequest((wanted,), READ_WAIT_MS, max_bytes=limit, rack_id=rack_id)
        self.simulation.network.send(Request(self.id, leader, part.asked, body))

    def _records(self, response: Response) -> None:
        body: FetchResponse = response.body
        for fetched in body.partitions:
            part = self.parts[fetched.partition.partition]
            if part.asked != response.correlation_id or part.name.partition not in self.owned:
                continue
            part.asked = 0
            if fetched.error is not None:
                self.leaders.refresh()
            if fetched.records and part.asked_from == part.member.position and not part.buffer:
                records: Sequence[Record] = fetched.records
                if response.source != self.leaders.of(part.name):
                    self.simulation.counts["records read at followers"] += len(records)
                part.buffer.extend(enumerate(records, part.asked_from))
                self._work(part)

    def _poll(self, part: Part) -> None:
        offset, record = part.current = part.buffer.popleft()
        polled = part.member.poll(offset + 1)
        assert polled == offset
        self._say(Polled(part.name.partition, self.member, offset + 1))
        if self.simulation.history is not None:
            self._note("poll", records=[_described(part, offset, record)])
        if self.simulation.settings.commit_when == "before":
            self._commit(part)

    def _process(self, part: Part) -> None:
        if part.current is None:
            return
        offset, record = part.current
        try:
            part.member.process()
        except Refusal:
            return  # who commits before waits for the answer
        part.current = None
        self._say(Processed(part.name.partition, self.member, offset + 1))
        if self.simulation.history is not None:
            self._note("process", records=[_described(part, offset, record)])

    # Commits

    def _commit(self, part: Part) -> None:
        """Commit what the discipline says, or send again what has no answer yet."""
        part.committed_at = self.simulation.timeline.now
        try:
            part.commit = part.member.send_commit()
        except Refusal:
            if part.commit is not None and part.member.answered < part.commit.offset:
                self._send_commit(part)
            return
        self._say(CommitSent(part.name.partition, self.member))
        if self.simulation.history is not None:
            commit = part.commit
            part.calls[commit.generation, commit.offset] = self.simulation.history.invoke(
                self.process,
                "commit",
                offsets={self._name(part.name.partition): commit.offset},
                **self._identity(),
            )
        self._send_commit(part)

    def _send_commit(self, part: Part) -> None:
        assert part.commit is not None
        self._send(OffsetCommitRequest(part.name.partition, part.commit))

    def _committed(self, response: Response) -> None:
        body: OffsetCommitResponse = response.body
        partition, commit, error = body
        part = self.parts[partition]
        self._complete(part, commit, error)
        if error is not None:
            if not self.joining and commit.generation == self.generation:
                self._join()
            return
        try:
            part.member.take_answer(commit)
        except Refusal:
            self.simulation.counts["commit answers of an old generation"] += 1
            return
        if self.simulation.settings.commit_when == "before" and partition in self.owned:
            self._work(part)

    def _complete(self, part: Part, commit: OffsetCommit, error: str | None) -> None:
        """Write down what became of a commit."""
        call = part.calls.pop((commit.generation, commit.offset), None)
        if call is not None and self.simulation.history is not None:
            if error is None:
                self.simulation.history.complete(call)
            else:
                # Another copy of the request, sent again or doubled on its way, may have got in.
                self.simulation.history.complete(call, "info", error=error)

    # Failing

    def crash(self) -> None:
        """The process ends; what it sent is still under way."""
        self.up = False
        self._note("crash")
        for part in self.parts:
            part.calls.clear()
            part.buffer.clear()
            part.current, part.commit, part.asked = None, None, 0
            if part.member.generation:
                part.member.crash()
                self._say(MemberCrashed(part.name.partition, self.member))

    def close(self) -> None:
        """The process ends in order."""
        self.up = False
        self._note("close")

    def _restart(self) -> None:
        if self.up:
            return
        self.up, self.joining, self.owned = True, True, ()
        self.paused_until = 0
        self.boot += 1
        self.subscribe()
        self._begin_process()

    def _begin_process(self) -> None:
        self._join()

    def subscribe(self) -> None:
        """Say what we want to read."""
        if self.simulation.history is not None:
            self.simulation.history.note(self.process, "subscribe", topics=[TOPIC], group="g")

    # Writing down

    def _send(self, body: Any) -> None:
        self.simulation.network.send(Request(self.id, COORDINATOR, 0, body))

    def _say(self, observation: Any) -> None:
        self.simulation.observe(self.id, observation)

    def _note(self, op: str, **fields: Any) -> None:
        if self.simulation.history is not None:
            self.simulation.history.note(self.process, op, **fields, **self._identity())

    def _identity(self) -> dict[str, Any]:
        return {"group": "g", "member": f"c{self.member - 1}", "generation": self.generation}

    def _names(self, partitions: tuple[int, ...]) -> list[str]:
        return [self._name(partition) for partition in partitions]

    def _name(self, partition: int) -> str:
        return f"{TOPIC}:{partition}"


def payload(record: Record) -> Any:
    """What a producer put into a record."""
    value: Any = record.value
    return value.payload


def _described(part: Part, offset: int, record: Record) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partition": part.name.partition,
        "offset": offset,
        "id": payload(record),
        "epoch": record.epoch,
    }
