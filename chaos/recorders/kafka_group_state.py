"""The state of a consumer group: as Kafka's coordinator has it, and as ConsumerCoordinator does.

Members and partitions are numbered in the order in which they are seen. The spec's first epoch is
1; before 4.3 Kafka's is 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from chaos.recorders.kafka_lines import Line
from refimpl.events import Json

STATES = {
    "STABLE": "stable",
    "UNREVOKED_PARTITIONS": "unrevoked",
    "UNRELEASED_PARTITIONS": "unreleased",
}
NOT_ASSIGNED, NOBODY = -1, 0


@frozen
class GroupMember:
    """A member: the epoch in which each of its partitions was assigned."""

    epoch: int = 0
    previous: int = 0
    state: str = "stable"
    assigned: Mapping[int, int] = field(factory=dict[int, int])
    pending: Mapping[int, int] = field(factory=dict[int, int])

    def as_json(self, partitions: int) -> Json:
        """As an event writes it."""
        return {
            "epoch": self.epoch,
            "previous": self.previous,
            "state": self.state,
            "assigned": _by_number(self.assigned, partitions, NOT_ASSIGNED),
            "pending": _by_number(self.pending, partitions, NOT_ASSIGNED),
        }


UNKNOWN = GroupMember()


@frozen
class GroupState:
    """A group after a change; offsets as the spec has them, and as Kafka does.

    The two differ where Kafka has changed an offset by what the spec has no words for.
    """

    epoch: int = 1
    target_epoch: int = 1
    #: The owner's number of each partition in the target
    target: Mapping[int, int] = field(factory=dict[int, int])
    members: Mapping[int, GroupMember] = field(factory=dict[int, GroupMember])
    committed: Mapping[int, int] = field(factory=dict[int, int])
    #: Offsets that no member has committed: None for one that is deleted or not known
    elsewhere: Mapping[int, int | None] = field(factory=dict[int, "int | None"])

    def as_json(self, members: int, partitions: int) -> dict[str, Any]:
        """The variables of the group, without its offsets."""
        everybody = range(1, members + 1)
        return {
            "groupEpoch": self.epoch,
            "targetEpoch": self.target_epoch,
            "target": _by_number(self.target, partitions, NOBODY),
            "member": [self.members.get(m, UNKNOWN).as_json(partitions) for m in everybody],
        }

    def offsets(self, partitions: int) -> list[int]:
        """The variable `committed`."""
        return _by_number(self.committed, partitions, 0)

    def given_to(self, member: int) -> frozenset[int]:
        """The partitions of a member in the target."""
        return frozenset(p for p, owner in self.target.items() if owner == member)

    def commits(self, partition: int, offset: int) -> "GroupState":
        """A member commits."""
        rest = {p: at for p, at in self.elsewhere.items() if p != partition}
        return evolve(self, committed={**self.committed, partition: offset}, elsewhere=rest)

    def loaded_offsets(self, found: Mapping[int, int]) -> "GroupState":
        """A load has found these: whatever is as it must be is as the spec has it."""
        known = {**self.committed, **self.elsewhere}
        wrong = {
            partition: found.get(partition, 0)
            for partition, offset in known.items()
            if offset is not None and offset != found.get(partition, 0)
        }
        return evolve(self, committed={**self.committed, **wrong})


def _by_number(values: Mapping[int, int], count: int, otherwise: int) -> list[int]:
    return [values.get(number, otherwise) for number in range(1, count + 1)]


@define
class GroupNumbers:
    """The spec's numbers of a group's members and partitions, and how its epochs differ."""

    #: The spec's epoch less Kafka's
    above: int = 0
    members: dict[str, int] = field(factory=dict[str, int])
    partitions: dict[str, int] = field(factory=dict[str, int])

    def member(self, name: str) -> int:
        """A member's number."""
        return self.members.setdefault(name, len(self.members) + 1)

    def partition(self, name: str) -> int:
        """The number of a partition, which has the id of its topic in its name."""
        return self.partitions.setdefault(name, len(self.partitions) + 1)

    def epoch(self, number: int) -> int:
        """The spec's epoch; 0, for none, is the same, and so is what comes before it."""
        return number + self.above if number > 0 else max(0, number)

    def target(self, lines: Iterable[Line]) -> dict[int, int]:
        """The owner of each partition in these members' targets."""
        return {
            self.partition(name): self.member(line["m"]) for line in lines for name in line["parts"]
        }

    def state(self, line: Line, before: GroupMember, target_epoch: int) -> GroupMember:
        """The member of a line. A version that does not know since when a partition is assigned
        has it since before, if it was, and otherwise since this target."""

        def since(parts: Sequence[Any], known: Mapping[int, int]) -> dict[int, int]:
            found: dict[int, int] = {}
            for part in parts:
                name, epoch = (part, None) if isinstance(part, str) else part
                number = self.partition(name)
                inferred = known.get(number, target_epoch)
                found[number] = inferred if epoch is None else self.epoch(epoch)
            return found

        state: str = line["state"]
        return GroupMember(
            self.epoch(line["e"]),
            self.epoch(line["pe"]),
            STATES.get(state, state.lower()),
            since(line["assigned"], before.assigned),
            since(line["pending"], {**before.pending, **before.assigned}),
        )
