"""One process file of trace format v1: NDJSON, gzipped NDJSON, or Parquet of the same columns."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, cast

import orjson
from attrs import define, field

from traces.arrow import pq
from traces.ingest.columns import Ints, Malformed, Rows, joined, write_transactions
from traces.ingest.validate import findings
from traces.ingest.vocabulary import FIELDS, ISOLATIONS, OPS, OUTCOMES, REPORTS
from traces.names import Names
from traces.problems import Problem, Problems
from traces.schema import NONE, Detail, Flag, Op, Outcome, Txn

SUFFIXES = (".ndjson", ".ndjson.gz", ".parquet")
_CHUNK = 100_000  # calls turned into columns at a time, so that memory follows the columns

Call = dict[str, Any]


@define
class ProcessFile:
    """What one process did, and what is known to be missing of it."""

    name: str
    file: str
    columns: dict[str, Ints] | None
    calls: int
    cut: bool
    gaps: int
    warnings: list[Problem] = field(factory=list[Problem])
    extra: list[tuple[int, str]] = field(factory=list[tuple[int, str]])


@define
class _Lines:
    """The calls of a file, with the number of the line; remembers a last line that was cut off."""

    path: Path
    problems: Problems
    torn: str = ""
    last: int = 0

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        if self.path.name.endswith(".parquet"):
            yield from self._parquet()
            return
        for number, line in self._raw():
            self.last = number
            try:
                call = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                if line.endswith(b"\n"):
                    self.problems.add(self.path.name, number, "", f"expected JSON: {error.msg}")
                elif line.strip():
                    self.torn = f"the last line is incomplete ({error.msg})"
                continue
            yield number, call

    def _raw(self) -> Iterator[tuple[int, bytes]]:
        opener = gzip.open if self.path.name.endswith(".gz") else open
        number = 0
        with opener(self.path, "rb") as lines:
            try:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield number, line
            except EOFError:
                self.torn = "the compressed file ends in the middle"
            except (gzip.BadGzipFile, zlib.error) as error:
                self.problems.add(self.path.name, number + 1, "", f"expected gzip: {error}")

    def _parquet(self) -> Iterator[tuple[int, Any]]:
        number = 0
        for batch in pq.ParquetFile(self.path).iter_batches(10_000):
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                number += 1
                self.last = number
                yield number, {k: v for k, v in row.items() if v is not None}


def read_process_file(path: Path, name: str, names: Names, problems: Problems) -> ProcessFile:
    """Read one file into columns; what is malformed goes to `problems`, by line and field."""
    lines = _Lines(path, problems)
    before = problems.count
    reader = _Reader(names, name)
    try:
        for number, call in lines:
            reader.line = number
            reader.add(call)
        columns = reader.finish(lines.torn != "")
    except (Malformed, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        columns = None
        _diagnose(path, name, problems)
        if problems.count == before:
            raise
    cut = reader.last_op not in (Op.CLOSE, Op.CRASH)
    read = ProcessFile(name, path.name, columns, reader.calls, cut, reader.gaps, extra=reader.extra)
    if lines.torn:
        read.warnings.append(Problem(path.name, lines.last, "", lines.torn))
    elif cut and reader.calls:
        read.warnings.append(
            Problem(path.name, lines.last, "op", "the file ends without close or crash: cut off")
        )
    if reader.gaps:
        read.warnings.append(
            Problem(path.name, reader.gap_line, "seq", f"{reader.gaps} lines are missing before it")
        )
    return read


def process_name(path: Path) -> str:
    """What a file without a single call is called after."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.name


def first_process(path: Path) -> str:
    """The process that the first line names, else the one that the file's name does."""
    for _, call in _Lines(path, Problems()):
        if type(call) is dict:
            named = cast("Call", call).get("process")
            return named if type(named) is str else process_name(path)
        break
    return process_name(path)


def _diagnose(path: Path, name: str, problems: Problems) -> None:
    """Read the file again, slowly, and say which lines and fields are wrong."""
    again = Problems()  # broken JSON was reported by the first reading, up to where it stumbled
    seq = -1
    for number, call in _Lines(path, again):
        found = list(findings(call))
        for where, message in found:
            problems.add(path.name, number, where, message)
        if found:
            continue
        if call["process"] != name:
            message = f"expected {name!r} as on the first line, found {call['process']!r}"
            problems.add(path.name, number, "process", message)
        if call["seq"] <= seq:
            message = f"expected more than {seq}, found {call['seq']}"
            problems.add(path.name, number, "seq", message)
        seq = max(seq, call["seq"])


@define
class _Reader:
    """Turns calls into rows, and keeps what only a whole file can tell."""

    names: Names
    name: str
    process: int = field(init=False)
    line: int = 0
    calls: int = 0
    last_op: Op | None = None
    seq: int = -1
    gaps: int = 0
    gap_line: int = 0
    vague_end: bool = False
    ends: dict[int, tuple[Txn, int, int]] = field(factory=dict[int, tuple[Txn, int, int]])
    extra: list[tuple[int, str]] = field(factory=list[tuple[int, str]])
    _rows: Rows = field(init=False)
    _chunks: list[dict[str, Ints]] = field(factory=list[dict[str, Ints]])
    _placed: dict[str, tuple[str, int]] = field(factory=dict[str, tuple[str, int]])

    def __attrs_post_init__(self) -> None:
        self.process = self.names.processes.number(self.name)
        self._rows = Rows(self.names)

    def add(self, call: Call) -> None:
        """One call in program order."""
        op, seq = OPS[call["op"]], call["seq"]
        if call["process"] != self.name or seq <= self.seq:
            raise Malformed("seq")
        if seq != self.seq + 1 and not self.gaps:
            self.gap_line = self.line
        self.gaps += seq - self.seq - 1
        self.seq, self.last_op = seq, op
        self.calls += 1
        fields = self._fields(call, op)
        if op in (Op.TXN_COMMIT, Op.TXN_ABORT):
            self._end(op, fields)
        self._add_rows(call, op, fields)
        if not FIELDS.issuperset(call):
            kept = {k: v for k, v in call.items() if k not in FIELDS}
            self.extra.append((seq, orjson.dumps(kept).decode()))
        if self.calls % _CHUNK == 0:
            self._flush()

    def finish(self, torn: bool) -> dict[str, Ints]:
        """All rows of the file, each knowing what became of its transaction."""
        self._flush()
        columns = joined(self._chunks)
        # A file that is whole and holds no request to commit proves that there was none.
        whole = self.last_op in (Op.CLOSE, Op.CRASH) and not torn and not self.gaps
        whole = whole and not self.vague_end
        write_transactions(columns, self.ends, Txn.ABORTED if whole else Txn.UNKNOWN)
        return columns

    def _flush(self) -> None:
        self._chunks.append(self._rows.columns())
        self._rows = Rows(self.names)

    def _fields(self, call: Call, op: Op) -> dict[str, int | None]:
        get, names = call.get, self.names
        fields: dict[str, int | None] = {
            "process": self.process,
            "seq": call["seq"],
            "op": op.value,
            "outcome": OUTCOMES[call["outcome"]].value,
            "inv": get("invoked_ns"),
            "ret": get("returned_ns"),
            "clock": names.clocks.number(get("clock", "host")),
            "txn": get("txn"),
        }
        if (group := get("group")) is not None:
            fields["group"] = names.groups.number(_text(group))
            fields["generation"] = get("generation")
            if (member := get("member")) is not None:
                fields["member"] = names.members.number(_text(member))
        if (isolation := get("isolation")) is not None:
            fields["isolation"] = ISOLATIONS[isolation].value
        if (tid := get("transactional_id")) is not None:
            fields["tid"] = names.transactional_ids.number(_text(tid))
        fields["pid"], fields["pepoch"] = get("producer_id"), get("producer_epoch")
        flags = Flag.FINAL if op is Op.SCAN else 0
        fields["flags"] = flags | (Flag.AUTO if get("auto") is True else 0)
        self._rarely(call, op, fields)
        return fields

    def _rarely(self, call: Call, op: Op, fields: dict[str, int | None]) -> None:
        """Fields beyond trace format v1 (docs/traces.md)."""
        get = call.get
        fields["node"] = get("replica")
        if (instance := get("instance")) is not None:
            fields["instance"] = self.names.instances.number(_text(instance))
        if op is Op.RESET:
            fields["detail"] = Detail.RESETS[call["reason"]]
        elif op is Op.DUMP:
            if get("transactional") is True:
                fields["flags"] = (fields["flags"] or 0) | Flag.TRANSACTIONAL
            if (control := get("control")) is not None:
                fields |= {"op": Op.MARKER.value, "detail": Detail.MARKERS[control]}

    def _end(self, op: Op, fields: dict[str, int | None]) -> None:
        txn, known = fields["txn"], Txn.ABORTED
        if txn is None:
            self.vague_end = True
            return
        if op is Op.TXN_COMMIT:
            outcome = fields["outcome"]
            known = {Outcome.OK: Txn.COMMITTED, Outcome.INFO: Txn.UNKNOWN}.get(
                Outcome(outcome or 0), Txn.ABORTED
            )
        elif self.ends.get(txn, (Txn.ABORTED, 0, 0))[0] is Txn.UNKNOWN and fields["outcome"] != 0:
            return  # a commit that nobody answered, then an abort that did not succeed
        asked, answered = (NONE if t is None else t for t in (fields["inv"], fields["ret"]))
        self.ends[txn] = (known, asked, answered)

    def _add_rows(self, call: Call, op: Op, fields: dict[str, int | None]) -> None:
        rows, get = self._rows, call.get
        records: list[Any] = get("records") or []
        topic_ids: dict[str, str] = get("topic_ids") or {}
        if any(type(id) is not str for id in topic_ids.values()):
            raise Malformed("topic_ids")
        if records:
            rows.call(len(records), fields)
            rows.record_list(_identified(records, topic_ids))
        reported = not REPORTS.keys().isdisjoint(call) and self._reports(call, fields)
        query = get("query")
        placed = self._placed_rows(op, get("partitions") or [], get("offsets") or {}, query)
        if op is Op.SUBSCRIBE:
            placed = [{"topic": topic} for topic in _list(get("topics"))]
        if op is Op.COMMITTED and "offsets" not in call:
            placed = []  # no answer is not the answer that there is none
        if op is Op.SCAN and "records" not in call:
            rows.call(1, fields)
            rows.sent({"topic": None})
        if op is Op.SCAN:
            fields = fields | {"op": Op.SCAN_END.value}
        elif op is Op.DUMP:
            fields = fields | {"op": Op.DUMP_END.value}
        elif op is Op.LIST_OFFSETS and query in ("earliest", "latest"):
            fields = fields | {"op": Op[query.upper()].value}
        if placed:
            rows.call(len(placed), fields)
            for row in _identified(placed, topic_ids):
                rows.sent(row)
        if not records and not placed and not reported:
            listed = any(name in call for name in ("records", "partitions", "offsets"))
            flags = fields["flags"] or 0
            rows.call(1, fields | {"flags": flags | Flag.EMPTY * listed})
            rows.sent({"topic": None})

    def _reports(self, call: Call, fields: dict[str, int | None]) -> bool:
        """What the call says about partitions besides its records: watermarks, log starts."""
        epochs: dict[str, int] = call.get("leader_epochs") or {}
        for name, op in REPORTS.items():
            told: dict[str, int] = call.get(name) or {}
            if told:
                self._rows.call(len(told), fields | {"op": op.value})
            for place, offset in told.items():
                topic, partition = self._place(place)
                row = {"topic": topic, "partition": partition, "offset": offset}
                self._rows.sent(row | {"epoch": epochs.get(place)})
        return any(call.get(name) for name in REPORTS)

    def _placed_rows(
        self, op: Op, partitions: list[str], offsets: dict[str, int], query: Any
    ) -> list[Call]:
        if op in (Op.SEND, Op.POLL, Op.PROCESS, Op.SUBSCRIBE):
            return []
        asked = query if type(query) is int else None
        named = dict.fromkeys([*partitions, *offsets])
        return [
            {"topic": topic, "partition": number, "offset": offsets.get(name), "timestamp": asked}
            for name in named
            for topic, number in (self._place(name),)
        ]

    def _place(self, name: str) -> tuple[str, int]:
        known = self._placed.get(name)
        if known is None:
            topic, _, number = name.rpartition(":")
            if not topic or not number.isdecimal():
                raise Malformed("partitions")
            known = self._placed[name] = topic, int(number)
        return known


def _identified(rows: list[Any], topic_ids: dict[str, str]) -> list[Any]:
    """The rows with the id of their topic, where the call tells it."""
    if not topic_ids:
        return rows
    return [row | {"topic_id": topic_ids.get(row["topic"])} for row in rows]


def _list(value: Any) -> list[Any]:
    if type(value) not in (list, NoneType):
        raise Malformed("topics")
    return value or []


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Malformed("group")
    return value
