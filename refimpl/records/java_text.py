"""Text as Kafka's Java code decodes it, where Python would decode it differently."""

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACED = "\ufffd".encode()


def decoded(data: bytes) -> str:
    """Bytes as Java reads UTF-8: half of a surrogate pair counts as one broken character."""
    if data.isascii():
        return data.decode()  # nearly all text is
    return _SURROGATE.sub(_REPLACED, data).decode(errors="replace")
