"""The records of one partition in a Produce request: one batch, which is whole (KIP-98)."""

from refimpl.errors import CorruptBatch, InvalidRecord, UnreadableBatch
from refimpl.storage.format.batch import LENGTH_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT

SMALLEST_MESSAGE, MOST_INT = 14, 2**31 - 1
"""The least length that a batch of any format has, and the largest size that Kafka can count."""


def only_batch(data: memoryview) -> memoryview:
    """The one batch of a Produce request's partition (KIP-98).

    As in Kafka, a batch that is cut off is no batch, and the rest of one behind it is left out.
    """
    size = _whole_batch(data)
    if size is None:
        raise InvalidRecord("no whole batch")
    if data[MAGIC_AT] != MAGIC:
        raise InvalidRecord(f"format {data[MAGIC_AT]}, where {MAGIC} is the only one")
    rest = data[size:]
    if _whole_batch(rest) is not None:
        raise InvalidRecord("several batches, where a request has one for each partition")
    return data[:size]


def _whole_batch(data: memoryview) -> int | None:
    """The size of the first batch; None if there is none, or only a part of it."""
    if len(data) < LOG_OVERHEAD:
        return None
    length = int.from_bytes(data[LENGTH_AT:LOG_OVERHEAD], signed=True)
    if length < SMALLEST_MESSAGE:
        raise CorruptBatch(f"a length of {length}, less than any message has")
    if len(data) <= MAGIC_AT:
        return None
    if not 0 <= data[MAGIC_AT] <= MAGIC:
        raise CorruptBatch(f"message format {data[MAGIC_AT]} is not known, only 0 to {MAGIC}")
    size = LOG_OVERHEAD + length
    if size > MOST_INT:
        raise UnreadableBatch(f"a length of {length}, which no batch can have")
    return size if size <= len(data) else None
