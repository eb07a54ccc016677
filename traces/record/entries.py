"""The entries of a journal: lines of JSON, and three compact forms for what happens most.

A send is written down before the client is called, so its cost is added to every message. Its entry
and those of delivery reports and of polls are packed numbers; everything else is a line of JSON.

    entry   = checksum of what follows (4 bytes), size of the body (4), body, zeros, tag (4)
    journal = windows; each begins with a mark (4), and all but the last end with a FILL

The checksum is written last: until then it is zero. Every entry begins and ends 4 bytes behind a
multiple of 8, so its checksum lies before such a border, and its tag behind another. Blocks of a
disk end at such borders: whichever are lost, some entry has its checksum and has lost its tag.
"""

import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import fstat
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

import orjson

Line = dict[str, Any]

#: How a window begins; and how the first one does when the recording could not be continued.
MARK: Final = b"JRN2"
STOPPED: Final = b"HALT"
#: How journals of the recorder began when entries had no checksums.
FORMER: Final = b'{"jo'

#: The tags of entries.
LINE: Final = b"LINE"
SENT: Final = b"SEND"
KEYED: Final = b"SKEY"
REPORTED: Final = b"REPT"
POLLED: Final = b"POLL"
FILLED: Final = b"FILL"

SUM: Final = struct.Struct("<I")
SIZE: Final = struct.Struct("<I")
#: A whole entry behind its checksum, without a key: size, number of the send's context, seq, time,
#: id, tag. With a key there stands `trailer` behind the key instead of the tag.
SEND: Final = struct.Struct("<Iiqqq4s")
SEND_KEYED: Final = struct.Struct("<Iiqqq")
#: When reports were written down; each report is seq, partition, offset, timestamp. They come in
#: bursts, and have one time: none came after it.
REPORTS: Final = struct.Struct("<q")
REPORT_FIELDS: Final = 4
#: A whole entry of one report alone, behind its checksum.
REPORT: Final = struct.Struct("<Iqqqqq4x4s")
#: Size, number of the poll's context, records, seq, call, return. Each record is the number of its
#: partition's context, offset, id, timestamp, epoch, length of its key or -1; behind them all
#: stand the keys, and a `trailer`.
POLL: Final = struct.Struct("<Iiiqqq")
POLL_FIELDS: Final = 6
#: How many bytes are left to the next window: a whole entry.
FILL: Final = struct.Struct("<II4s")
NO_ID: Final = -(2**63)
_NOTHING = bytes(4)
_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)


class DamagedError(Exception):
    """A journal that is not as the recorder leaves it, even if its process was killed."""

    def __init__(self, journal: Path, at: int, what: str) -> None:
        super().__init__(f"{journal.name}: byte {at}: damaged: {what}")
        self.at = at


def trailers(tag: bytes) -> tuple[bytes, ...]:
    """The bytes behind a body, by the last three bits of its size: zeros, and the tag."""
    return tuple(bytes(4 - size & 7) + tag for size in range(8))


def checksum(entry: bytes) -> int:
    """The number before an entry: never 0, which marks an entry that is not whole yet."""
    return crc32(entry) or 1


def stretch(size: int) -> int:
    """The length of an entry whose body has this size."""
    return SUM.size + SIZE.size + size + (4 - size & 7) + 4


def entries(journal: Path) -> Iterator[Line]:
    """All entries as lines, up to the end, or up to the one in the middle of which all ended.

    A line of a send has no outcome; that of a delivery report has, and tells in `at` the partition,
    the offset and the time of the record. Raises `DamagedError` behind the last that is whole.
    """
    found = Entries(journal)
    yield from found.new()
    found.see_the_end()


@dataclass(slots=True)
class Entries:
    """The entries of a journal that may still be written, up to a place in it if one is given."""

    journal: Path
    until: int | None = None
    at: int = 0
    stopped: bool = False
    _contexts: dict[int, Line] = field(default_factory=dict[int, Line])

    def new(self) -> Iterator[Line]:
        """Those that were written since the last time, as far as they are whole."""
        with self.journal.open("rb", buffering=_BLOCK) as file:
            if not self.at:
                self._begin(file)
            file.seek(self.at)
            while self.until is None or self.at < self.until:
                expected = file.read(SUM.size)
                if expected in (b"", _NOTHING):
                    return
                body, tag = self._entry(file, expected)
                yield from self._lines(tag, body)
                self.at += stretch(len(body))
                if tag == FILLED:
                    self._cross(file, *SUM.unpack(body))
                file.seek(self.at)

    def see_the_end(self) -> None:
        """See that nothing lies behind the last entry, but one in the middle of which all ended."""
        with self.journal.open("rb", buffering=_BLOCK) as file:
            size = _size(file)
            if size % 8 or size < self.at + SUM.size:
                raise DamagedError(self.journal, size, "the file ends here, cut short")
            file.seek(self.at + SUM.size)
            begun = file.read(SIZE.size)
            end = self.at if begun in (b"", _NOTHING) else self.at + stretch(*SIZE.unpack(begun))
            file.seek(min(end, size))
            while block := file.read(_BLOCK):
                if block != _ZEROS[: len(block)]:
                    raise self._damaged("something lies behind an entry that is not there")

    def _damaged(self, what: str) -> DamagedError:
        return DamagedError(self.journal, self.at, what)

    def _begin(self, file: BinaryIO) -> None:
        mark = file.read(4)
        if mark == FORMER:
            raise self._damaged(
                "written by an earlier version, without checksums: "
                "end its recording with the `record-scan` of that version"
            )
        if mark not in (MARK, STOPPED):
            raise self._damaged("expected the beginning of a journal")
        self.stopped, self.at = mark == STOPPED, 4

    def _cross(self, file: BinaryIO, left: int) -> None:
        """Go on in the next window."""
        file.seek(self.at)
        if any(file.read(left)) or file.read(4) != MARK:
            raise self._damaged("expected the beginning of a window")
        self.at += left + 4

    def _entry(self, file: BinaryIO, expected: bytes) -> tuple[bytes, bytes]:
        """Body and tag of the entry whose checksum was read, if all is there as it was written."""
        position, head = file.tell(), file.read(SIZE.size)
        size = SIZE.unpack(head)[0] if len(head) == SIZE.size else 0
        left = stretch(size) - SUM.size
        if position + left > _size(file):
            raise self._damaged("an entry goes beyond the end of the file")
        file.seek(position)
        found, block = 0, b""
        while left:  # a size that is damaged must not fill the memory
            block = file.read(min(left, _BLOCK))
            found, left = crc32(block, found), left - len(block)
        if SUM.pack(found or 1) != expected:
            raise self._damaged("an entry is not what its checksum says")
        file.seek(position + SIZE.size)
        return file.read(size), block[-4:]

    def _lines(self, tag: bytes, body: bytes) -> list[Line]:
        try:
            if tag != LINE:
                return list(_COMPACT[tag](body, self._contexts))
            found: Line = orjson.loads(body)
            if "context" not in found:
                return [found]
            self._contexts[found.pop("context")] = found
        except (LookupError, ValueError, TypeError, struct.error):
            raise self._damaged("an entry that the recorder does not write") from None
        return []


def _size(file: BinaryIO) -> int:
    return fstat(file.fileno()).st_size


def _send(body: bytes, contexts: dict[int, Line], keyed: bool = False) -> Iterator[Line]:
    context, seq, invoked, id = _SENT.unpack_from(body)
    about = contexts[context]
    record: Line = {"topic": about["topic"], "id": id}
    if keyed:
        record["key"] = body[_SENT.size :].decode("utf-8", "backslashreplace")
        record["chosen"] = False
    line = {"seq": seq, "op": "send", "invoked_ns": invoked, "records": [record]}
    yield line | about["inside"]


def _reports(body: bytes, _: dict[int, Line]) -> Iterator[Line]:
    (returned,) = REPORTS.unpack_from(body)
    numbers = array("q", body[REPORTS.size :])
    for i in range(0, len(numbers), REPORT_FIELDS):
        seq, *at = numbers[i : i + REPORT_FIELDS]
        yield {"seq": seq, "outcome": "ok", "returned_ns": returned, "at": at}


def _nothing(_: bytes, __: dict[int, Line]) -> Iterator[Line]:
    return iter(())


def _poll(body: bytes, contexts: dict[int, Line]) -> Iterator[Line]:
    context, count, seq, invoked, returned = _POLLED.unpack_from(body)
    keys = _POLLED.size + 8 * POLL_FIELDS * count
    numbers = array("q", body[_POLLED.size : keys])
    records: list[Line] = []
    for i in range(0, len(numbers), POLL_FIELDS):
        number, offset, id, stamp, epoch, length = numbers[i : i + POLL_FIELDS]
        about = contexts[number]
        record: Line = {"topic": about["topic"], "partition": about["partition"], "offset": offset}
        if id != NO_ID:
            record["id"] = id
        if length >= 0:
            record["key"] = body[keys : keys + length].decode("utf-8", "backslashreplace")
            keys += length
        record |= {k: n for k, n in (("timestamp", stamp), ("epoch", epoch)) if n >= 0}
        records.append(record)
    line: Line = {"seq": seq, "op": "poll", "outcome": "ok", "invoked_ns": invoked}
    yield line | {"returned_ns": returned, "records": records} | contexts[context]["inside"]


_SENT, _POLLED = struct.Struct("<iqqq"), struct.Struct("<iiqqq")  # without the size
_COMPACT: Mapping[bytes, Callable[[bytes, dict[int, Line]], Iterator[Line]]] = {
    SENT: _send,
    KEYED: lambda body, contexts: _send(body, contexts, True),
    REPORTED: _reports,
    POLLED: _poll,
    FILLED: _nothing,
}
