"""TransactionalOffsets: a group's offsets, and members that read, process and produce.

Members and their transactions are the environment: the binding plays them.
"""

from collections.abc import Mapping
from typing import ClassVar

from attrs import asdict, evolve, frozen

from properties.conformance.binding import Binding, Bound, Environment, OtherAction
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.machines.transactional_offsets import NextOffset, TransactionalOffsets


@frozen
class Member:
    """A consumer that is a producer, and where its transaction stands."""

    phase: str = "out"
    generation: int = 0
    polled: int = 0
    position: int = 0
    topic: int = 0


class OffsetsOfTransactions(Binding):
    """One group with members 1..M; each member's producer bears its number."""

    module = "TransactionalOffsets"
    knobs: ClassVar = {
        "CheckGeneration": True,
        "PolledGeneration": True,
        "RequireStable": True,
        "SameTopic": True,
        "TopicTakesPending": True,
        "KeepPending": True,
        "WaitForLeader": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["Members"] + 1))
        self.records: int = constants["Records"]
        self.max_generation: int = constants["MaxGeneration"]
        self.max_topic: int = constants["MaxTopic"]
        self.offsets = TransactionalOffsets(topic=1, generation=1)
        self.member = {i: Member() for i in self.ids}
        self.processed = [[0] * self.records for _ in range(self.max_topic)]

    def _is(self, i: int, *phases: str) -> Member:
        if self.member[i].phase not in phases:
            raise OtherAction
        return self.member[i]

    # The group

    def _has_a_generation_left(self) -> None:
        if self.offsets.generation >= self.max_generation:
            raise Bound

    def rebalance(self, i: int) -> None:
        self._has_a_generation_left()
        self.offsets.rebalance(i)
        generation = self.offsets.generation
        if self.member[i].phase in ("out", "joined", "polled"):
            self.member[i] = Member("joined", generation)
        else:
            self.member[i] = evolve(self.member[i], generation=generation)

    def leave(self) -> None:
        if self.offsets.owner is None:
            raise OtherAction
        self._has_a_generation_left()
        self.offsets.rebalance(None)

    def clean_up(self) -> None:
        if not self.offsets.clean_up():
            raise OtherAction

    # A member

    def fetch(self, i: int) -> None:
        member = self._is(i, "joined")
        found = self.offsets.fetch(member.generation)
        self.member[i] = evolve(
            member,
            phase="polled",
            polled=self.offsets.generation,
            position=1 if found is None else found.position,
            topic=self.offsets.topic,
        )

    def process(self, i: int) -> None:
        member = self._is(i, "polled")
        if member.position > self.records:
            raise Environment
        self.member[i] = evolve(member, phase="made")

    def add_offsets(self, i: int) -> None:
        member = self._is(i, "made")
        self.offsets.add(i, i, member.polled, NextOffset(member.position + 1, member.topic))
        self.member[i] = evolve(member, phase="added")

    def commit(self, i: int) -> None:
        member = self._is(i, "added")
        self.processed[member.topic - 1][member.position - 1] += 1
        self.member[i] = evolve(member, phase="committed")

    def abort(self, i: int) -> None:
        member = self._is(i, "made", "added")
        self.member[i] = Member() if member.phase == "made" else evolve(member, phase="aborted")

    def write_marker(self, i: int) -> None:
        member = self._is(i, "committed", "aborted")
        self.offsets.end(i, member.phase == "committed")
        goes_on = member.phase == "committed" and member.topic == self.offsets.topic
        self.member[i] = (
            evolve(member, phase="polled", position=member.position + 1) if goes_on else Member()
        )

    def drop_marker(self, i: int) -> None:
        self._is(i, "committed", "aborted")
        raise Environment

    def recreate_topic(self) -> None:
        topic = self._topic() + 1
        if topic > self.max_topic:
            raise Bound
        self.offsets.replace_topic(topic)
        for i in self.ids:
            if self.member[i].phase == "polled":
                self.member[i] = Member()

    # Looking

    def _topic(self) -> int:
        assert isinstance(self.offsets.topic, int)
        return self.offsets.topic

    def load(self, state: Mapping[str, Value]) -> None:
        self.offsets = TransactionalOffsets(
            state["topic"], state["generation"], state["owner"] or None, _offset(state["committed"])
        )
        for i in self.ids:
            pending = _offset(state["pending"][i - 1])
            if pending is not None:
                self.offsets.pending[i] = pending
            self.member[i] = Member(**dict(state["member"][i - 1].items()))
        self.processed = [list(one) for one in state["processed"]]


def _offset(value: Mapping[str, Value]) -> NextOffset | None:
    return NextOffset(value["position"], value["topic"]) if value["position"] else None


def _shown(offset: NextOffset | None) -> Rec:
    if offset is None:
        return Rec.of(position=0, topic=0)
    return Rec.of(position=offset.position, topic=offset.topic)


OffsetsOfTransactions.projection = {
    "generation": lambda c: c.offsets.generation,
    "owner": lambda c: c.offsets.owner or 0,
    "topic": lambda c: c.offsets.topic,
    "committed": lambda c: _shown(c.offsets.committed),
    "pending": lambda c: tuple([_shown(c.offsets.pending.get(i)) for i in c.ids]),
    "member": lambda c: tuple([Rec.of(**asdict(c.member[i])) for i in c.ids]),
    "processed": lambda c: tuple([tuple(one) for one in c.processed]),
}

MODULE = Module(binding=OffsetsOfTransactions, machines=("transactional_offsets",))
