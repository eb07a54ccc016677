"""What tells two payloads apart without keeping them: a hash of key, value and headers."""

from collections.abc import Iterable
from hashlib import blake2b

NONE_LENGTH = b"\xff" * 4


def payload_hash(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()
) -> int:
    """A natural number of 63 bits, the same wherever the same bytes are seen.

    Each part stands behind its length, so that no two payloads run into one another. The time and
    the offset are left out: brokers set them.
    """
    parts = [*_part(key), *_part(value)]
    for name, content in headers:
        parts += (*_part(name.encode()), *_part(content))
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "big") >> 1


def _part(data: bytes | None) -> tuple[bytes, bytes]:
    return (NONE_LENGTH, b"") if data is None else (len(data).to_bytes(4, "big"), data)
