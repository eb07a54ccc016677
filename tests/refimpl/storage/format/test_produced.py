"""The bytes of a partition in a Produce request: one whole batch, and how others are refused."""

import pytest

from refimpl.errors import CorruptBatch, InvalidRecord, Refusal, UnreadableBatch
from refimpl.storage.format.batch import LOG_OVERHEAD, MAGIC_AT, Record, encode_batch
from refimpl.storage.format.produced import only_batch

BATCH = encode_batch([Record(0, 1_000, b"k", b"value")])


def with_length(length: int, data: bytes = BATCH) -> bytes:
    return data[:8] + length.to_bytes(4, signed=True) + data[LOG_OVERHEAD:]


def with_magic(magic: int) -> bytes:
    return BATCH[:MAGIC_AT] + magic.to_bytes(1, signed=True) + BATCH[MAGIC_AT + 1 :]


@pytest.mark.parametrize("rest", [b"", b"0", BATCH[:LOG_OVERHEAD], BATCH[:-1]])
def test_one_batch_is_taken_and_the_rest_of_another_left_out(rest: bytes) -> None:
    assert bytes(only_batch(memoryview(BATCH + rest))) == BATCH


def test_the_smallest_length_is_that_of_an_empty_message() -> None:
    """Its header is read later."""
    smallest = with_length(14)[: LOG_OVERHEAD + 14]
    assert bytes(only_batch(memoryview(smallest))) == smallest


@pytest.mark.parametrize(
    ("data", "error", "told"),
    [
        (b"", InvalidRecord, "no whole batch"),
        (BATCH[: LOG_OVERHEAD - 1], InvalidRecord, "no whole batch"),
        (BATCH[:MAGIC_AT], InvalidRecord, "no whole batch"),
        (BATCH[:-1], InvalidRecord, "no whole batch"),
        (BATCH + BATCH, InvalidRecord, "several batches"),
        (with_magic(1), InvalidRecord, "format 1, where 2 is the only one"),
        (with_magic(3), CorruptBatch, "message format 3 is not known"),
        (with_magic(-1), CorruptBatch, "is not known"),
        (with_length(13), CorruptBatch, "a length of 13, less than any message has"),
        (with_length(-1), CorruptBatch, "a length of -1, less than any message has"),
        (with_length(2**31 - 1), UnreadableBatch, "which no batch can have"),
    ],
)
def test_anything_else_is_refused(data: bytes, error: type[Refusal], told: str) -> None:
    with pytest.raises(error, match=told):
        only_batch(memoryview(data))
