"""G7, T9: what a group asks about its committed offsets, against what was committed, negated."""

from attrs import frozen

from traces.second_checker.base import must, one_partition, ops, predicate
from traces.second_checker.history import ABORTED, COMMITTED, History
from traces.second_checker.lives import deletions, forgot, may_be_gone
from traces.second_checker.rows import PartitionName, Row

# Who sets a group's offsets, or deletes them: then nothing is committed.
_PLAIN = ("commit", "alter_offsets", "delete_offsets")
_ALWAYS, _NEVER = float("-inf"), float("inf")


@frozen
class Write:
    """A write of a group's offset: between when it may have taken effect."""

    row: Row
    value: int | None
    start: float
    end: float


def _writes(h: History, partition: PartitionName, group: str | None) -> list[Write]:
    """Commits that did not fail, and offsets that a transaction sent and did not take back."""
    found: list[Write] = []
    for row in h.rows(partition, *_PLAIN, "txn_offsets"):
        if row.group != group or row.outcome == "fail":
            continue
        if row.offset is None and row.op != "delete_offsets":
            continue
        if row.op in _PLAIN:
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
    """True if a write of the answered value may have been in effect at the time of the answer."""
    until = asked.ret if asked.ret is not None else _NEVER
    return any(
        w.value == asked.offset
        and w.start <= until
        and (_NEVER if open_end and w.row.op == "txn_offsets" else w.end) >= since
        for w in writes
    )


def _since(writes: list[Write], ops: tuple[str, ...], asked: Row) -> Write | None:
    """The write that began last of those that were surely over when it was asked."""
    now = asked.inv if asked.inv is not None else _ALWAYS
    over = [w for w in writes if w.row.op in ops and w.end < now]
    return max(over, key=lambda w: w.start, default=None)


def _not_gone(h: History, last: Write | None, asked: Row) -> None:
    """If the answer is that there is nothing, nothing can have taken away what there was."""
    if asked.offset is not None or last is None:
        return
    group = asked.group or ""
    must(not forgot(h, last.row, asked, group), "what was committed was deleted, or has expired")
    must(not may_be_gone(h, last.row, asked), "the group may have been made again in between")


@predicate("G7", "commit|alter_offsets|delete_offsets committed")
def fetched_was_committed(h: History, rows: list[Row]) -> None:
    """An answer is a commit concurrent with the question, or the last one before it."""
    ops(rows, "|".join(_PLAIN), "committed")
    partition, (_, asked) = one_partition(rows), rows
    must(asked.ok and rows[0].group == asked.group is not None, "the groups differ")
    writes = _writes(h, partition, asked.group)
    last = _since(writes, _PLAIN, asked)
    must(last is not None, "nothing was surely committed before it was asked")
    now = _ALWAYS if asked.inv is None else asked.inv
    gone = [begin for begin, end in deletions(h, asked.group or "") if end < now]
    since = max([_ALWAYS if last is None else last.start, *gone])
    must(not _explained(writes, asked, since, True), "such a commit may have been there")
    _not_gone(h, last, asked)


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
    last = _since(writes, ("txn_offsets",), asked)
    must(last is not None, "no transaction was surely over before it was asked")
    since = _ALWAYS if last is None else last.start
    must(not _explained(writes, asked, since), "such a write may have been there")
    _not_gone(h, last, asked)


def _answered_otherwise(h: History, asked: Row) -> bool:
    earlier = [r for r in h.rows(asked.partition, "committed") if r.ok and r.group == asked.group]
    now = asked.inv if asked.inv is not None else _ALWAYS
    return any(r.ret is not None and r.ret < now and r.offset != asked.offset for r in earlier)
