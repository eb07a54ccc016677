"""The entries of a journal: lines of JSON, and three compact forms for what happens most.

A send is written down before the client is called, so its cost is added to every message. Its entry
and those of delivery reports and of polls are packed numbers; everything else is a line of JSON.
"""

import struct
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

Line = dict[str, Any]

#: The first byte of an entry. A line of JSON begins as such; what was not written is zero.
SENT: Final = 1
REPORTED: Final = 2
POLLED: Final = 3
_JSON, _FILLING = b"{", b"\n"

#: Kind (written last), length of the key or -1, number of the send's context, seq, time, id.
SEND: Final = struct.Struct("<biiqqq")
#: Kind (written last), number of reports, when they were written down; each report is seq,
#: partition, offset, timestamp. They come in bursts, and have one time: none came after it.
REPORTS: Final = struct.Struct("<biq")
REPORT_FIELDS: Final = 4
#: One report alone.
REPORT: Final = struct.Struct("<biqqqqq")
#: Kind (written last), number of the poll's context, records, seq, call, return. Each record is
#: the number of its partition's context, offset, id, timestamp, epoch, length of its key or -1;
#: behind them all stand the keys.
POLL: Final = struct.Struct("<biiqqq")
POLL_FIELDS: Final = 6
NO_ID: Final = -(2**63)


class DamagedError(Exception):
    """Something else than an entry: not what a journal looks like whose process was killed."""


def entries(journal: Path) -> Iterator[Line]:
    """All entries as lines, up to the end, or up to the one in the middle of which all ended.

    A line of a send has no outcome; that of a delivery report has, and tells in `at` the partition,
    the offset and the time of the record.
    """
    yield from Entries(journal).new()


@dataclass(slots=True)
class Entries:
    """The entries of a journal that may still be written."""

    journal: Path
    _at: int = 0
    _contexts: dict[int, Line] = field(default_factory=dict[int, Line])

    def new(self) -> Iterator[Line]:
        """Those that were written since the last time, as far as they are whole."""
        with self.journal.open("rb") as file:
            file.seek(self._at)
            # What is mapped and not written is zero, and so is the kind of an entry not yet whole.
            while (first := file.read(1)) not in (b"", b"\0"):
                if first == _JSON:
                    found = _json(first + file.readline())
                    if found is None:
                        return
                    if "context" in found:
                        self._contexts[found.pop("context")] = found
                    else:
                        yield found
                elif first[0] == SENT:
                    yield _send(file, self._contexts)
                elif first[0] == REPORTED:
                    yield from _reports(file)
                elif first[0] == POLLED:
                    yield _poll(file, self._contexts)
                elif first != _FILLING:
                    raise DamagedError
                self._at = file.tell()


def _json(line: bytes) -> Line | None:
    """A line, or None if it was not written to its end."""
    if not line.endswith(b"\n"):
        return None
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        raise DamagedError from None


def _send(file: BinaryIO, contexts: dict[int, Line]) -> Line:
    _, length, context, seq, invoked, id = SEND.unpack(b"\0" + file.read(SEND.size - 1))
    about = contexts[context]
    record: Line = {"topic": about["topic"], "id": id}
    if length >= 0:
        record["key"] = file.read(length).decode("utf-8", "backslashreplace")
        record["chosen"] = False
    line = {"seq": seq, "op": "send", "invoked_ns": invoked, "records": [record]}
    return line | about["inside"]


def _reports(file: BinaryIO) -> Iterator[Line]:
    _, count, returned = REPORTS.unpack(b"\0" + file.read(REPORTS.size - 1))
    numbers = array("q", file.read(8 * REPORT_FIELDS * count))
    for i in range(0, len(numbers), REPORT_FIELDS):
        seq, *at = numbers[i : i + REPORT_FIELDS]
        yield {"seq": seq, "outcome": "ok", "returned_ns": returned, "at": at}


def _poll(file: BinaryIO, contexts: dict[int, Line]) -> Line:
    _, context, count, seq, invoked, returned = POLL.unpack(b"\0" + file.read(POLL.size - 1))
    numbers = array("q", file.read(8 * POLL_FIELDS * count))
    records: list[Line] = []
    for i in range(0, len(numbers), POLL_FIELDS):
        number, offset, id, stamp, epoch, length = numbers[i : i + POLL_FIELDS]
        about = contexts[number]
        record: Line = {"topic": about["topic"], "partition": about["partition"], "offset": offset}
        if id != NO_ID:
            record["id"] = id
        if length >= 0:
            record["key"] = file.read(length).decode("utf-8", "backslashreplace")
        record |= {k: n for k, n in (("timestamp", stamp), ("epoch", epoch)) if n >= 0}
        records.append(record)
    line: Line = {"seq": seq, "op": "poll", "outcome": "ok", "invoked_ns": invoked}
    return line | {"returned_ns": returned, "records": records} | contexts[context]["inside"]
