"""Control batches: records that brokers write into a log for each other.

KIP-98 (transaction markers), KIP-595 (leader change). Each holds one record, whose key names its
type.
"""

from enum import IntEnum
from struct import Struct

from attrs import frozen

from refimpl.errors import CorruptBatch
from refimpl.storage.disk.interface import Buffer
from refimpl.storage.format.batch import Record, decode_records, encode_batch

_KEY = Struct(">hh")
_MARKER = Struct(">hi")


class ControlType(IntEnum):
    """The type in a control record's key; unknown types are kept as numbers."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@frozen
class EndTxnMarker:
    """The outcome of a producer's transaction, and the epoch of the coordinator that wrote it."""

    committed: bool
    coordinator_epoch: int


def encode_marker(
    marker: EndTxnMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    offset: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """The marker batch that a transaction coordinator writes to each partition of a transaction."""
    key = _KEY.pack(0, ControlType.COMMIT if marker.committed else ControlType.ABORT)
    value = _MARKER.pack(0, marker.coordinator_epoch)
    return encode_batch(
        [Record(offset, timestamp, key, value)],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def encode_leader_change(
    leader: int, voters: list[int], granting: list[int], *, timestamp: int, epoch: int, offset: int
) -> bytes:
    """The first batch of a quorum leader's epoch (KIP-595, LeaderChangeMessage v0)."""
    value = Struct(">hi").pack(0, leader) + _voters(voters) + _voters(granting) + b"\x00"
    key = _KEY.pack(0, ControlType.LEADER_CHANGE)
    record = Record(offset, timestamp, key, value)
    return encode_batch([record], leader_epoch=epoch, control=True)


def control_type(key: bytes | None) -> int:
    """The type that a control record's key names."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch(f"the key of a control record has {len(key or b'')} bytes, not 4")
    number = _KEY.unpack_from(key)[1]
    return ControlType(number) if number in ControlType.__members__.values() else number


def read_marker(data: Buffer, position: int = 0) -> EndTxnMarker | None:
    """The transaction marker in a control batch; None in other control batches."""
    record = next(decode_records(data, position), None)
    if record is None:
        return None  # compaction keeps an emptied batch for its sequence numbers
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if record.value is None or len(record.value) < _MARKER.size:
        raise CorruptBatch("a transaction marker without version and coordinator epoch")
    return EndTxnMarker(kind == ControlType.COMMIT, _MARKER.unpack_from(record.value)[1])


def _voters(ids: list[int]) -> bytes:
    return bytes((len(ids) + 1,)) + b"".join(Struct(">i").pack(i) + b"\x00" for i in ids)
