"""Files for others: whole or not at all, and of characters that every reader accepts."""

import os
import re
import tempfile
from pathlib import Path

# What XML 1.0 has no way to write, not even escaped. Ids and names of a trace may hold it.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def writable(text: str) -> str:
    """The text with each character that XML cannot hold spelt out."""
    return _UNWRITABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def write_whole(path: Path, content: bytes) -> None:
    """Write the file beside its place and move it there, so that nobody ever reads half of it."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a pipe or a terminal is written to and never replaced
        return
    place = path.resolve()  # a link keeps pointing to the file
    handle, beside = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(beside).chmod(0o666 & ~_umask())
        Path(beside).replace(place)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The mask of new files, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
