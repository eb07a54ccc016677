"""Reads a run folder in trace format v1, or a Jepsen history, for the second checker."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson

from traces.second_checker.edn import edn_lines
from traces.second_checker.history import ABORTED, COMMITTED, UNKNOWN, History
from traces.second_checker.rows import PartitionName, TraceLine

_SUFFIXES = (".ndjson", ".ndjson.gz", ".parquet")


def read(
    path: Path, partitions: Iterable[PartitionName] | None = None, *, compacted: bool = False
) -> History:
    """The history of a run, restricted to some partitions; everything without them."""
    wanted = None if partitions is None else frozenset(partitions)
    if path.suffix == ".edn":
        return _read_edn(path, wanted, compacted)
    meta: Any = orjson.loads((path / "meta.json").read_bytes())
    history = History(meta, partitions=wanted)
    undecided: dict[tuple[str, Any], set[tuple[str, int]]] = {}
    files = sorted(f for f in path.iterdir() if f.is_file() and f.name.endswith(_SUFFIXES))
    for file in files:
        _read_process(history, _file_lines(file), undecided)
    if undecided:
        for file in files:
            _prove(history, _file_lines(file), undecided)
    history.forget_former_lives()
    return history


def from_lines(
    lines: dict[str, list[TraceLine]],
    meta: dict[str, Any],
    partitions: Iterable[PartitionName] | None = None,
) -> History:
    """The history of a trace that is in memory already."""
    history = History(meta, partitions=None if partitions is None else frozenset(partitions))
    undecided: dict[tuple[str, Any], set[tuple[str, int]]] = {}
    for mine in lines.values():
        _read_process(history, mine, undecided)
    for mine in lines.values():
        _prove(history, mine, undecided)
    history.forget_former_lives()
    return history


def _read_process(
    history: History,
    lines: Iterable[TraceLine],
    undecided: dict[tuple[str, Any], set[tuple[str, int]]],
) -> None:
    """One file: its lines, and what its transactions came to."""
    ends: dict[int, list[TraceLine]] = {}
    sent: dict[int, set[tuple[str, Any]]] = {}
    process, last, seq, whole = "", "", -1, True
    for n, line in enumerate(lines):
        process, last = line["process"], line["op"]
        whole = whole and line["seq"] == seq + 1
        seq = line["seq"]
        txn = line.get("txn")
        if last in ("txn_commit", "txn_abort"):
            if txn is None:
                whole = False
            else:
                ends.setdefault(txn, []).append(line)
        elif last == "send" and txn is not None:
            ids = {(r["topic"], r.get("id")) for r in line.get("records") or ()}
            sent.setdefault(txn, set()).update(ids)
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
    for txn, records in sent.items():
        if history.states.get((process, txn), history.open_state[process]) == UNKNOWN:
            for record in records:
                undecided.setdefault(record, set()).add((process, txn))


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


def _prove(
    history: History,
    lines: Iterable[TraceLine],
    undecided: dict[tuple[str, Any], set[tuple[str, int]]],
) -> None:
    """Whatever was read as committed was committed, and with it all of its transaction."""
    for line in lines:
        committed = line["outcome"] == "ok" and line.get("isolation") == "read_committed"
        if line["op"] not in ("poll", "scan") or not committed:
            continue
        for record in line.get("records") or ():
            for unit in undecided.get((record["topic"], record.get("id")), ()):
                history.states[unit] = COMMITTED


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
