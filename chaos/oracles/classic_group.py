"""The promises of a classic group."""

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from attrs import define, field

from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.oracles.group import Commit
from chaos.sim import group_messages as g
from refimpl.clients.assignors import read_assignment
from refimpl.records.coordinators import CoordinatorRecord, GroupMetadataValue


class Generation(NamedTuple):
    """A record's content for the group: each member's assignment."""

    number: int
    assigned: Mapping[str, frozenset[int]]


@define(eq=False)
class ClassicGroupOracle(CoordinatedGroup):
    """Judges generations: each record of the group is one."""

    generations: list[Generation] = field(factory=list[Generation])

    @property
    def current(self) -> Generation:
        """The group as it was last written."""
        return self.generations[-1] if self.generations else Generation(0, {})

    def _start_again(self) -> None:
        self.generations.clear()

    def _replay(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        self.generations += _generations(records)

    def _group(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        """Generations grow, and in one a partition has one owner."""
        for now in _generations(records):
            everything = [number for numbers in now.assigned.values() for number in numbers]
            if len(set(everything)) < len(everything):
                raise self._broken("OneOwner", f"{now}")
            self._grows(self.current.number, now.number)
            self.generations.append(now)

    def _is_fenced(self, commit: Commit) -> str:
        """A generation above the one that is written is about to begin: its members do not own
        anything yet, and the coordinator may take their commits."""
        current = self.current
        stranger = commit.member_id not in current.assigned
        fenced = commit.generation < current.number
        fenced |= commit.generation == current.number and stranger
        return f"the generation is {current}" if fenced else ""

    def _claim(self, commit: Commit) -> Hashable:
        return commit.partition, commit.member_id, commit.generation

    def _took_over(self, who: int, seen: g.Assigned) -> None:
        """A member's assignment is the written one, and no other member has it in that generation.

        A member without a place in that record is in no generation. If a generation was handed out
        and not written, the next coordinator hands its number out again.
        """
        if self.offsets.era:
            return
        written = [one.assigned for one in self.generations if one.number == seen.generation]
        part = frozenset(seen.partitions)
        of_part = [assigned for assigned in written if assigned.get(seen.member_id) == part]
        if not of_part:
            raise self._broken("AssignmentWritten", f"{seen}, written is {written}")
        same = [
            one
            for one in self.members
            if one.up and one.group_generation == seen.generation and one.member_id in of_part[-1]
        ]
        self._nobody_else_owns(seen, same)


def _generations(records: Sequence[CoordinatorRecord]) -> list[Generation]:
    """The generations that records contain; a tombstone adds none."""
    values = [one.value for one in records if isinstance(one.value, GroupMetadataValue)]
    return [
        Generation(
            value.generation,
            {
                one.member_id: frozenset(number for _, number in read_assignment(one.assignment))
                for one in value.members
            },
        )
        for value in values
    ]
