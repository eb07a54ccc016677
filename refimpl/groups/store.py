"""The state of one coordinator: a replay of its log, as written and as committed."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import define, field

from refimpl.coordinator.operation import Soft
from refimpl.coordinator.versioned import Versioned
from refimpl.groups.logic import Group, GroupLogic
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    CoordinatorRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)

OFFSET_TYPES = frozenset((0, 1))
"""The types of records that are committed offsets."""


@define(eq=False)
class GroupStore:
    """Groups by their ids, and committed offsets by group and partition.

    A group that has offsets and no value of its own is a simple one: it never had members.
    """

    logics: Sequence[GroupLogic] = field(default=(), init=False)
    groups: Versioned[str, Group] = field(factory=Versioned[str, Group])
    offsets: Versioned[tuple[str, TopicPartition], OffsetCommitValue] = field(
        factory=Versioned[tuple[str, TopicPartition], OffsetCommitValue]
    )
    # : The partitions for which each group has or had an offset
    partitions: dict[str, dict[TopicPartition, None]] = field(
        factory=dict[str, dict[TopicPartition, None]]
    )
    _by_record: Mapping[int, GroupLogic] = field(factory=dict[int, GroupLogic], init=False)

    def serve(self, logics: Sequence[GroupLogic]) -> None:
        """Set the rules of each type of groups; called once, before anything is replayed."""
        self.logics = logics
        self._by_record = {number: logic for logic in self.logics for number in logic.record_types}

    # Change

    def replay(self, record: CoordinatorRecord, offset: int | None = None) -> None:
        """Apply a record; `offset` is its offset, if it is not known to be committed.

        A record of an unknown type is ignored (KAFKA-20254: an aborted upgrade).
        """
        number = record.kind.number
        if number in OFFSET_TYPES:
            self._replay_offset(record.key, record.value, offset)
            return
        logic = self._by_record.get(number)
        if logic is not None:
            group_id: str = record.key.group if number == 2 else record.key.group_id
            group = logic.replay(self.groups.get(group_id), record)
            self.groups.put(group_id, group, offset)

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int | None
    ) -> None:
        name = TopicPartition(key.topic, key.partition)
        self.offsets.put((key.group, name), value, offset)
        if value is not None:
            self.partitions.setdefault(key.group, {})[name] = None
        elif offset is None:
            self._forget(key.group, name)

    def apply(self, changes: Sequence[CoordinatorRecord | Soft], offset: int | None) -> None:
        """Apply the changes of an operation; the last of its records has this offset."""
        for change in changes:
            if isinstance(change, Soft):
                self.groups.put(change.key, change.value)
            else:
                self.replay(change, offset)

    def commit(self, high_watermark: int) -> None:
        """Take a new high watermark: all records below it are committed."""
        self.groups.commit(high_watermark)
        self.offsets.commit(high_watermark)

    def revert(self, end: int) -> None:
        """Undo all records from this offset on, which were truncated."""
        self.groups.revert(end)
        self.offsets.revert(end)

    def _forget(self, group_id: str, name: TopicPartition) -> None:
        known = self.partitions.get(group_id)
        if known is not None:
            known.pop(name, None)
            if not known:
                del self.partitions[group_id]

    # Queries

    def logic_of(self, group: Group) -> GroupLogic:
        """The rules of a group."""
        return next(logic for logic in self.logics if logic.owns(group))

    def offsets_of(
        self, group_id: str, *, committed: bool = False
    ) -> Iterator[tuple[TopicPartition, OffsetCommitValue]]:
        """The offsets of a group, as written or as committed."""
        view = self.offsets.committed if committed else self.offsets.get
        for name in list(self.partitions.get(group_id, ())):
            value = view((group_id, name))
            if value is not None:
                yield name, value
            elif self.offsets.is_gone((group_id, name)):
                self._forget(group_id, name)

    def has_offsets(self, group_id: str, *, committed: bool = False) -> bool:
        """True if a group has any offset."""
        return next(self.offsets_of(group_id, committed=committed), None) is not None

    def group_ids(self, *, committed: bool = False) -> list[str]:
        """The ids of all groups, simple ones too."""
        groups = self.groups.committed_keys() if committed else self.groups.current
        known = dict.fromkeys(groups)
        known |= dict.fromkeys(
            one for one in list(self.partitions) if self.has_offsets(one, committed=committed)
        )
        return list(known)
