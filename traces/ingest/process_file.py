"""The calls of one process, in order, become rows of the table of operations."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, TypeVar

import orjson
from attrs import define, field, frozen

from traces.ingest.columns import Malformed, RowBuilder, joined
from traces.ingest.transactions import ENDS, Ends, end, write_transactions
from traces.ingest.validate import is_number, is_query
from traces.ingest.vocabulary import FENCED, FIELDS, ISOLATIONS, OPS, OUTCOMES, REPORTS
from traces.model.context import Ints
from traces.model.names import Names
from traces.model.problems import Problem
from traces.model.schema import NONE, TOPICS, Detail, Flag, Op, Outcome, Txn
from traces.record.entries import Line
from traces.record.journal import SUFFIX as JOURNAL

Some = TypeVar("Some")

_CHUNK = 50_000  # rows turned into columns at a time, so that memory follows the columns


# Where the fields of a plain call go: a send, a poll or a scan of records, with nothing besides.
_INTS: Mapping[str, str] = {
    "seq": "seq",
    "invoked_ns": "inv",
    "returned_ns": "ret",
    "txn": "txn",
    "generation": "generation",
    "producer_id": "pid",
    "producer_epoch": "pepoch",
    "replica": "node",
}
_WORDS = (
    "process",
    "op",
    "outcome",
    "clock",
    "group",
    "member",
    "isolation",
    "transactional_id",
    "instance",
)
_PLAIN = frozenset((*_INTS, *_WORDS, "records", "error"))
_PLAIN_OPS = frozenset(("send", "poll", "process"))
# A call that has one of these and nothing in it says that it concerns nothing.
_LISTS = frozenset(("records", "partitions", "offsets", "topics"))
# Calls that concern each partition that they list, whether or not there is an offset for it.
_LISTING = frozenset(
    (Op.COMMITTED, Op.ASSIGN, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.PAUSE, Op.RESUME)
)


@define
class ProcessFile:
    """The file of one process, and the parts of it that are known to be missing."""

    name: str
    file: str
    calls: int
    cut: bool
    gaps: int
    torn: bool = False
    vague_end: bool = False
    warnings: list[Problem] = field(factory=list[Problem])

    @property
    def unfinished(self) -> bool:
        """True if it is a journal that was not made into a process file yet."""
        return self.file.endswith(JOURNAL)

    @property
    def whole(self) -> bool:
        """True if it holds everything that the process did."""
        return not (self.cut or self.torn or self.gaps or self.vague_end)


@frozen
class _Shape:
    """Calls that have the same fields in the same order, and nothing that needs a closer look."""

    fields: tuple[str, ...]
    ints: Callable[[Line], tuple[Any, ...]]
    words: Callable[[Line], tuple[Any, ...]]
    known: dict[tuple[Any, ...], int] = field(factory=dict[tuple[Any, ...], int])


@define
class Reader:
    """Turns calls into rows, and keeps the facts that need the whole file.

    `seq` is the number of the last call; a gap is reported by the line of the first call after it.
    """

    names: Names
    name: str
    partitioner: str | None = None
    process: int = field(init=False)
    line: int = 0
    calls: int = 0
    last_op: Op | None = None
    seq: int = -1
    gaps: int = 0
    gap_line: int = 0
    vague_end: bool = False
    ends: Ends = field(factory=dict[int, tuple[Txn, int, int]])
    extra: list[tuple[int, str]] = field(factory=list[tuple[int, str]])
    _rows: RowBuilder = field(init=False)
    _chunks: list[dict[str, Ints]] = field(factory=list[dict[str, Ints]])
    _topic_partitions: dict[str, tuple[str, int]] = field(factory=dict[str, tuple[str, int]])
    _shapes: dict[tuple[str, ...], _Shape | None] = field(
        factory=dict[tuple[str, ...], _Shape | None]
    )

    def __attrs_post_init__(self) -> None:
        self.process = self.names.processes.number(self.name)
        self._rows = RowBuilder(self.names, self.partitioner)

    def add(self, call: Line) -> None:
        """One call in program order."""
        seq = call["seq"]
        if seq != self.seq + 1:
            if seq <= self.seq:
                raise Malformed("seq")
            if not self.gaps:
                self.gap_line = self.line
            self.gaps += seq - self.seq - 1
        self.seq = seq
        self.calls += 1
        if not self._plain(call):
            self._add(call)
        if len(self._rows) >= _CHUNK:
            self._chunks.append(self._rows.columns())

    def finish(self, torn: bool, alone: bool = True) -> dict[str, Ints]:
        """All rows, each with the outcome of its transaction, as far as the rows show it.

        A file that is whole and holds no request to commit proves that there was none; `alone`
        means that this was the whole file.
        """
        self._chunks.append(self._rows.columns())
        columns = joined(self._chunks)
        whole = self.last_op in (Op.CLOSE, Op.CRASH) and not torn and not self.gaps
        whole = whole and not self.vague_end and alone
        write_transactions(columns, self.ends, Txn.ABORTED if whole else Txn.UNKNOWN)
        return columns

    def _plain(self, call: Line) -> bool:
        """Add a call of the common kind: what it shares with others is looked up in one go."""
        key = tuple(call)
        shape = self._shapes.get(key)
        if shape is None:
            if key in self._shapes:
                return False
            shape = self._shapes[key] = _shape(key)
            if shape is None:
                return False
        if call.get("producer_id") == NONE:  # says that there is none: needs a closer look
            return False
        words = shape.words(call)
        word = shape.known.get(words)
        if word is None:
            word = shape.known[words] = self._word(shape, call)
        records = call["records"]
        if word < 0 or not records:
            return False
        self.last_op = None  # none that matters: not the end of a file
        rows = self._rows
        rows.ints(shape.fields).extend(shape.ints(call))
        rows.records += records
        rows.plain(shape.fields, word, len(records))
        return True

    def _word(self, shape: _Shape, call: Line) -> int:
        """The number of the fields that calls with these words share, -1 to look more closely."""
        nothing = any(call[name] is None for name in _WORDS if name in call)
        if nothing or call["op"] not in _PLAIN_OPS:
            return -1
        fields = self._shared(call, OPS[call["op"]])
        return self._rows.word({k: v for k, v in fields.items() if v is not None})

    def _add(self, call: Line) -> None:
        if None in call.values():  # null says as much as nothing
            call = {name: value for name, value in call.items() if value is not None}
        op = OPS[call["op"]]
        self.last_op = op
        fields = self._fields(call, op)
        if op in ENDS:
            self._end(op, fields)
        self._add_rows(call, op, fields)
        if not FIELDS.issuperset(call):
            kept = {k: v for k, v in call.items() if k not in FIELDS}
            self.extra.append((call["seq"], orjson.dumps(kept).decode()))

    def _shared(self, call: Line, op: Op) -> dict[str, int | None]:
        """The fields that many calls of a process share."""
        if call["process"] != self.name:
            raise Malformed("process")
        get, names = call.get, self.names
        fields: dict[str, int | None] = {
            "process": self.process,
            "op": op.value,
            "outcome": OUTCOMES[call["outcome"]].value,
            "clock": names.clocks.number(get("clock", "host")),
        }
        if (group := get("group")) is not None:
            fields["group"] = names.groups.number(_text(group))
            if (member := get("member")) is not None:
                fields["member"] = names.members.number(_text(member))
        if (isolation := get("isolation")) is not None:
            fields["isolation"] = ISOLATIONS[isolation].value
        if (tid := get("transactional_id")) is not None:
            fields["tid"] = names.transactional_ids.number(_text(tid))
        if (instance := get("instance")) is not None:
            fields["instance"] = names.instances.number(_text(instance))
        flags = Flag.FINAL if op is Op.SCAN else 0
        flags |= Flag.AUTO if get("auto") is True else 0
        if get("other_thread") is True and op in (Op.COMMIT, Op.PROCESS):
            flags |= Flag.OTHER_THREAD
        fields["flags"] = flags
        return fields

    def _fields(self, call: Line, op: Op) -> dict[str, int | None]:
        fields = self._shared(call, op)
        fields |= {column: call.get(name) for name, column in _INTS.items()}
        if fields.get("group") is None:
            fields["generation"] = None
        if call.get("producer_id") == NONE:
            fields["flags"] = (fields["flags"] or 0) | Flag.NO_PRODUCER
        self._rarely(call, op, fields)
        return fields

    def _rarely(self, call: Line, op: Op, fields: dict[str, int | None]) -> None:
        """Fields beyond trace format v1 (docs/traces.md)."""
        if op is Op.RESET:
            fields["detail"] = Detail.RESETS[call["reason"]]
        elif op is Op.TXN_COMMIT and str(call.get("error")) in FENCED and fields["outcome"]:
            fields["flags"] = (fields["flags"] or 0) | Flag.FENCED
        elif op is Op.DUMP:
            if call.get("transactional") is True:
                fields["flags"] = (fields["flags"] or 0) | Flag.TRANSACTIONAL
            if (control := call.get("control")) is not None:
                fields |= {"op": Op.MARKER.value, "detail": Detail.MARKERS[control]}

    def _end(self, op: Op, fields: dict[str, int | None]) -> None:
        txn = fields["txn"]
        if txn is None:
            self.vague_end = True
        else:
            asked, answered = (NONE if t is None else t for t in (fields["inv"], fields["ret"]))
            end(self.ends, txn, op, Outcome(fields["outcome"] or 0), asked, answered)

    def _add_rows(self, call: Line, op: Op, fields: dict[str, int | None]) -> None:
        rows = self._rows
        records = _of_type(list[Any], call, "records")
        topic_ids = _of_type(dict[str, str], call, "topic_ids")
        if any(type(id) is not str for id in topic_ids.values()):
            raise Malformed("topic_ids")
        if records:
            rows.call(len(records), fields, odd=False)
            rows.records += _identified(records, topic_ids)
        reports = REPORTS.get(op, {})
        reported = any(call.get(name) for name in reports)
        if not reports.keys().isdisjoint(call):
            self._reports(call, reports, fields, topic_ids)
        if "partition_counts" in call:
            self._counts(call, fields)
        query = _query(call)
        partitions = _of_type(list[str], call, "partitions")
        offsets = _of_type(dict[str, int], call, "offsets")
        named = self._named_rows(op, partitions, offsets, query)
        if op in TOPICS:
            named = [{"topic": topic} for topic in _of_type(list[str], call, "topics")]
        if op is Op.SUBSCRIBE or (op is Op.ACQUIRE and call.get("records") == []):
            self._in_share_group(op, partitions, fields, topic_ids)
        unanswered = op is Op.COMMITTED and "offsets" not in call and bool(named)
        if unanswered:
            named = []  # no answer is not the answer that there is none
        if op in _LISTING and "partitions" not in call:
            fields = fields | {"flags": (fields["flags"] or 0) | Flag.UNLISTED}
        if op is Op.SCAN and "records" not in call:
            rows.call(1, fields)
            rows.sent({"topic": None})
        if op is Op.SCAN:
            fields = fields | {"op": Op.SCAN_END.value}
        elif op is Op.DUMP:
            fields = fields | {"op": Op.DUMP_END.value}
        elif op is Op.LIST_OFFSETS and isinstance(query, str):
            fields = fields | {"op": Op[query.upper()].value}
        if named:
            rows.call(len(named), fields)
            rows.records += _identified(named, topic_ids)
        untold = op in REPORTS and "records" not in call  # not the same as nothing
        if not records and not named and (untold or not reported):
            lists = ("records",) if op is Op.ACQUIRE else _LISTS
            listed = (
                not call.keys().isdisjoint(lists) and not (fields["flags"] or 0) & Flag.UNLISTED
            )
            flags = fields["flags"] or 0
            rows.call(1, fields | {"flags": flags | Flag.EMPTY * (listed and not unanswered)})
            rows.sent({"topic": None})

    def _reports(
        self,
        call: Line,
        reports: Mapping[str, Op],
        fields: dict[str, int | None],
        topic_ids: dict[str, str],
    ) -> None:
        """Add the rows of the call's reports on partitions besides records: watermarks, log starts.

        An empty map means that the brokers reported none; no map, that it is unknown.
        """
        epochs = _of_type(dict[str, int], call, "leader_epochs")
        for report, op in reports.items():
            if report not in call:
                continue
            reported = _of_type(dict[str, int], call, report)
            if not reported:
                flags = (fields["flags"] or 0) | Flag.EMPTY
                self._rows.call(1, fields | {"op": op.value, "flags": flags})
                self._rows.sent({"topic": None})
            rows: list[Line] = []
            for name, offset in reported.items():
                topic, partition = self._topic_partition(name)
                row = {"topic": topic, "partition": partition, "offset": offset}
                rows.append(row | {"epoch": epochs.get(name)})
            if rows:
                self._rows.call(len(rows), fields | {"op": op.value})
                self._rows.records += _identified(rows, topic_ids)

    def _in_share_group(
        self,
        op: Op,
        partitions: list[str],
        fields: dict[str, int | None],
        topic_ids: dict[str, str],
    ) -> None:
        """Add the partitions that a share group's member asks for, or of which it waits in vain."""
        rows: list[Line] = []
        for name in partitions:
            topic, partition = self._topic_partition(name)
            rows.append({"topic": topic, "partition": partition})
        if rows:
            op = Op.WAITED if op is Op.ACQUIRE else op
            self._rows.call(len(rows), fields | {"op": op.value})
            self._rows.records += _identified(rows, topic_ids)

    def _counts(self, call: Line, fields: dict[str, int | None]) -> None:
        """Add the partition counts of topics, as far as this client knew them."""
        counts = _of_type(dict[str, int], call, "partition_counts")
        if any(type(count) is not int or count < 1 for count in counts.values()):
            raise Malformed("partition_counts")
        if counts:
            self._rows.call(len(counts), fields | {"op": Op.PARTITIONS.value})
            self._rows.records += [{"topic": t, "offset": n} for t, n in counts.items()]

    def _named_rows(
        self, op: Op, partitions: list[str], offsets: dict[str, int], query: Any
    ) -> list[Line]:
        if op in (Op.SEND, Op.POLL, Op.PROCESS, Op.ACQUIRE, *TOPICS):
            return []
        # Below 0 a time is none: Kafka has names for some, which say nothing of any record.
        asked = query if type(query) is int and query >= 0 else None
        named = dict.fromkeys([*partitions, *offsets])
        return [
            {"topic": topic, "partition": number, "offset": offsets.get(name), "timestamp": asked}
            for name in named
            for topic, number in (self._topic_partition(name),)
        ]

    def _topic_partition(self, name: str) -> tuple[str, int]:
        known = self._topic_partitions.get(name)
        if known is None:
            topic, _, number = name.rpartition(":")
            if not topic or not is_number(number):
                raise Malformed("partitions")
            known = self._topic_partitions[name] = topic, int(number)
        return known


def _shape(fields: tuple[str, ...]) -> _Shape | None:
    """The shape of calls with these fields, if such calls may be plain."""
    words = [name for name in _WORDS if name in fields]
    required = {"process", "seq", "op", "outcome", "records"}
    if not _PLAIN.issuperset(fields) or not required.issubset(fields):
        return None
    grouped = "group" in fields
    ints = [name for name in _INTS if name in fields and (grouped or name != "generation")]
    columns = tuple(_INTS[name] for name in ints)
    get = itemgetter(*ints) if len(ints) > 1 else _only_seq
    return _Shape(columns, get, itemgetter(*words))


def _only_seq(call: Line) -> tuple[Any, ...]:
    """A tuple of one: for one name `itemgetter` does not return a tuple."""
    return (call["seq"],)


def _identified(rows: list[Any], topic_ids: dict[str, str]) -> list[Any]:
    """The rows with the id of their topic, if the call reports it."""
    if not topic_ids:
        return rows
    return [row | {"topic_id": topic_ids.get(row["topic"])} for row in rows]


def _of_type(kind: Callable[[], Some], call: Line, field: str) -> Some:
    """A list or an object of a call, empty if it has none."""
    empty = kind()
    value = call.get(field, empty)
    if type(value) is not type(empty):
        raise Malformed(field)
    return value


def _query(call: Line) -> str | int | None:
    """The query by which an offset was looked up."""
    query = call.get("query")
    if not is_query(query):
        raise Malformed("query")
    return query


def _text(value: Any) -> str:
    if type(value) is not str:
        raise Malformed("group")
    return value
