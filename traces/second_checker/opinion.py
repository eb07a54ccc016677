"""The second opinion: does this witness really break the promise?"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import Any

from traces.second_checker import (
    consumers,
    cycles,
    fetching,
    groups,
    handover,
    log,
    offsets,
    producers,
    records,
    sessions,
    share,
    starts,
)
from traces.second_checker.base import (
    PREDICATES,
    Confirmed,
    Event,
    NotBroken,
    Refuted,
    Undecided,
)
from traces.second_checker.history import History
from traces.second_checker.rows import PartitionName, Row, rows_of

__all__ = ["MODULES", "opinion_on", "partitions_of"]

MODULES = (
    *(log, records, starts, producers, sessions, cycles, offsets),
    *(consumers, fetching, groups, handover, share),
)
# Checks whose witnesses need the history of all partitions.
EVERYWHERE = frozenset({"T6", "G3", "A1", "P6"})
Opinion = Confirmed | Refuted | Undecided
# What an event tells, and where a line or a record keeps it.
_OF_CALL = {
    "outcome": "outcome",
    "group": "group",
    "invoked_ns": "invoked_ns",
    "returned_ns": "returned_ns",
}
_OF_RECORD = ("offset", "id")
# So many ways to read a witness whose events name several rows each.
_MOST_READINGS = 1_000


def opinion_on(history: History, check: str, witness: Mapping[str, Any]) -> Opinion:
    """Judge one witness, as `--json` writes it, by the whole history of what it touches."""
    negation = PREDICATES.get(check)
    if negation is None:
        return Undecided("no second checker for this promise")
    try:
        choices = [_rows(history, event) for event in witness["events"]]
    except NotBroken as missing:
        return Refuted(str(missing))
    reason = ""
    for rows in islice(product(*choices), _MOST_READINGS):
        try:
            negation(history, list(rows))
        except NotBroken as kept:
            reason = reason or str(kept)
        else:
            return Confirmed()
    return Refuted(reason)


def partitions_of(
    witnesses: Iterable[tuple[str, Mapping[str, Any]]],
) -> frozenset[PartitionName] | None:
    """The partitions that these witnesses, by check, touch; None where one touches them all."""
    partitions: set[PartitionName] = set()
    for check, witness in witnesses:
        if check in EVERYWHERE:
            return None
        partitions |= {event["partition"] for event in witness["events"] if "partition" in event}
    return frozenset(partitions)


def _rows(history: History, event: Event) -> list[Row]:
    """The rows that an event of a witness may mean: one call may return the same record twice."""
    mine = history.lines.get(event["process"], {}).get(event["seq"], ())
    if not mine:
        raise NotBroken(f"there is no call {event['seq']} of {event['process']}")
    found = [
        row for n, line in mine for row in _candidates(history, line, n, event) if _is(row, event)
    ]
    if found:
        return found
    raise NotBroken(f"call {event['seq']} of {event['process']} is not what the witness says")


def _candidates(history: History, line: Mapping[str, Any], n: int, event: Event) -> Sequence[Row]:
    """The rows of a line, under the partition that the event names."""
    partition = event.get("partition")
    rows = list(rows_of(dict(line), n))
    if line["op"] == "subscribe" and partition is not None:  # to a topic, so of no partition
        return [Row(dict(line), {}, "subscribe", partition, n, 0)]
    if partition is None:
        return [Row(dict(line), {}, line["op"], "", n, 0), *rows]
    copies = [
        Row(row.line, {"id": row.id, "no_partition": True}, row.op, partition, n, row.i)
        for row in rows
        if row.op == "send" and row.record.get("partition") is None
    ]
    return [row for row in rows if row.partition == partition] + copies


def _is(row: Row, event: Event) -> bool:
    if row.op != event["op"]:
        return False
    if any(event.get(name) != row.line.get(kept) for name, kept in _OF_CALL.items()):
        return False
    return all(event.get(name) == row.record.get(name) for name in _OF_RECORD)
