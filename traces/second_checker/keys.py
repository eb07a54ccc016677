"""Compute the partition of a key, once more from the definitions of the hashes."""

import struct
from collections.abc import Callable, Mapping
from functools import reduce


def _wrapped(number: int) -> int:
    """A number as Java keeps it: the lowest 32 bits, as a signed number."""
    return (number + 0x80000000) % 0x100000000 - 0x80000000


def _shifted(number: int, bits: int) -> int:
    """Java's `>>>`."""
    return _wrapped((number % 0x100000000) >> bits)


def murmur2(key: bytes) -> int:
    """MurmurHash2 of 32 bits, as in Kafka's `Utils.murmur2`: the words are signed."""
    m, length = 0x5BD1E995, len(key)
    h = _wrapped(0x9747B28C ^ length)
    for (k,) in struct.iter_unpack("<i", key[: length - length % 4]):
        k = _wrapped(k * m)
        k = _wrapped((k ^ _shifted(k, 24)) * m)
        h = _wrapped(_wrapped(h * m) ^ k)
    tail = key[length - length % 4 :]
    if tail:
        for n, byte in enumerate(tail):
            h = _wrapped(h ^ (byte << (8 * n)))
        h = _wrapped(h * m)
    h = _wrapped((h ^ _shifted(h, 13)) * m)
    return (h ^ _shifted(h, 15)) & 0x7FFFFFFF


def crc32(key: bytes) -> int:
    """CRC-32 of IEEE 802.3, bit by bit: what librdkafka's `consistent` partitioners divide by."""
    rest = 0xFFFFFFFF
    for byte in key:
        rest ^= byte
        for _ in range(8):
            rest = (rest >> 1) ^ (0xEDB88320 if rest & 1 else 0)
    return rest ^ 0xFFFFFFFF


def fnv1a(key: bytes) -> int:
    """FNV-1a of 32 bits; where it is negative as a signed number, that without its sign."""
    hashed = reduce(lambda h, byte: (h ^ byte) * 16_777_619 % 2**32, key, 2_166_136_261)
    return abs(_wrapped(hashed))


_JAVA = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
_HASHES: Mapping[str, Callable[[bytes], int]] = {
    **dict.fromkeys(("default", "murmur2", "murmur2_random", _JAVA), murmur2),
    **dict.fromkeys(("consistent", "consistent_random"), crc32),
    **dict.fromkeys(("fnv1a", "fnv1a_random"), fnv1a),
}


def partition_of(partitioner: str, key: str, partitions: int) -> int | None:
    """The partition of a key, None if it is not certain.

    It is uncertain for an unknown partitioner and for bytes that were written with escapes. So it
    is for an empty key of `consistent_random`, which takes it for no key.
    """
    hashed = _HASHES.get(partitioner)
    if hashed is None or "\\x" in key or (partitioner, key) == ("consistent_random", ""):
        return None
    return hashed(key.encode()) % partitions
