"""Reads a run folder in trace format v1, or a Jepsen history, for the second checker."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import define, field

from traces.second_checker.edn import edn_lines
from traces.second_checker.history import ABORTED, COMMITTED, UNKNOWN, History, UnitKey
from traces.second_checker.rows import PartitionName, TraceLine

RecordName = tuple[str, Any]  # its topic and id

_SUFFIXES = (".ndjson", ".ndjson.gz", ".parquet")


def read(
    path: Path,
    partitions: Iterable[PartitionName] | None = None,
    *,
    compacted: bool = False,
    unfinished: Iterable[list[TraceLine]] = (),
) -> History:
    """The history of a run, restricted to some partitions; everything without them.

    `unfinished` are the lines of processes that have no file yet.
    """
    wanted = None if partitions is None else frozenset(partitions)
    if path.suffix == ".edn":
        return _read_edn(path, wanted, compacted)
    meta: Any = orjson.loads((path / "meta.json").read_bytes())
    history = History(meta, partitions=wanted)
    undecided = _Undecided()
    files = sorted(f for f in path.iterdir() if f.is_file() and f.name.endswith(_SUFFIXES))
    unfinished = list(unfinished)
    for file in files:
        _read_process(history, _file_lines(file), undecided)
    for lines in unfinished:
        _read_process(history, lines, undecided)
    if undecided.sent:
        for file in files:
            undecided.look_at(_file_lines(file))
        for lines in unfinished:
            undecided.look_at(lines)
        undecided.prove(history)
    history.forget_former_lives()
    return history


def from_lines(
    lines: dict[str, list[TraceLine]],
    meta: dict[str, Any],
    partitions: Iterable[PartitionName] | None = None,
) -> History:
    """The history of a trace that is in memory already."""
    history = History(meta, partitions=None if partitions is None else frozenset(partitions))
    undecided = _Undecided()
    for mine in lines.values():
        _read_process(history, mine, undecided)
    for mine in lines.values():
        undecided.look_at(mine)
    undecided.prove(history)
    history.forget_former_lives()
    return history


@define
class _Undecided:
    """Records of transactions whose commit nobody answered, and who else sent or read them."""

    sent: dict[RecordName, dict[UnitKey, set[Any]]] = field(
        factory=dict[RecordName, dict[UnitKey, set[Any]]]
    )  # where each transaction had them acknowledged, or "untold"; None: nowhere
    seen: dict[RecordName, set[Any]] = field(factory=dict[RecordName, set[Any]])
    attempts: dict[RecordName, set[Any]] = field(factory=dict[RecordName, set[Any]])

    def add(self, unit: UnitKey, line: TraceLine) -> None:
        """Add a send of such a transaction; one that failed shows nothing of it."""
        for record in _records(line) if line["outcome"] != "fail" else ():
            at = (_location(record) or "untold") if line["outcome"] == "ok" else None
            self.sent.setdefault(_name(record), {}).setdefault(unit, set()).add(at)

    def look_at(self, lines: Iterable[TraceLine]) -> None:
        """Note who may have sent such a record, and where it was read as committed."""
        for line in lines:
            reading = line["op"] in ("poll", "scan") and line["outcome"] == "ok"
            reading = reading and line.get("isolation") == "read_committed"
            sending = line["op"] == "send" and line["outcome"] != "fail"
            for record in _records(line) if reading or sending else ():
                name = _name(record)
                if name in self.sent and reading:
                    self.seen.setdefault(name, set()).add(_location(record))
                elif name in self.sent:
                    unit = (
                        line["process"],
                        line.get("txn"),
                        line.get("txn") is None and line["seq"],
                    )
                    self.attempts.setdefault(name, set()).add(unit)

    def prove(self, history: History) -> None:
        """A record that was read as committed was committed, and with it all of its transaction.

        It was this transaction's if it was read where it was acknowledged to it, or, if it was not
        acknowledged, if nobody else can have sent it.
        """
        for name, units in self.sent.items():
            seen, only = self.seen.get(name, set()), len(self.attempts[name]) == 1
            for unit, locations in units.items():
                if (locations - {None}) & seen or (None in locations and seen and only):
                    history.states[unit] = COMMITTED


def _records(line: TraceLine) -> list[dict[str, Any]]:
    return line.get("records") or []


def _name(record: dict[str, Any]) -> RecordName:
    return record["topic"], record.get("id")


def _location(record: dict[str, Any]) -> tuple[Any, Any] | None:
    offset = record.get("offset")
    return None if offset is None else (record.get("partition"), offset)


def _read_process(history: History, lines: Iterable[TraceLine], undecided: "_Undecided") -> None:
    """Read one file: its lines, and the outcomes of its transactions."""
    ends: dict[int, list[TraceLine]] = {}
    sent: dict[int, list[TraceLine]] = {}
    process, last, seq, whole = "", "", -1, True
    for n, line in enumerate(lines):
        process, last = line["process"], line["op"]
        whole = whole and line["seq"] == seq + 1
        if line["seq"] != seq + 1:
            history.holed.add(process)
        seq = line["seq"]
        for time in (line.get("invoked_ns"), line.get("returned_ns")):
            if time is not None:
                history.last_call[process] = max(history.last_call.get(process, time), time)
        txn = line.get("txn")
        if last in ("txn_commit", "txn_abort"):
            if txn is None:
                whole = False
            else:
                ends.setdefault(txn, []).append(line)
        elif last == "send" and txn is not None:
            sent.setdefault(txn, []).append(line)
        if last in ("close", "crash"):
            history.ended[process] = line.get("invoked_ns")
        history.add(line, n)
    # A file that is whole and holds no request to commit proves that there was none.
    history.open_state[process] = ABORTED if whole and last in ("close", "crash") else UNKNOWN
    for txn, requests in ends.items():
        history.states[process, txn] = _came_to(requests)
        if history.states[process, txn] == COMMITTED:
            history.committed_units.add((process, txn))
        first = requests[0]
        history.asked[process, txn] = first.get("invoked_ns"), first.get("clock", "host")
        history.answered[process, txn] = requests[-1].get("returned_ns")
    for txn, sends in sent.items():
        asked = history.asked.get((process, txn), (None, ""))[0] is not None
        if asked and history.states[process, txn] == UNKNOWN:
            for line in sends:
                undecided.add((process, txn), line)


def _came_to(requests: list[TraceLine]) -> str:
    """The end of a transaction, from all requests to end it, in their order."""
    state = ABORTED
    for line in requests:
        commit, outcome = line["op"] == "txn_commit", line["outcome"]
        if commit and outcome == "ok":
            return COMMITTED
        if commit and outcome == "info":
            state = UNKNOWN  # whatever fails after this, this one may have been carried out
        elif outcome == "ok":
            state = ABORTED
    return state


def _read_edn(path: Path, partitions: frozenset[PartitionName] | None, compacted: bool) -> History:
    lines = list(edn_lines(path))
    history = History({}, jepsen=True, compacted=compacted, partitions=partitions)
    seen = {
        (r["topic"], r["id"])
        for line in lines
        if line["op"] == "poll" and line["outcome"] == "ok"
        for r in line["records"]
    }
    for n, line in enumerate(lines):
        history.add(line, n)
        sent = line["records"] if line["op"] == "send" and line["_state"] == UNKNOWN else ()
        if any((r["topic"], r["id"]) in seen for r in sent):
            history.states[line["process"], line["seq"]] = COMMITTED
    return history


def _file_lines(path: Path) -> Iterator[TraceLine]:
    """The lines of one file; a last one that was cut off is not guessed."""
    if path.name.endswith(".parquet"):
        yield from _parquet_lines(path)
        return
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rb") as lines:
            for line in lines:
                if line.strip():
                    yield orjson.loads(line)
    except (EOFError, zlib.error, orjson.JSONDecodeError):
        return


def _parquet_lines(path: Path) -> Iterator[TraceLine]:
    import pyarrow.parquet as pq  # only here: whoever has no such file needs no Arrow

    for batch in cast("Any", pq).ParquetFile(path).iter_batches(10_000):
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            yield cast("TraceLine", {k: v for k, v in row.items() if v is not None})
