"""G7, T9: what a group asks about its committed offsets, against what was committed, negated."""

from attrs import frozen

from traces.second_checker.base import must, one_partition, ops, predicate
from traces.second_checker.history import ABORTED, COMMITTED, History
from traces.second_checker.rows import PartitionName, Row

_ALWAYS, _NEVER = float("-inf"), float("inf")


@frozen
class Write:
    """A write of a group's offset: between when it may have taken effect."""

    row: Row
    value: int
    start: float
    end: float


def _writes(h: History, partition: PartitionName, group: str | None) -> list[Write]:
    """Commits that did not fail, and offsets that a transaction sent and did not take back."""
    found: list[Write] = []
    for row in h.rows(partition, "commit", "txn_offsets"):
        if row.group != group or row.outcome == "fail" or row.offset is None:
            continue
        if row.op == "commit":
            start = _ALWAYS if row.line.get("auto") or row.inv is None else row.inv
            end = row.ret if row.ok and row.ret is not None else _NEVER
            found.append(Write(row, row.offset, start, end))
        elif h.state(row) != ABORTED:
            asked = (h.commit_asked(row) or (None, ""))[0]
            answer = h.answered.get((row.process, row.line.get("txn", -1)))
            end = answer if answer is not None and h.sure(row) else _NEVER
            found.append(Write(row, row.offset, _ALWAYS if asked is None else asked, end))
    return found


def _explained(writes: list[Write], asked: Row, since: float, open_end: bool = False) -> bool:
    """Whether a write of the answered value may have been there when it was answered."""
    until = asked.ret if asked.ret is not None else _NEVER
    return any(
        w.value == asked.offset
        and w.start <= until
        and (_NEVER if open_end and w.row.op == "txn_offsets" else w.end) >= since
        for w in writes
    )


def _since(writes: list[Write], op: str, asked: Row) -> float | None:
    """The latest start of a write that was surely over when it was asked."""
    now = asked.inv if asked.inv is not None else _ALWAYS
    return max((w.start for w in writes if w.row.op == op and w.end < now), default=None)


@predicate("G7", "commit committed")
def fetched_was_committed(h: History, rows: list[Row]) -> None:
    """An answer is a commit concurrent with the question, or the last one before it."""
    ops(rows, "commit", "committed")
    partition, (_, asked) = one_partition(rows), rows
    must(asked.ok and rows[0].group == asked.group is not None, "the groups differ")
    writes = _writes(h, partition, asked.group)
    since = _since(writes, "commit", asked)
    must(since is not None, "nothing was surely committed before it was asked")
    must(not _explained(writes, asked, since or _ALWAYS, True), "such a commit may have been there")


@predicate("T9", "txn_offsets committed")
def offsets_with_outputs(h: History, rows: list[Row]) -> None:
    """The offsets that T sent for a group are what it is answered ⇔ T committed."""
    ops(rows, "txn_offsets", "committed")
    partition, (sent, asked) = one_partition(rows), rows
    must(asked.ok and sent.group == asked.group is not None, "the groups differ")
    writes = _writes(h, partition, asked.group)
    if h.state(sent) == ABORTED:
        must(sent.offset == asked.offset, "it is not what the transaction sent")
        must((sent.inv or 0) <= (asked.ret or 0), "the transaction sent it later")
        must(not _explained(writes, asked, _ALWAYS), "another write may explain it")
        now = asked.inv if asked.inv is not None else _ALWAYS
        changed = any(w.end < now for w in writes) or _answered_otherwise(h, asked)
        must(changed, "it may have been committed before the trace")
        return
    must(h.state(sent) == COMMITTED, "the transaction is not known to be committed")
    since = _since(writes, "txn_offsets", asked)
    must(since is not None, "no transaction was surely over before it was asked")
    must(not _explained(writes, asked, since or _ALWAYS), "such a write may have been there")


def _answered_otherwise(h: History, asked: Row) -> bool:
    earlier = [r for r in h.rows(asked.partition, "committed") if r.ok and r.group == asked.group]
    now = asked.inv if asked.inv is not None else _ALWAYS
    return any(r.ret is not None and r.ret < now and r.offset != asked.offset for r in earlier)
