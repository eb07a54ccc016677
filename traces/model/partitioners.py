"""The partition of a key: the hash functions of producers, by the partitioner's name.

A record without a key is left out: a trace does not tell it from one whose key is unknown, and
only librdkafka's `consistent`, `murmur2` and `fnv1a` hash it, as an empty one. An empty key is
hashed by all partitioners but one: librdkafka's `consistent_random` looks at the length of the key,
while `murmur2_random` and `fnv1a_random` ask only whether there is one (`rdkafka_msg.c`).
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Final

from traces.model.schema import NONE

Hash = Callable[[bytes], int]
_MURMUR, _WORD = 0x5BD1E995, 0xFFFFFFFF
_FNV_BASIS, _FNV_PRIME = 0x811C9DC5, 0x01000193


def murmur2(key: bytes) -> int:
    """MurmurHash2 with Kafka's seed, without its sign: what Java clients and their heirs use."""
    hashed = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _MURMUR & _WORD
        word = (word ^ word >> 24) * _MURMUR & _WORD
        hashed = (hashed * _MURMUR & _WORD) ^ word
    if rest := key[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MURMUR & _WORD
    hashed = (hashed ^ hashed >> 13) * _MURMUR & _WORD
    return (hashed ^ hashed >> 15) & 0x7FFFFFFF


def fnv1a(key: bytes) -> int:
    """FNV-1a, made positive as Sarama does."""
    hashed = _FNV_BASIS
    for byte in key:
        hashed = (hashed ^ byte) * _FNV_PRIME & _WORD
    return 2**32 - hashed if hashed >= 2**31 else hashed


HASHES: Final[tuple[Hash, ...]] = (murmur2, zlib.crc32, fnv1a)
EMPTY_ANYWHERE: Final = "consistent_random"  # where a record with an empty key goes
OWN: Final = -2  # a partitioner of an application, which may put a key where it likes
_JAVA = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
_NAMES: Final[Mapping[str, int]] = {
    "default": 0,
    _JAVA: 0,
    "murmur2": 0,
    "murmur2_random": 0,
    "consistent": 1,
    "consistent_random": 1,
    "fnv1a": 2,
    "fnv1a_random": 2,
}


def number(partitioner: str | None) -> int | None:
    """The number of a partitioner's hash, `OWN` where the name is not known, None without one."""
    return None if partitioner is None else _NAMES.get(partitioner, OWN)


def key_hash(partitioner: str, key: str) -> int:
    """The hash of a key as a trace has it, 32 bits as a signed number; NONE if that is not sure.

    What is no UTF-8 was written down with escapes, and its bytes are not known for sure.
    """
    which = number(partitioner)
    if which is None or which == OWN or "\\x" in key or (not key and partitioner == EMPTY_ANYWHERE):
        return NONE
    hashed = HASHES[which](key.encode())
    return hashed - 2**32 if hashed >= 2**31 else hashed
