"""The hashes of keys, by values that others have published."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.model.partitioners import OWN, fnv1a, key_hash, murmur2, number
from traces.model.schema import NONE
from traces.second_checker import keys

# As in the unit tests of Kafka's own utilities.
MURMUR2 = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}
# As in the reference of FNV-1a, made positive.
FNV1A = {"": 0x811C9DC5, "a": 0xE40C292C, "foobar": 0xBF9CF968}


@pytest.mark.parametrize("key", MURMUR2)
def test_murmur2_is_the_one_of_java_clients(key: str) -> None:
    assert murmur2(key.encode()) == MURMUR2[key] & 0x7FFFFFFF


@pytest.mark.parametrize("key", FNV1A)
def test_fnv1a_is_made_positive(key: str) -> None:
    assert fnv1a(key.encode()) == 2**32 - FNV1A[key]


def test_a_hash_fits_into_32_bits_and_keeps_them() -> None:
    assert key_hash("consistent_random", "key") & 0xFFFFFFFF == zlib.crc32(b"key")
    assert key_hash("default", "foobar") == murmur2(b"foobar")
    assert {key_hash("consistent", str(n)) < 0 for n in range(99)} == {True, False}


@pytest.mark.parametrize(
    ("partitioner", "key"),
    [
        ("random", "key"),
        ("org.example.MyPartitioner", "key"),
        ("consistent_random", ""),
        # What was no UTF-8 was written down with escapes: its bytes are not known for sure.
        ("murmur2", "\\xff"),
    ],
)
def test_what_is_not_sure_has_no_hash(partitioner: str, key: str) -> None:
    assert key_hash(partitioner, key) == NONE


# Of 30 records with an empty key librdkafka 2.16 put those of `consistent_random` anywhere, and
# those of each other partitioner into one partition of six.
EMPTY = {
    **dict.fromkeys(("default", "murmur2", "murmur2_random"), 0x106E08D9),
    **dict.fromkeys(("fnv1a", "fnv1a_random"), 0x7EE3623B),
    "consistent": 0,
}


@pytest.mark.parametrize("partitioner", EMPTY)
def test_an_empty_key_is_a_key(partitioner: str) -> None:
    assert key_hash(partitioner, "") == EMPTY[partitioner]
    assert keys.partition_of(partitioner, "", 6) == EMPTY[partitioner] % 6


def test_consistent_random_takes_an_empty_key_for_none() -> None:
    assert keys.partition_of("consistent_random", "", 6) is None


def test_a_name_that_is_not_known_is_not_the_same_as_none() -> None:
    assert (number("murmur2"), number("random"), number(None)) == (0, OWN, None)


@given(st.binary(max_size=40))
def test_the_second_checker_works_the_hashes_out_once_more(key: bytes) -> None:
    assert keys.murmur2(key) == murmur2(key)
    assert keys.fnv1a(key) == fnv1a(key)
    assert keys.crc32(key) == zlib.crc32(key)


def test_the_second_checker_knows_the_published_values() -> None:
    assert [keys.murmur2(k.encode()) for k in MURMUR2] == [MURMUR2[k] & 0x7FFFFFFF for k in MURMUR2]
    assert keys.crc32(b"123456789") == 0xCBF43926
    assert keys.partition_of("random", "key", 3) is None
    assert keys.partition_of("default", "foobar", 5) == murmur2(b"foobar") % 5
