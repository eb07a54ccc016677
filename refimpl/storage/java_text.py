"""Text as the Java side of Kafka sees it, where Python would see it differently."""

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACED = "\ufffd".encode()


def decoded(data: bytes) -> str:
    """Bytes as Java reads UTF-8: half of a surrogate pair counts as one broken character."""
    return _SURROGATE.sub(_REPLACED, data).decode(errors="replace")


def string_hash(text: str) -> int:
    """`String.hashCode`: over the units of UTF-16, in 32 bits with a sign."""
    units = memoryview(text.encode("utf-16-be", "surrogatepass"))
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result - (result >> 31 << 32)
