"""A consumer: polls, processes, commits; and may go on when it should not.

How it comes to own partitions is its group's protocol (`GroupMember`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from chaos.clients.leaders import Leaders
from chaos.clients.member_process import MemberProcess, described
from chaos.sim.addresses import BROKERS, GROUP, TICK, TOPIC, Restart, Tick
from chaos.sim.group_messages import Polled, Processed
from chaos.sim.history import Call
from chaos.sim.simulation import Simulation
from refimpl.errors import Refusal
from refimpl.machines.group import CommittingMember, OffsetCommit
from refimpl.machines.log import Record
from refimpl.messages.broker import (
    EARLIEST,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
    Request,
    Response,
    TopicPartition,
)

READ_TIMEOUT_MS = 150
READ_WAIT_MS = 50


@define(eq=False)
class Part:
    """A member's state of one partition: its machine, and records read ahead."""

    name: TopicPartition
    member: CommittingMember
    buffer: deque[tuple[int, Record]] = field(factory=deque[tuple[int, Record]])
    #: The log start offset when the buffered records were fetched
    log_start: int = -1
    current: tuple[int, Record] | None = None
    asked: int = 0
    asked_from: int = 0
    asked_at: int = 0
    committed_at: int = 0
    commit: OffsetCommit | None = None
    calls: dict[tuple[int, int], Call] = field(factory=dict[tuple[int, int], Call])


@define(eq=False)
class Consumer(MemberProcess):
    """One member of the group; a crash ends its process, and another boot follows."""

    id: int
    simulation: Simulation
    parts: list[Part]
    leaders: Leaders
    group: str = GROUP
    up: bool = True
    boot: int = 0
    paused_until: int = 0
    owned: tuple[int, ...] = ()
    #: Partitions that are ours and whose committed offsets are not known yet
    fetching: set[int] = field(factory=set[int])
    requests: int = 0
    handlers: dict[type, Callable[[Response], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look the handlers up once."""
        self.handlers = {
            FetchResponse: self._records,
            ListOffsetsResponse: self._start_of_log,
            MetadataResponse: lambda response: self.leaders.told(response.body),
        }

    def handle(self, message: Any) -> None:
        """Handle any message. A process that is down handles only the order to start."""
        kind = message.__class__
        if kind is Tick:
            timeline = self.simulation.timeline
            timeline.at(timeline.now + self.simulation.settings.work_ms, self.id, TICK)
            if self.up:
                self._tick(timeline.now)
        elif kind is Restart:
            self._restart()
        elif self.up:
            self.handlers[type(message.body)](message)

    def _tick(self, now: int) -> None:
        """Take part in the group, and process the owned partitions."""
        self.leaders.keep_up()
        self._take_part(now)
        for partition in self.owned:
            if partition not in self.fetching:
                self._work(self.parts[partition])

    def _take_part(self, now: int) -> None:
        """Send the requests that the group's protocol requires now."""
        raise NotImplementedError

    def _know(self, partition: int) -> None:
        """Have a place for a partition that was added, and for those before it."""
        for number in range(len(self.parts), partition + 1):
            member = CommittingMember(self.member, self.simulation.settings.commit_when)
            self.parts.append(Part(TopicPartition(TOPIC, number), member))

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
        """Fetch from the current position, from the leader or any replica (KIP-392)."""
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
            if fetched.error == "OFFSET_OUT_OF_RANGE":
                self._ask_start_of_log(part, response.source)
            if fetched.records and part.asked_from == part.member.position and not part.buffer:
                records: Sequence[Record] = fetched.records
                if response.source != self.leaders.of(part.name):
                    self.simulation.counts["records read at followers"] += len(records)
                part.buffer.extend(enumerate(records, part.asked_from))
                part.log_start = fetched.log_start_offset
                self._work(part)

    def _ask_start_of_log(self, part: Part, leader: int) -> None:
        """Ask for the log start offset, and read nothing until the answer arrives."""
        self.requests += 1
        part.asked = self.requests
        start = ListOffsetsRequest((ListOffsetsPartition(part.name, EARLIEST),))
        self.simulation.network.send(Request(self.id, leader, part.asked, start))

    def _start_of_log(self, response: Response) -> None:
        """Move back or forward to the log start offset: "auto.offset.reset" is earliest.

        Records were deleted, or an unclean election has left the log shorter than the consumer's
        position.
        """
        body: ListOffsetsResponse = response.body
        for listed in body.partitions:
            part = self.parts[listed.partition.partition]
            if part.asked != response.correlation_id or part.name.partition not in self.owned:
                continue
            part.asked = 0
            if listed.error is None:
                self.simulation.counts["readers reset to the start of the log"] += 1
                self._note(
                    "reset",
                    partitions=[self._name(part.name.partition)],
                    offsets={self._name(part.name.partition): listed.offset},
                    reason="out_of_range",
                )
                self._begin(part.name.partition, listed.offset)

    def _begin(self, partition: int, offset: int) -> None:
        """Read a partition from an offset on."""
        raise NotImplementedError

    def _poll(self, part: Part) -> None:
        offset, record = part.current = part.buffer.popleft()
        polled = part.member.poll(offset + 1)
        assert polled == offset
        self._say(Polled(part.name.partition, self.member, offset + 1))
        if self.simulation.history is not None:
            log_start = {self._name(part.name.partition): part.log_start}
            self._note(
                "poll",
                records=[described(part.name.partition, offset, record)],
                log_start=log_start,
            )
        if self.simulation.settings.commit_when == "before":
            self._commit(part)

    def _process(self, part: Part) -> None:
        if part.current is None:
            return
        offset, record = part.current
        try:
            part.member.process()
        except Refusal:
            return  # a member that commits before processing waits for the answer
        part.current = None
        self._say(Processed(part.name.partition, self.member, offset + 1))
        if self.simulation.history is not None:
            self._note("process", records=[described(part.name.partition, offset, record)])

    # Commits

    def _commit(self, part: Part) -> None:
        """Commit according to the discipline, or repeat an unanswered commit."""
        part.committed_at = self.simulation.timeline.now
        try:
            part.commit = part.member.send_commit()
        except Refusal:
            if part.commit is not None and part.member.answered < part.commit.offset:
                self._send_commit(part)
            return
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
        """Send the commit that is to be answered."""
        raise NotImplementedError

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
        """The process ends; its sent messages are still in flight."""
        self.up = False
        self._note("crash")
        for part in self.parts:
            part.calls.clear()
            if part.member.generation:
                part.member.crash()
        self._forget()

    def close(self) -> None:
        """The process ends in order."""
        self.up = False
        self._note("close")

    def _restart(self) -> None:
        if self.up:
            return
        self.up = True
        self.paused_until = 0
        self.boot += 1
        self.subscribe()

    def _forget(self) -> None:
        """A new process has none of its predecessor's state."""
        self.owned = ()
        self.fetching.clear()
        for part in self.parts:
            part.buffer.clear()
            part.current, part.commit, part.asked = None, None, 0

    def subscribe(self) -> None:
        """Send a subscription."""
        self._note_subscription()
