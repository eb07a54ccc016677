"""The stored state of share partitions, as the committed records of its topic have it.

Spec: ShareState. Within a state epoch nothing gets lower: not the start, not the leader epoch, and
no record's delivery count or state. The oracle keeps a state for each offset, and no batches.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.addresses import SHARE_STATE
from chaos.sim.transactional_records import coordinator_record
from refimpl.machines.share_partition import TERMINAL, DeliveryState
from refimpl.messages.share import ShareKey
from refimpl.records.coordinators import SHARE_RECORDS, CoordinatorRecord
from refimpl.records.share_groups import StateBatch

Deliveries = dict[int, tuple[int, int]]
"""For each offset its delivery count, and its state."""


@define(eq=False)
class Kept:
    """The state of one share partition."""

    state_epoch: int
    leader_epoch: int
    start: int
    #: The offset of the last snapshot in the log
    snapshot: int
    deliveries: Deliveries = field(factory=Deliveries)

    def is_final(self, offset: int) -> bool:
        """True if a record is done with."""
        _, state = self.deliveries.get(offset, (0, DeliveryState.AVAILABLE))
        return offset < self.start or state in TERMINAL


@define(eq=False)
class ShareStateLog:
    """Judges each record once it is committed."""

    oracle: PartitionOracle
    delivery_limit: int
    kept: dict[ShareKey, Kept] = field(factory=dict[ShareKey, Kept])
    position: int = 0

    def keep_up(self) -> None:
        """Read what is committed by now."""
        committed = self.oracle.log.committed
        for offset, record in enumerate(committed[self.position :], self.position):
            if not self.oracle.era:
                self._judge(coordinator_record(record, SHARE_STATE.topic), offset)
        self.position = len(committed)

    def pruned(self, start: int) -> None:
        """A log begins at an offset: no state needs a record below it."""
        for key, one in self.kept.items():
            if one.snapshot < start and not self.oracle.era:
                what = f"the snapshot at {one.snapshot} is needed, and the log begins at {start}"
                raise self._broken("NeededIsKept", self._at(key, what))

    def _judge(self, record: CoordinatorRecord, offset: int) -> None:
        key = ShareKey(record.key.group_id, record.key.topic_id, record.key.partition)
        known, value = self.kept.get(key), record.value
        if value is None:
            self.kept.pop(key, None)
            return
        is_snapshot = record.kind is SHARE_RECORDS[0]
        if not is_snapshot and known is None:
            raise self._broken("StateSurvives", self._at(key, "an update of nothing"))
        before = 0 if known is None else known.state_epoch
        epoch = value.state_epoch if is_snapshot else before
        if known is not None and epoch == known.state_epoch:
            self._ascends(key, known, value, is_snapshot=is_snapshot)
        deliveries = {} if is_snapshot or known is None else known.deliveries
        for at, delivery in _each(value.state_batches):
            deliveries[at] = max(delivery, deliveries.get(at, (0, 0)))
            if delivery[0] > self.delivery_limit:
                what = f"{at} is delivered for the {delivery[0]}th time"
                raise self._broken("CountWithinLimit", self._at(key, what))
        kept = {o: one for o, one in deliveries.items() if o >= value.start_offset}
        snapshot = offset if known is None or is_snapshot else known.snapshot
        self.kept[key] = Kept(epoch, value.leader_epoch, value.start_offset, snapshot, kept)

    def _ascends(self, key: ShareKey, known: Kept, value: Any, *, is_snapshot: bool) -> None:
        if value.start_offset < known.start:
            what = f"the start moves from {known.start} to {value.start_offset}"
            raise self._broken("StartAscends", self._at(key, what))
        if value.leader_epoch < known.leader_epoch:
            what = f"leader epoch {value.leader_epoch} writes after {known.leader_epoch}"
            raise self._broken("LeaderFenced", self._at(key, what))
        if is_snapshot:
            new = dict(_each(value.state_batches))
            for offset, delivery in known.deliveries.items():
                if offset >= value.start_offset and new.get(offset, (0, 0)) < delivery:
                    what = f"{offset} had {delivery}, the snapshot has {new.get(offset)}"
                    raise self._broken("StateSurvives", self._at(key, what))

    def _at(self, key: ShareKey, what: str) -> str:
        words = f"{self.oracle.name}: {key.group_id} on partition {key.partition}: {what}"
        return words

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, what)


def _each(batches: Sequence[StateBatch]) -> Iterator[tuple[int, tuple[int, int]]]:
    for one in batches:
        for offset in range(one.first_offset, one.last_offset + 1):
            yield offset, (one.delivery_count, one.delivery_state)
