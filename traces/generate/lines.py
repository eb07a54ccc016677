"""The same trace as clients would have written it down: trace format v1, a file per process."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import orjson

from traces.generate.plan import Clients, key_name
from traces.generate.write import Generated, write_beside
from traces.model.schema import NONE, TOPICS, Detail, Flag, Isolation, Op, Outcome
from traces.record.entries import Line

RowValues = dict[str, int]
_RECORD = ("offset", "id", "epoch", "sequence", "timestamp", "hash")
_LISTED = {Op.EARLIEST: "earliest", Op.LATEST: "latest"}
_HOLDING = (Op.SEND, Op.POLL, Op.PROCESS, Op.SCAN, Op.ACQUIRE, Op.ACKNOWLEDGE, Op.DUMP, Op.MARKER)
_NAMING = (Op.COMMITTED, Op.ASSIGN, Op.ASSIGNED, Op.REVOKED, Op.PAUSE, Op.RESUME)
_REPORTED = {
    Op.MARK: "high_watermark",
    Op.LOG_START: "log_start",
    Op.LAST_STABLE: "last_stable",
    Op.DUMP_MARK: "high_watermark",
    Op.DUMP_START: "log_start",
    Op.PARTITIONS: "partition_counts",
}
_ENDED = {Op.SCAN_END: Op.SCAN, Op.DUMP_END: Op.DUMP}
_CALLED = {Op.MARKER: "dump", Op.WAITED: "acquire"}
_WORDS = {
    Op.RESET: ("reason", {number: word for word, number in Detail.RESETS.items()}),
    Op.MARKER: ("control", {number: word for word, number in Detail.MARKERS.items()}),
}
_ACKS = {number: word for word, number in Detail.ACKS.items()}
_COLUMNS = (
    *("process", "seq", "op", "outcome", "topic", "partition", "offset", "id", "inv", "ret"),
    *("group", "generation", "member", "txn", "tid", "pid", "pepoch", "isolation", "epoch"),
    *("sequence", "timestamp", "hash", "key", "topic_id", "node", "instance", "detail", "flags"),
)


def write_lines(made: Generated, folder: Path) -> int:
    """Write one file per process; returns how many calls there are."""
    folder.mkdir(parents=True)
    calls = 0
    for _, table in made.parts():
        columns = [table[name].to_pylist() for name in _COLUMNS]
        rows = (dict(zip(_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True))
        for process, mine in groupby(rows, lambda row: row["process"]):
            name = made.clients.names.processes.name(process)
            lines = [orjson.dumps(line) for line in _lines(mine, made.clients, name)]
            calls += len(lines)
            with (folder / f"{name}.ndjson").open("ab") as file:
                file.write(b"\n".join(lines) + b"\n")
    write_beside(made, folder)
    return calls


def _lines(rows: Iterator[RowValues], clients: Clients, name: str) -> Iterator[Line]:
    for seq, call in groupby(rows, lambda row: row["seq"]):
        yield {"process": name, "seq": seq} | _line(list(call), clients)


def _line(rows: list[RowValues], clients: Clients) -> Line:
    """A call of all its rows; what brokers reported with them are fields of it."""
    reported = [row for row in rows if row["op"] in _REPORTED]
    ends = [row for row in rows if row["op"] in _ENDED]
    own = [row for row in rows if row["op"] not in _REPORTED and row["op"] not in _ENDED]
    first = own[0] if own else rows[0]
    op = Op(first["op"]) if own else _ENDED[Op(ends[0]["op"])] if ends else Op.POLL
    line = _call(first, op, clients)
    if op in _HOLDING:
        line["records"] = [_record(row, clients) for row in own]
    elif op in _NAMING:
        line["partitions"] = [_name(row, clients) for row in own]
    elif op is Op.WAITED:
        line |= {"records": [], "partitions": [_name(row, clients) for row in own]}
    elif op in TOPICS:
        line["topics"] = [
            clients.names.topics.name(row["topic"]) for row in own if row["partition"] == NONE
        ]
        if of := [_name(row, clients) for row in own if row["partition"] != NONE]:
            line["partitions"] = of
    known = [row for row in own if row["offset"] != NONE]
    if "records" not in line and (known or op is Op.COMMITTED):
        line["offsets"] = {_name(row, clients): row["offset"] for row in known}
    if ends:
        line["offsets"] = {_name(row, clients): row["offset"] for row in ends}
    return line | _reports(reported, clients)


def _reports(reported: list[RowValues], clients: Clients) -> Line:
    line: Line = {}
    for row in reported:
        if row["op"] == Op.PARTITIONS:
            counts = line.setdefault(_REPORTED[Op.PARTITIONS], {})
            counts[clients.names.topics.name(row["topic"])] = row["offset"]
            continue
        line.setdefault(_REPORTED[Op(row["op"])], {})[_name(row, clients)] = row["offset"]
        line.setdefault("leader_epochs", {})[_name(row, clients)] = row["epoch"]
    return line


def _call(row: RowValues, op: Op, clients: Clients) -> Line:
    names = clients.names
    listed = op in _LISTED or op is Op.LIST_OFFSETS
    dumped = op in (Op.DUMP, Op.MARKER)
    line: Line = {
        "op": "list_offsets" if listed else _CALLED.get(op, op.name.lower()),
        "outcome": Outcome(row["outcome"]).name.lower(),
        "invoked_ns": row["inv"],
        "query": _LISTED.get(op, row["timestamp"]) if listed else None,
        "returned_ns": _known(row["ret"]),
        "group": names.groups.name(row["group"]) or None,
        "generation": _known(row["generation"]),
        "member": names.members.name(row["member"]) or None,
        "instance": names.instances.name(row["instance"]) or None,
        "txn": _known(row["txn"]),
        "transactional_id": names.transactional_ids.name(row["tid"]) or None,
        "producer_id": _known(row["pid"]),
        "producer_epoch": _known(row["pepoch"]),
        "replica": _known(row["node"]),
        "transactional": True if dumped and row["flags"] & Flag.TRANSACTIONAL else None,
        "error": "PRODUCER_FENCED" if _is_fenced(row, op) else None,
        "other_thread": True if not dumped and row["flags"] & Flag.OTHER_THREAD else None,
    }
    if row["isolation"] != NONE:
        line["isolation"] = Isolation(row["isolation"]).name.lower()
    if op in _WORDS:
        name, words = _WORDS[op]
        line[name] = words[row["detail"]]
    if row["topic_id"] != NONE:
        life = names.topic_ids.name(row["topic_id"])
        line["topic_ids"] = {names.topics.name(row["topic"]): life}
    return {name: value for name, value in line.items() if value is not None}


def _is_fenced(row: RowValues, op: Op) -> bool:
    return op is Op.TXN_COMMIT and bool(row["flags"] & Flag.FENCED)


def _record(row: RowValues, clients: Clients) -> Line:
    record: Line = {name: row[name] for name in _RECORD if row[name] != NONE}
    record |= {"topic": clients.names.topics.name(row["topic"]), "partition": row["partition"]}
    if row["key"] != NONE:
        record["key"] = key_name(row["key"])
    if row["flags"] & (Flag.TOMBSTONE | Flag.VALUED):
        record["tombstone"] = bool(row["flags"] & Flag.TOMBSTONE)
    if row["flags"] & Flag.LEFT:
        record["chosen"] = False
    if row["op"] == Op.ACQUIRE:
        record["delivery_count"] = row["detail"]
    elif row["op"] == Op.ACKNOWLEDGE:
        record["ack"] = _ACKS[row["detail"]]
    return record


def _name(row: RowValues, clients: Clients) -> str:
    return f"{clients.names.topics.name(row['topic'])}:{row['partition']}"


def _known(value: int) -> int | None:
    return None if value == NONE else value
