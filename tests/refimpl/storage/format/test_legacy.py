"""Old messages as Kafka itself writes them, and what is refused.

The bytes were made by Kafka 4.3.1; `make test-kafka` reads hundreds of such logs with both tools.
"""

import pytest

from refimpl.errors import CorruptBatch, RefusedBatch
from refimpl.storage.format.batch import TimestampType, crc_matches, read_header
from refimpl.storage.format.legacy import decode_messages

LZ4_V0 = bytes.fromhex(
    "00000000000007d00000004c8f4849990003ffffffff0000003e04224d1860401a2f00000011000100a007d0000004"
    "ee0ab965100f008f037e76616c7565200600ffffff684f000001627c03ff4b50616c75652000000000"
)
LZ4_V1 = bytes.fromhex(
    "00000000000000030000005b3efa066d010300000145f680b033ffffffff0000004504224d186040823600000015"
    "000100ff0a06ca4b0f6fc1010000000145f680b0330000042076616c75650600ffffffff0c4f000002942404ffff7e"
    "50616c75652000000000"
)
LZ4_V1_STAMPED = bytes.fromhex(
    "00000000000000050000005658951842010b0000015d3ef79800ffffffff0000004004224d18604082310000001500"
    "0100ff0f04721adede6901080000015d3ef79800ffffffff0000045c76616c7565200600ffffffff4250616c756520"
    "00000000"
)


def test_lz4_in_v0_is_read_in_spite_of_its_wrong_header_checksum() -> None:
    """KAFKA-3160."""
    (message,) = decode_messages(LZ4_V0)
    record = message.record
    assert (record.offset, record.timestamp) == (2000, -1)
    assert record.key == b"value " * 149
    assert record.value == b"value " * 59
    assert message.is_valid


def test_a_v1_wrapper_numbers_what_is_in_it() -> None:
    (message,) = decode_messages(LZ4_V1)
    assert (message.record.offset, message.record.timestamp) == (3, 1_400_000_000_051)
    placed = (1_000).to_bytes(8) + LZ4_V1[8:]
    assert decode_messages(placed)[0].record.offset == 1_000


def test_a_stamped_wrapper_stamps_all_that_is_in_it() -> None:
    """KIP-32."""
    (message,) = decode_messages(LZ4_V1_STAMPED)
    assert read_header(LZ4_V1_STAMPED).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert message.record.timestamp == 1_500_000_000_000


@pytest.mark.parametrize("message", [LZ4_V0, LZ4_V1, LZ4_V1_STAMPED], ids=["v0", "v1", "stamped"])
def test_a_damaged_message_is_refused_and_never_breaks_the_reader(message: bytes) -> None:
    """The checksum is the caller's to look at; without it, only `CorruptBatch` may come out."""
    refused = 0
    for at in range(12, len(message)):  # whether the length fits is seen before
        damaged = message[:at] + bytes((message[at] ^ 0x10,)) + message[at + 1 :]
        try:
            assert not crc_matches(damaged, read_header(damaged))
            decode_messages(damaged)
        except RefusedBatch:
            refused += 1
    assert refused > 20


def test_a_wrapper_around_nothing_is_refused() -> None:
    empty = LZ4_V1[:30] + (-1).to_bytes(4, signed=True)
    sized = empty[:8] + (len(empty) - 12).to_bytes(4) + empty[12:]
    with pytest.raises(CorruptBatch, match="without anything to unwrap"):
        decode_messages(sized)
