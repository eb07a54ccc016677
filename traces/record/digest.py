"""A number that stands for what a message holds, the same where it is sent and where it is read."""

from collections.abc import Iterable, Mapping
from typing import Any, cast
from zlib import crc32

from traces.record.ids import HEADER

_ABSENT = b"\xff\xff\xff\xff"


def digest(value: Any, key: Any, headers: Any) -> int | None:
    """Of key, value and headers, but ours; nothing where the library shows other than bytes.

    A client that serialises shows the sender one thing and the reader another, or the same only if
    the two are configured to match.
    """
    parts: list[bytes | bytearray] = []
    for part in (key, value, *_flat(headers)):
        raw = part.encode() if type(part) is str else part
        if raw is None:
            parts.append(_ABSENT)
        elif isinstance(raw, (bytes, bytearray)):
            parts += (len(raw).to_bytes(4, "big"), raw)
        else:
            return None
    return crc32(b"".join(parts))


def _flat(headers: Any) -> Iterable[Any]:
    named: Any = headers or ()
    if isinstance(named, Mapping):
        named = cast("Mapping[str, Any]", named).items()
    for name, value in named:
        if name != HEADER:
            yield name
            yield value
