"""The promises of a group of the consumer protocol (KIP-848)."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from chaos.oracles.coordinated_group import CoordinatedGroup
from chaos.oracles.group import Commit
from chaos.sim import group_messages as g
from refimpl.machines.consumer_group import LEAVE_FOR_A_WHILE
from refimpl.records.consumer_groups import (
    ConsumerGroupMetadata,
    CurrentMemberAssignment,
    OwnedPartitions,
)
from refimpl.records.coordinators import GROUP_RECORDS, CoordinatorRecord

CURRENT = GROUP_RECORDS[8]


class Has(NamedTuple):
    """A member's state by a record: its epoch, and its partitions with their assignment epochs.

    `pending` are the partitions that it must revoke.
    """

    epoch: int
    assigned: Mapping[int, int]
    pending: Mapping[int, int]

    def since(self, partition: int) -> int | None:
        """Since which epoch it has a partition, None if it has not."""
        return self.assigned.get(partition, self.pending.get(partition))


@define(eq=False)
class ConsumerGroupOracle(CoordinatedGroup):
    """Judges epochs of the group and of its members.

    `written` is everything that was ever written of a member in the log as it is.
    """

    group_epoch: int = 0
    has: dict[str, Has] = field(factory=dict[str, Has])
    written: dict[str, list[Has]] = field(factory=dict[str, list[Has]])

    def attach(self) -> None:
        """Judge the members' answers as well."""
        CoordinatedGroup.attach(self)
        self.simulation.watch(g.Told, self._told)

    def _start_again(self) -> None:
        self.group_epoch = 0
        self.has.clear()
        self.written.clear()

    def _replay(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        for one in records:
            value: Any = one.value
            if isinstance(value, ConsumerGroupMetadata):
                self.group_epoch = value.epoch
            elif isinstance(value, CurrentMemberAssignment):
                has = Has(
                    value.member_epoch,
                    _epochs(value.assigned_partitions),
                    _epochs(value.partitions_pending_revocation),
                )
                self.has[one.key.member_id] = has
                self.written.setdefault(one.key.member_id, []).append(has)
            elif one.kind is CURRENT:
                self.has.pop(one.key.member_id, None)

    def _group(self, at: int, records: Sequence[CoordinatorRecord]) -> None:
        """Epochs grow, and a partition is one member's."""
        epoch, before = self.group_epoch, dict(self.has)
        self._replay(at, records)
        if self.group_epoch != epoch:
            self._grows(epoch, self.group_epoch)
        for member_id, has in self.has.items():
            old = before.get(member_id)
            away = has.epoch == LEAVE_FOR_A_WHILE
            if old and has.epoch < old.epoch and not away and not self.offsets.era:
                raise self._broken("MemberEpochsGrow", f"{member_id}: {has} after {old}")
        held = Counter(p for has in self.has.values() for p in (*has.assigned, *has.pending))
        if held and max(held.values()) > 1:
            raise self._broken("OneOwner", f"{self.has}")

    def _is_fenced(self, commit: Commit) -> str:
        """A commit is fenced if its sender was removed, has lost the partition, or got it again
        since."""
        has = self.has.get(commit.member_id)
        if has is None:
            return f"the members are {sorted(self.has)}"
        since = has.since(commit.partition)
        if since is not None and commit.generation < since:
            return f"it has the partition since {since}"
        others = [
            member_id
            for member_id, one in self.has.items()
            if member_id != commit.member_id and one.since(commit.partition) is not None
        ]
        return f"the partition is that of {others}" if others else ""

    def _claim(self, commit: Commit) -> Hashable:
        has = self.has.get(commit.member_id)
        since = None if has is None else has.since(commit.partition)
        return commit.partition, commit.member_id, since

    def _told(self, who: int, seen: g.Told) -> None:
        """A member receives only an epoch and an assignment that are written."""
        written = self.written.get(seen.member_id, ())
        for has in reversed(written):
            same = seen.partitions is None or seen.partitions == frozenset(has.assigned)
            if has.epoch == seen.epoch and same:
                return
        if not self.offsets.era:
            raise self._broken("AssignmentWritten", f"{seen}, written is {written}")

    def _took_over(self, who: int, seen: g.Assigned) -> None:
        """A member's partition is owned by no other member that the coordinator knows."""
        if not self.offsets.era:
            known = [one for one in self.members if one.up and one.member_id in self.has]
            self._nobody_else_owns(seen, known if seen.member_id in self.has else ())


def _epochs(owned: Sequence[OwnedPartitions]) -> Mapping[int, int]:
    return {
        number: since
        for one in owned
        for number, since in zip(one.partitions, one.assignment_epochs or (), strict=True)
    }
