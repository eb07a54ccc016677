"""The state of one coordinator: a replay of its log, as written and as committed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import define, evolve, field, frozen

from refimpl.coordinator.operation import Soft
from refimpl.coordinator.versioned import Versioned
from refimpl.groups.logic import Group, GroupLogic
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from refimpl.records.transactional import Entry, InTransaction, TransactionEnd

OFFSET_TYPES = frozenset((0, 1))
"""The types of records that are committed offsets."""


Place: TypeAlias = tuple[str, TopicPartition]
"""A group, and a partition that it has an offset of."""


@frozen
class PendingOffset:
    """An offset that was written within a transaction that is open (KIP-98).

    `order` is that of the records. If a later offset of the same partition counts already, this one
    is superseded: it will not count, and still is not stable (KAFKA-5247).
    """

    value: OffsetCommitValue
    order: int
    superseded: bool = False


@define(eq=False)
class GroupStore:
    """Groups by their ids, and committed offsets by group and partition.

    A group that has offsets and no value of its own is a simple one: it never had members. Offsets
    of an open transaction are pending until its marker.
    """

    logics: Sequence[GroupLogic] = field(default=(), init=False)
    groups: Versioned[str, Group] = field(factory=Versioned[str, Group])
    offsets: Versioned[tuple[str, TopicPartition], OffsetCommitValue] = field(
        factory=Versioned[tuple[str, TopicPartition], OffsetCommitValue]
    )
    #: By producer id and place
    pending: Versioned[tuple[int, Place], PendingOffset] = field(
        factory=Versioned[tuple[int, Place], PendingOffset]
    )
    #: The partitions for which each group has or had an offset, pending or not
    partitions: dict[str, dict[TopicPartition, None]] = field(
        factory=dict[str, dict[TopicPartition, None]]
    )
    #: Simple groups whose last offset was deleted by request. As in Kafka they stay until offsets
    #: are expired, or until the coordinator moves.
    emptied: dict[str, None] = field(factory=dict[str, None])
    #: The producers that have or had a pending offset of each place, and the places of each
    _producers: dict[Place, dict[int, None]] = field(factory=dict[Place, dict[int, None]])
    _places: dict[int, dict[Place, None]] = field(factory=dict[int, dict[Place, None]])
    _order: int = 0
    _by_record: Mapping[int, GroupLogic] = field(factory=dict[int, GroupLogic], init=False)

    def serve(self, logics: Sequence[GroupLogic]) -> None:
        """Set the rules of each type of groups; called once, before anything is replayed."""
        self.logics = logics
        self._by_record = {number: logic for logic in self.logics for number in logic.record_types}

    # Change

    def replay(self, record: Entry, offset: int | None = None) -> None:
        """Apply a record; `offset` is its offset, if it is not known to be committed.

        A record of an unknown type is ignored (KAFKA-20254: an aborted upgrade).
        """
        if isinstance(record, InTransaction):
            self._replay_pending(record, offset)
            return
        if isinstance(record, TransactionEnd):
            self._replay_end(record, offset)
            return
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
        place = key.group, name
        self.offsets.put(place, value, offset)
        if value is not None:
            self._supersede(place, self._order + 1, offset)
            self.partitions.setdefault(key.group, {})[name] = None
            return
        for producer_id in self._producers.get(place, ()):
            self.pending.put((producer_id, place), None, offset)
        if offset is None:
            self._forget(key.group, name)

    # Offsets within transactions

    def _replay_pending(self, record: InTransaction, offset: int | None) -> None:
        """Take an offset that counts once its transaction is committed."""
        producer_id, of = record.producer_id, record.record
        value: OffsetCommitValue | None = of.value
        if of.kind.number not in OFFSET_TYPES or value is None:
            return
        key: OffsetCommitKey = of.key
        place = key.group, TopicPartition(key.topic, key.partition)
        self._order += 1
        self.pending.put((producer_id, place), PendingOffset(value, self._order), offset)
        self._producers.setdefault(place, {})[producer_id] = None
        self._places.setdefault(producer_id, {})[place] = None
        self.partitions.setdefault(key.group, {})[place[1]] = None

    def _replay_end(self, end: TransactionEnd, offset: int | None) -> None:
        """Let a transaction's offsets count if it was committed, and forget them if not."""
        producer_id = end.producer_id
        for place in list(self._places.get(producer_id, ())):
            one = self.pending.get((producer_id, place))
            if one is None:
                self._settle(producer_id, place)
                continue
            self.pending.put((producer_id, place), None, offset)
            if end.committed and not one.superseded:
                self.offsets.put(place, one.value, offset)
                self._supersede(place, one.order, offset)
            if offset is None:
                self._settle(producer_id, place)

    def _supersede(self, place: Place, order: int, offset: int | None) -> None:
        """Note that pending offsets which were written before will not count."""
        for producer_id in self._producers.get(place, ()):
            one = self.pending.get((producer_id, place))
            if one is not None and one.order < order and not one.superseded:
                changed = evolve(one, superseded=True)
                self.pending.put((producer_id, place), changed, offset)

    def _settle(self, producer_id: int, place: Place) -> None:
        """Forget a producer that has no pending offset of a place, in either view."""
        if not self.pending.is_gone((producer_id, place)):
            return
        producers = self._producers.get(place, {})
        producers.pop(producer_id, None)
        if not producers:
            self._producers.pop(place, None)
        places = self._places.get(producer_id, {})
        places.pop(place, None)
        if not places:
            self._places.pop(producer_id, None)
        self._forget(*place)

    def is_unstable(self, place: Place) -> bool:
        """True if a transaction is open that wrote an offset of this place (KAFKA-9346)."""
        found = False
        for producer_id in list(self._producers.get(place, ())):
            found = found or self.pending.get((producer_id, place)) is not None
            self._settle(producer_id, place)
        return found

    def unstable_of(self, group_id: str) -> list[TopicPartition]:
        """The partitions of which a group has a pending offset."""
        names = list(self.partitions.get(group_id, ())) if self._producers else ()
        return [name for name in names if self.is_unstable((group_id, name))]

    def apply(self, changes: Sequence[Entry | Soft], offset: int | None) -> None:
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
        self.pending.commit(high_watermark)

    def revert(self, end: int) -> None:
        """Undo all records from this offset on, which were truncated."""
        self.groups.revert(end)
        self.offsets.revert(end)
        self.pending.revert(end)

    def _forget(self, group_id: str, name: TopicPartition) -> None:
        known = self.partitions.get(group_id)
        place = group_id, name
        if known is not None and place not in self._producers and self.offsets.is_gone(place):
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

    def is_simple(self, group_id: str, *, committed: bool = False) -> bool:
        """True for a group that has any offset, pending ones too, or had one a moment ago."""
        if group_id in self.emptied:
            return True
        first = next(self.offsets_of(group_id, committed=committed), None)
        return first is not None or bool(self.unstable_of(group_id))

    def group_ids(self, *, committed: bool = False) -> list[str]:
        """The ids of all groups, simple ones too."""
        groups = self.groups.committed_keys() if committed else self.groups.current
        known = dict.fromkeys(groups)
        known |= dict.fromkeys(
            one for one in list(self.partitions) if self.is_simple(one, committed=committed)
        )
        return list(known | self.emptied)
