"""A consumer in a group: polls, processes, commits; and may go on when it should not."""

from collections import deque
from collections.abc import Callable
from typing import Any

from attrs import define, field

from chaos import messages as m
from chaos.history import Call
from chaos.messages import Message
from chaos.world import World
from refimpl.errors import Refusal
from refimpl.machines.group import Member, OffsetCommit
from refimpl.machines.log import Record

READ_TIMEOUT_MS = 150


@define(eq=False)
class Part:
    """What a member has of one partition: its machine, and records read ahead."""

    partition: int
    member: Member
    buffer: deque[tuple[int, Record]] = field(factory=deque[tuple[int, Record]])
    current: tuple[int, Record] | None = None
    asked: int = 0
    asked_at: int = 0
    committed_at: int = 0
    commit: OffsetCommit | None = None
    calls: dict[tuple[int, int], Call] = field(factory=dict[tuple[int, int], Call])


@define(eq=False)
class Consumer:
    """One member of the group; a crash ends its process, and another boot follows."""

    id: int
    world: World
    parts: list[Part]
    up: bool = True
    boot: int = 0
    paused_until: int = 0
    generation: int = 0
    joining: bool = True
    owned: tuple[int, ...] = ()
    requests: int = 0
    joined_at: int = -1_000
    next_heartbeat: int = 0
    handlers: list[Callable[[Message], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look up once who handles what."""
        self.handlers = [self._ignore] * m.KINDS
        self.handlers[m.TICK] = self._tick
        self.handlers[m.RESTART] = self._restart
        self.handlers[m.RECORDS] = self._records
        self.handlers[m.ASSIGNED] = self._assigned
        self.handlers[m.REJOIN] = self._rejoin
        self.handlers[m.COMMITTED] = self._committed

    @property
    def member(self) -> int:
        """The member's number in the spec."""
        return self.id - m.FIRST_CLIENT + 1

    @property
    def process(self) -> str:
        """The name in the history."""
        return f"c{self.member - 1}#{self.boot}"

    def handle(self, message: Message) -> None:
        """Whatever comes; a process that is down hears nothing but that it shall start."""
        if self.up or message[0] <= m.RESTART:
            self.handlers[message[0]](message)

    # The group

    def _tick(self, message: Message) -> None:
        timeline, swarm = self.world.timeline, self.world.swarm
        now = timeline.now
        timeline.at(now + swarm.work_ms, self.id, message)
        if not self.up:
            return
        if self.joining:
            if now - self.joined_at > 100:
                self._join()
            return
        for partition in self.owned:
            self._work(self.parts[partition])
        if now >= self.next_heartbeat:
            self.next_heartbeat = now + swarm.member_session_ms // 4
            self._send(m.ALIVE, self.boot, self.generation)

    def _join(self) -> None:
        self.joining, self.owned = True, ()
        self.joined_at = self.world.timeline.now
        self._send(m.JOIN, self.boot, self.generation)

    def _rejoin(self, message: Message) -> None:
        """The group has moved on. Nothing more is done in the old generation."""
        if message[3] == self.boot and not self.joining:
            self._note("lost", partitions=self._names(self.owned))
            self._join()

    def _assigned(self, message: Message) -> None:
        _, _, _, boot, generation, parts = message
        if boot != self.boot or not self.joining or generation <= self.generation:
            return
        self.generation, self.joining = generation, False
        for partition, (committed, place) in parts.items():
            self._take(partition, generation, committed, place)
        self.owned = tuple(parts)
        if self.world.history is not None:
            self._note("assigned", partitions=self._names(self.owned))
            offsets = {self._name(p): committed for p, (committed, _) in parts.items()}
            self._note("committed", partitions=self._names(self.owned), offsets=offsets)

    def _take(self, partition: int, generation: int, committed: int, place: Any) -> None:
        part = self.parts[partition]
        part.member.join(generation, committed)
        part.buffer.clear()
        part.current, part.commit, part.asked = None, None, 0
        self.world.counts["Join"] += 1
        self.world.groups[part.partition].joined(self.member, generation)
        if place is not None:
            place.becomes(
                "Join",
                {
                    "joined": (self.member, generation),
                    "position": (self.member, committed),
                    "done": (self.member, committed),
                },
            )

    # Work

    def _work(self, part: Part) -> None:
        """Finish the record in hand, take the next ones, and commit now and then."""
        self._process(part)
        if self.world.swarm.commit_when == "after":
            for _ in range(min(4, len(part.buffer))):
                self._process(part)
                self._poll(part)
        elif part.buffer and part.current is None:
            self._poll(part)
        if not part.buffer:
            self._ask(part)
        now = self.world.timeline.now
        if now - part.committed_at > self.world.swarm.commit_ms:
            self._commit(part)

    def _ask(self, part: Part) -> None:
        """Read on from where we are, at whoever leads."""
        now = self.world.timeline.now
        if part.asked and now - part.asked_at < READ_TIMEOUT_MS:
            return
        leader = self.world.partitions[part.partition].state.leader
        if leader is not None:
            self.requests += 1
            part.asked, part.asked_at = self.requests, now
            self.world.network.send(
                (m.READ, self.id, leader, part.partition, part.asked, part.member.position)
            )

    def _records(self, message: Message) -> None:
        _, _, _, partition, number, offset, records = message
        part = self._part(partition)
        if part.asked != number or partition not in self.owned:
            return
        part.asked = 0
        if records and offset == part.member.position and not part.buffer:
            part.buffer.extend((offset + i, record) for i, record in enumerate(records))
            self._work(part)

    def _poll(self, part: Part) -> None:
        offset, record = part.current = part.buffer.popleft()
        polled = part.member.poll(offset + 1)
        assert polled == offset
        self._record(part, "Poll", position=offset + 1)
        if self.world.history is not None:
            self._note("poll", records=[_described(part, offset, record)])
        if self.world.swarm.commit_when == "before":
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
        self.world.groups[part.partition].did(offset)
        self._record(part, "Process", done=offset + 1)
        if self.world.history is not None:
            self._note("process", records=[_described(part, offset, record)])

    # Commits

    def _commit(self, part: Part) -> None:
        """Commit what the discipline says, or send again what has no answer yet."""
        part.committed_at = self.world.timeline.now
        try:
            part.commit = part.member.send_commit()
        except Refusal:
            if part.commit is not None and part.member.answered < part.commit.offset:
                self._send(m.COMMIT, part.partition, part.commit)
            return
        self._record(part, "SendCommit")
        if self.world.history is not None:
            commit = part.commit
            part.calls[commit.generation, commit.offset] = self.world.history.invoke(
                self.process,
                "commit",
                offsets={self._name(part.partition): commit.offset},
                **self._identity(),
            )
        self._send(m.COMMIT, part.partition, part.commit)

    def _committed(self, message: Message) -> None:
        _, _, _, partition, commit, error = message
        part = self._part(partition)
        call = part.calls.pop((commit.generation, commit.offset), None)
        if call is not None and self.world.history is not None:
            if error is None:
                self.world.history.complete(call)
            else:
                # Another copy of the request, sent again or doubled on its way, may have got in.
                self.world.history.complete(call, "info", error=error)
        if error is not None:
            if not self.joining and commit.generation == self.generation:
                self._join()
            return
        try:
            part.member.take_answer(commit)
        except Refusal:
            self.world.counts["commit answers of an old generation"] += 1
            return
        if self.world.swarm.commit_when == "before" and partition in self.owned:
            self._work(part)

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
                self._record(part, "Crash", joined=0, position=0, done=0)

    def close(self) -> None:
        """The process ends in order."""
        self.up = False
        self._note("close")

    def _restart(self, message: Message) -> None:
        if self.up:
            return
        self.up, self.joining, self.owned = True, True, ()
        self.paused_until = 0
        self.boot += 1
        self.subscribe()
        self._join()

    def subscribe(self) -> None:
        """Say what we want to read."""
        if self.world.history is not None:
            self.world.history.note(self.process, "subscribe", topics=["orders"], group="g")

    # Writing down

    def _send(self, kind: int, *rest: Any) -> None:
        self.world.network.send((kind, self.id, m.COORDINATOR, *rest))

    def _record(self, part: Part, action: str, **after: int) -> None:
        if self.world.recorder is not None:
            trace = self.world.recorder.groups[part.partition]
            changes = {name: (self.member, value) for name, value in after.items()}
            trace.add(self.world.timeline.now, action, {"m": self.member}, **changes)

    def _note(self, op: str, **fields: Any) -> None:
        if self.world.history is not None:
            self.world.history.note(self.process, op, **fields, **self._identity())

    def _identity(self) -> dict[str, Any]:
        return {"group": "g", "member": f"c{self.member - 1}", "generation": self.generation}

    def _names(self, partitions: tuple[int, ...]) -> list[str]:
        return [self._name(partition) for partition in partitions]

    def _name(self, partition: int) -> str:
        return self.world.partitions[partition].name

    def _part(self, partition: int) -> Part:
        return self.parts[partition]

    def _ignore(self, message: Message) -> None:
        pass


def _described(part: Part, offset: int, record: Record) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": part.partition,
        "offset": offset,
        "id": record.value,
        "epoch": record.epoch,
    }
