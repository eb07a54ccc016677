"""The committed records of `__transaction_state`, and what may follow what in them."""

from collections.abc import Callable, Mapping

from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.settings import DAY_MS
from chaos.sim.transactional_records import coordinator_record
from refimpl.machines.transaction_coordinator import TransactionMetadata, TransactionState
from refimpl.records.coordinators import TRANSACTIONS_TOPIC
from refimpl.transactions.log_records import metadata_of

COMMITS = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT))
FOLLOWS: Mapping[TransactionState, frozenset[TransactionState]] = {
    TransactionState.EMPTY: frozenset(
        (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
    ),
    TransactionState.ONGOING: frozenset(
        (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
    ),
    TransactionState.PREPARE_COMMIT: frozenset((TransactionState.COMPLETE_COMMIT,)),
    TransactionState.PREPARE_ABORT: frozenset((TransactionState.COMPLETE_ABORT,)),
    TransactionState.COMPLETE_COMMIT: frozenset(
        (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
    ),
    TransactionState.COMPLETE_ABORT: frozenset(
        (TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
    ),
}
"""The states that may follow each state of a transactional id."""


@define(eq=False)
class TransactionLog:
    """One partition of the coordinator's topic, as far as it is committed.

    `decisions` are the outcomes of each id's transactions, in their order, with the producer id.
    """

    oracle: PartitionOracle
    count: Callable[[str], None]
    known: int = 0
    ids: dict[str, TransactionMetadata] = field(factory=dict[str, TransactionMetadata])
    decisions: dict[str, list[tuple[int, bool]]] = field(factory=dict[str, list[tuple[int, bool]]])

    def keep_up(self) -> None:
        """Judge the records that were committed since the last call."""
        committed = self.oracle.log.committed
        if self.oracle.era:
            return
        for record in committed[self.known :]:
            one = coordinator_record(record, TRANSACTIONS_TOPIC)
            transactional_id: str = one.key.transactional_id
            if one.value is None:
                self.ids.pop(transactional_id, None)
                self.count("transactional ids expired")
            else:
                self._judge(transactional_id, metadata_of(one.value))
        self.known = len(committed)

    def _judge(self, transactional_id: str, new: TransactionMetadata) -> None:
        old = self.ids.get(transactional_id)
        self.ids[transactional_id] = new
        if new.prepared:
            decision = new.at.id, new.committed
            self.decisions.setdefault(transactional_id, []).append(decision)
        if old is None:
            if new.state is not TransactionState.EMPTY:
                raise Violation("DecidedOnce", _change(transactional_id, old, new))
            return
        if new.state not in FOLLOWS[old.state]:
            raise Violation("DecidedOnce", _change(transactional_id, old, new))
        if not self._keeps_partitions(old, new):
            raise Violation("PartitionsKept", _change(transactional_id, old, new))
        if not self._keeps_epoch(old, new):
            raise Violation("ProducerEpochsGrow", _change(transactional_id, old, new))
        if old.state is TransactionState.ONGOING and new.prepared:
            took_ms = new.updated_ms - old.started_ms
            if took_ms < 0:
                self.count("transactions that ended before they began, by the clocks")
            if took_ms > DAY_MS:
                self.count("transactions that took more than a day, by the clocks")
            late = took_ms >= old.timeout_ms
            fenced = new.at.epoch > old.at.epoch and not new.committed
            if late and fenced:
                self.count("transactions that timed out")

    def _keeps_partitions(self, old: TransactionMetadata, new: TransactionMetadata) -> bool:
        """Partitions are added until the decision, which is about all of them."""
        if old.state is not TransactionState.ONGOING:
            return True
        added = new.state is TransactionState.ONGOING
        return old.partitions <= new.partitions if added else old.partitions == new.partitions

    def _keeps_epoch(self, old: TransactionMetadata, new: TransactionMetadata) -> bool:
        """An instance has an epoch that none had before; a transaction is that of its producer."""
        if new.state is TransactionState.EMPTY:
            return new.at.id != old.at.id or new.at.epoch > old.at.epoch
        if new.state is TransactionState.ONGOING:
            return new.at == old.at
        return new.at.id != old.at.id or new.at.epoch >= old.at.epoch


def _change(
    transactional_id: str, old: TransactionMetadata | None, new: TransactionMetadata
) -> str:
    before = "nothing" if old is None else f"{old.state.shown} {tuple(old.at)}"
    words = f"transactional id {transactional_id}: {new.state.shown} {tuple(new.at)} after {before}"
    return words
