"""The group coordinator: who is a member, who owns what, and what is committed.

It does not fail here; what it answers travels like everything else.
"""

from attrs import define, field

from chaos import messages as m
from chaos.messages import Message
from chaos.world import World
from refimpl.errors import OvertakenCommit, Refusal
from refimpl.machines.group import Coordinator, OffsetCommit


@define(eq=False)
class CoordinatorNode:
    """One group; a `Coordinator` for each partition, all in the same generation."""

    world: World
    groups: list[Coordinator]
    paused_until: int = 0
    boots: dict[int, int] = field(factory=dict[int, int])
    heard: dict[int, int] = field(factory=dict[int, int])
    answered: set[tuple[int, int, int, int]] = field(factory=set[tuple[int, int, int, int]])

    def handle(self, message: Message) -> None:
        """Whatever comes."""
        kind = message[0]
        if kind == m.COMMIT:
            self._commit(message)
        elif kind == m.ALIVE:
            self._alive(message)
        elif kind == m.JOIN:
            self._join(message)
        elif kind == m.LEAVE:
            self._leave(message)
        elif kind == m.TICK:
            self._tick(message)

    def _group(self, partition: int) -> Coordinator:
        return self.groups[partition]

    @property
    def generation(self) -> int:
        """The group's generation."""
        return self.groups[0].generation

    def _tick(self, message: Message) -> None:
        timeline, session = self.world.timeline, self.world.swarm.member_session_ms
        timeline.at(timeline.now + 50, m.COORDINATOR, message)
        gone = [c for c, heard in self.heard.items() if timeline.now - heard > session]
        for consumer in gone:
            self.world.counts["members expelled"] += 1
            self._remove(consumer)

    def _join(self, message: Message) -> None:
        """A member asks for its part; one that is new, or has restarted, changes the others'."""
        _, consumer, _, boot, joined = message
        if self.boots.get(consumer, 0) > boot:
            return
        self.heard[consumer] = self.world.timeline.now
        if self.boots.get(consumer) != boot or joined == self.generation:
            self.boots[consumer] = boot
            self._rebalance()
        self._assign(consumer, boot)

    def _leave(self, message: Message) -> None:
        _, consumer, _, boot = message
        if self.boots.get(consumer) == boot:
            self._remove(consumer)

    def _alive(self, message: Message) -> None:
        _, consumer, _, boot, generation = message
        if self.boots.get(consumer) != boot or generation != self.generation:
            self.world.network.send((m.REJOIN, m.COORDINATOR, consumer, boot))
        if self.boots.get(consumer) == boot:
            self.heard[consumer] = self.world.timeline.now

    def _remove(self, consumer: int) -> None:
        del self.boots[consumer], self.heard[consumer]
        if self.boots:
            self._rebalance()

    def _rebalance(self) -> None:
        """A new generation, in which the partitions move on by one member."""
        members = sorted(self.boots)
        self.world.counts["Rebalance"] += 1
        for partition, group in enumerate(self.groups):
            consumer = members[(partition + group.generation) % len(members)]
            owner = consumer - m.FIRST_CLIENT + 1
            group.rebalance(owner)
            self.world.groups[partition].rebalanced()
            self._record(
                partition,
                "Rebalance",
                {"m": owner},
                generation=group.generation,
                owner=owner,
            )

    def _assign(self, consumer: int, boot: int) -> None:
        member = consumer - m.FIRST_CLIENT + 1
        parts: dict[int, tuple[int, object]] = {}
        for partition, group in enumerate(self.groups):
            try:
                _, committed = group.join(member)
            except Refusal:
                continue
            place = None
            if self.world.recorder is not None:
                trace = self.world.recorder.groups[partition]
                place = trace.reserve(self.world.timeline.now, {"m": member}, None)
            parts[partition] = committed, place
        self.world.network.send((m.ASSIGNED, m.COORDINATOR, consumer, boot, self.generation, parts))

    def _commit(self, message: Message) -> None:
        _, consumer, _, partition, commit = message
        group = self._group(partition)
        before, error = group.committed, None
        try:
            group.receive_commit(commit)
        except OvertakenCommit:
            self.world.counts["commits overtaken"] += 1
            return
        except Refusal as refusal:
            self.world.counts["commits of an old generation"] += 1
            error = str(refusal)
        else:
            self._committed(int(partition), commit, before)
        self.world.network.send((m.COMMITTED, m.COORDINATOR, consumer, partition, commit, error))

    def _committed(self, partition: int, commit: OffsetCommit, before: int) -> None:
        """A step of the spec, unless the network brought the same commit before."""
        self.world.groups[partition].committed(commit, before)
        step = partition, commit.member, commit.generation, commit.offset
        if step in self.answered:
            return
        self.answered.add(step)
        self.world.counts["ReceiveCommit"] += 1
        params = {"m": commit.member, "offset": commit.offset}
        self._record(partition, "ReceiveCommit", params, committed=commit.offset)

    def _record(self, partition: int, action: str, params: dict[str, int], **after: int) -> None:
        if self.world.recorder is not None:
            trace = self.world.recorder.groups[partition]
            trace.add(self.world.timeline.now, action, params, **after)
