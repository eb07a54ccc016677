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

    A group that has offsets and no value of its own is a simple one: nobody ever joined it.
    """

    logics: Sequence[GroupLogic] = field(default=(), init=False)
    groups: Versioned[str, Group] = field(factory=Versioned[str, Group])
    offsets: Versioned[tuple[str, TopicPartition], OffsetCommitValue] = field(
        factory=Versioned[tuple[str, TopicPartition], OffsetCommitValue]
    )
    #: The partitions of each group that an offset is or was committed of
    partitions: dict[str, dict[TopicPartition, None]] = field(
        factory=dict[str, dict[TopicPartition, None]]
    )
    _by_record: Mapping[int, GroupLogic] = field(factory=dict[int, GroupLogic], init=False)

    def serve(self, logics: Sequence[GroupLogic]) -> None:
        """Know the rules of each type of groups; said once, before anything is replayed."""
        self.logics = logics
        self._by_record = {number: logic for logic in self.logics for number in logic.record_types}

    # Change

    def replay(self, record: CoordinatorRecord, offset: int | None = None) -> None:
        """Take a record over; `offset` is where it stands, if it is not known to be committed.

        A record of a type that nobody knows says nothing (KAFKA-20254: an aborted upgrade).
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
        """Take over what an operation decided; its records stand before or at this offset."""
        for change in changes:
            if isinstance(change, Soft):
                self.groups.put(change.key, change.value)
            else:
                self.replay(change, offset)

    def commit(self, high_watermark: int) -> None:
        """Everything below the high watermark is committed."""
        self.groups.commit(high_watermark)
        self.offsets.commit(high_watermark)

    def revert(self, end: int) -> None:
        """Everything from this offset on is cut off."""
        self.groups.revert(end)
        self.offsets.revert(end)

    def _forget(self, group_id: str, name: TopicPartition) -> None:
        known = self.partitions.get(group_id)
        if known is not None:
            known.pop(name, None)
            if not known:
                del self.partitions[group_id]

    # Look

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
        """Whether anything is committed by a group."""
        return next(self.offsets_of(group_id, committed=committed), None) is not None

    def group_ids(self, *, committed: bool = False) -> list[str]:
        """All groups, simple ones as well."""
        groups = self.groups.committed_keys() if committed else self.groups.current
        known = dict.fromkeys(groups)
        known |= dict.fromkeys(
            one for one in list(self.partitions) if self.has_offsets(one, committed=committed)
        )
        return list(known)
