"""Appends of transactions that their coordinator has verified, as a leader makes them."""

from refimpl.broker.logs import BrokerLog
from refimpl.machines.replica_log import Guard, Origin
from refimpl.storage.format.batch import batches
from refimpl.storage.log.partition_log import LogAppendInfo, PartitionLog
from refimpl.storage.log.producers import batch_of


def guard_for(
    log: PartitionLog | BrokerLog, data: bytes, now_ms: int, *, next_epochs: bool = False
) -> Guard | None:
    """The guard of the first batch of a transaction; None if there is none, or if it goes on."""
    _, header = next(batches(data))
    if header.is_control:
        return None
    first = batch_of(header)._replace(version=2 if next_epochs else 1)
    return log.producers.start_verification(first, now_ms)


def append_verified(
    log: PartitionLog, data: bytes, epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
) -> LogAppendInfo:
    """Append a batch; a transaction that it begins is verified."""
    guard = guard_for(log, data, now_ms)
    return log.append_as_leader(data, epoch, now_ms, origin, guard=guard)
