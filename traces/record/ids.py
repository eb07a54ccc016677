"""The id of a message: the application's own, or a header that the recorder adds.

An id belongs to the *logical* message, so that a retry inside a client keeps it. The header's value
is a number that no two processes share (see `Process`), as eight bytes, the highest first.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

Id = int | str
#: The application's way to tell the id of a message: of topic, key, value and headers.
IdOf = Callable[[str, Any, Any, Any], Id | None]

HEADER = "highwater-id"


def with_header(headers: Any, number: int) -> list[tuple[str, Any]]:
    """The headers of a message, and ours behind them.

    A message that is forwarded with the headers that it was read with is another message: its
    former id goes.
    """
    given: Any = headers or ()
    if isinstance(given, Mapping):
        given = cast("Mapping[str, Any]", given).items()
    others = [header for header in given if header[0] != HEADER]
    return [*others, (HEADER, number.to_bytes(8, "big"))]


def id_in(headers: Any) -> Id | None:
    """The id that a message carries in its header, if it has one.

    Of several the last one counts: a forwarder that is not ours may have kept an earlier one.
    """
    found = None
    for name, value in headers or ():
        if name == HEADER and value is not None:
            found = value
    return None if found is None else int.from_bytes(found, "big")


def text(key: Any) -> str | None:
    """A key as text; what is not text is kept legible."""
    if key is None or type(key) is str:
        return key
    if isinstance(key, (bytes, bytearray)):
        return key.decode("utf-8", "backslashreplace")
    return str(key)
