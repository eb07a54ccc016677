"""Frames to begin with, one or more of every API and version, and what is done to them."""

from collections.abc import Callable, Sequence
from random import Random
from struct import pack, pack_into
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from refimpl.api.table import APIS
from refimpl.wire.messages import is_flexible, write_request
from tests.refimpl.edge.requests import requests

ALL = [(api.key, version) for api in APIS.values() for version in range(api.first, api.last + 1)]
MOST = 1 << 16
CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
NUMBERS = (0, 1, -1, 2, 127, 128, 255, 32767, -32768, 65535, 2**31 - 1, -(2**31), 1 << 20, 10_000)


def header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Of a request without a client.id."""
    return pack(">hhih", api_key, version, correlation_id, -1) + b"\0" * is_flexible(
        api_key, version
    )


def seeds(each: int = 3) -> list[bytes]:
    """Requests that can be read, without their sizes; always the same."""
    found: list[bytes] = []
    for key, version in ALL:
        for body in _bodies(key, version, each):
            found.append(header(key, version, len(found)) + body)
    return found


def _bodies(key: int, version: int, each: int) -> list[bytes]:
    found: list[bytes] = []

    @settings(
        max_examples=each,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=CHECKS,
    )
    @given(requests(key, version))
    def collect(values: dict[str, Any]) -> None:
        found.append(write_request(key, version, values))

    collect()
    return found


def _flip(rng: Random, data: bytearray) -> None:
    """One bit."""
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: Random, data: bytearray) -> None:
    """One byte, anything."""
    data[rng.randrange(len(data))] = rng.randrange(256)


def _lie(rng: Random, data: bytearray) -> None:
    """A number somewhere, as a length that cannot be true would be."""
    size = rng.choice((1, 2, 4, 8))
    if len(data) > size:
        format = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}[size]
        bits = 8 * size - 1
        number = max(-(1 << bits), min((1 << bits) - 1, rng.choice(NUMBERS)))
        pack_into(format, data, rng.randrange(len(data) - size), number)


def _varint(rng: Random, data: bytearray) -> None:
    """An unsigned varint that may be as long as there is room."""
    place = rng.randrange(len(data))
    data[place : place + 1] = b"\xff" * rng.randrange(1, 6) + bytes((rng.randrange(128),))


def _cut(rng: Random, data: bytearray) -> None:
    """The end is missing."""
    del data[rng.randrange(len(data)) :]


def _remove(rng: Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    del data[start : start + rng.randrange(1, 9)]


def _insert(rng: Random, data: bytearray) -> None:
    place = rng.randrange(len(data) + 1)
    data[place:place] = rng.randbytes(rng.randrange(1, 9))


def _repeat(rng: Random, data: bytearray) -> None:
    """A part of it, again: an element twice, or a batch behind itself."""
    start = rng.randrange(len(data))
    part = data[start : start + rng.randrange(1, 64)]
    data[start:start] = part * rng.randrange(1, 4)


MUTATIONS: Sequence[Callable[[Random, bytearray], None]] = (
    *(_flip, _flip, _byte, _byte, _lie, _lie, _lie),  # what keeps the size is read further
    *(_varint, _cut, _remove, _insert, _repeat),
)


def mutated(rng: Random, frame: bytes, others: Sequence[bytes] = ()) -> bytes:
    """A frame with a few things done to it, mostly behind the first eight bytes of its header.

    Those say which API it is for: changed each time, most frames would be for none.
    """
    head, data = bytearray(frame[:8]), bytearray(frame[8:])
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        if not data:
            break
        rng.choice(MUTATIONS)(rng, data)
    if others and rng.random() < 0.05:
        other = rng.choice(others)
        data[rng.randrange(len(data) + 1) :] = other[rng.randrange(len(other)) :]
    if rng.random() < 0.02:
        _byte(rng, head)
    return bytes(head + data)[:MOST]
