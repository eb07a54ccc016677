"""L: what the log of one partition promises, negated word by word."""

from traces.second_checker.base import known, must, nobody_else, one_partition, ops, predicate
from traces.second_checker.facts import (
    acknowledged,
    happened,
    in_final,
    kept_from,
    log_start,
    reads_at,
    reads_of,
    stays,
    superseded,
    where,
)
from traces.second_checker.history import History
from traces.second_checker.rows import Row, before, same_clock
from traces.second_checker.starts import went_back


def _tells_offset(h: History, row: Row) -> bool:
    """True if a row shows which record is at which offset."""
    return acknowledged(h, row) or (row.op in ("poll", "scan") and row.offset is not None)


@predicate("L1", "send|poll|scan send|poll|scan")
def one_offset_one_record(h: History, rows: list[Row]) -> None:
    """(o, x), (o, y) ∈ A ∪ R ⇒ x = y."""
    ops(rows, "send|poll|scan", "send|poll|scan")
    one_partition(rows)
    one, two = rows
    must(all(_tells_offset(h, r) for r in rows), "a record was neither acknowledged nor read")
    must(one.offset == two.offset, "the offsets differ")
    must(one.id != two.id, "it is the same record")


def _contradicted(h: History, row: Row) -> bool:
    """True if others are read where this record was acknowledged, and it is not: that is L8."""
    if row.op != "send":
        return False
    there = [r for r in h.rows(row.partition, "poll", "scan") if r.ok and r.offset == row.offset]
    return bool(there) and all(r.id != row.id for r in there)


@predicate("L2", "send|poll|scan send|poll|scan")
def stored_once(h: History, rows: list[Row]) -> None:
    """(o, v), (o′, v) ∈ A ∪ R ⇒ o = o′, for acknowledgements that no read contradicts."""
    ops(rows, "send|poll|scan", "send|poll|scan")
    one_partition(rows)
    one, two = rows
    must(all(_tells_offset(h, r) for r in rows), "a record was neither acknowledged nor read")
    must(one.id == two.id, "the records differ")
    must(one.offset != two.offset, "it is the same offset")
    must(not any(_contradicted(h, r) for r in rows), "others are read where it was acknowledged")


@predicate("L3", "send")
def nothing_missing_below(h: History, rows: list[Row]) -> None:
    """(v, o) ∈ A, o′ ≥ o read, o ≥ log start, not superseded ⇒ v read."""
    lost, partition = rows[0], rows[0].partition
    ops(rows[:1], "send")
    must(happened(h, lost) and stays(h, lost), "the send is not known to have been stored")
    (own,) = known("nobody knows where it was stored", where(h, lost))
    must(own >= kept_from(h, partition), "it may have been deleted")
    passed = (r.offset for r in h.rows(partition, "poll", "scan") if r.ok and r.offset is not None)
    must(any(o >= own for o in passed), "nobody read up to its offset")
    must(not any(r.ok for r in reads_of(h, partition, lost.id)), "it was read")
    must(not superseded(h, lost), "compaction may have removed it")


@predicate("L4", "send")
def nothing_lost(h: History, rows: list[Row]) -> None:
    """(v, o) ∈ A, the final scan reached the end ⇒ v in the scan."""
    ops(rows[:1], "send")
    lost = rows[0]
    must(lost.ok and stays(h, lost), "nobody promised that it is stored")
    _missing_at_the_end(h, lost)


def _missing_at_the_end(h: History, lost: Row) -> None:
    partition = lost.partition
    must(h.jepsen or h.meta.get("complete") is True, "the run is not complete")
    must(h.jepsen or h.rows(partition, "scan_end"), "there was no final scan of the partition")
    must("no_partition" not in lost.record, "nobody knows which partition it was sent to")
    must(lost.offset is None or lost.offset >= kept_from(h, partition), "it may have been deleted")
    must(not in_final(h, partition, lost.id), "the final scan holds it")
    must(not superseded(h, lost), "compaction may have removed it")


@predicate("T1", "send")
def not_torn(h: History, rows: list[Row]) -> None:
    """T committed, or any v ∈ T read as committed ⇒ every record of T is in the final scan."""
    ops(rows, "send")
    lost = rows[0]
    must(h.state(lost) == "committed", "its transaction is not known to be committed")
    must(lost.outcome != "fail", "the send failed")
    _missing_at_the_end(h, lost)


@predicate("L5", "poll|scan")
def no_phantom(h: History, rows: list[Row]) -> None:
    """v ∈ R ⇒ some send of v to the partition was attempted."""
    ops(rows, "poll|scan")
    must(not h.of(rows[0].partition, rows[0].id, "send"), "somebody tried to send it there")
    must(not h.strangers(rows[0].partition), "somebody who was not recorded may have sent it")


@predicate("L6", "send poll|scan")
def failed_is_not_read(h: History, rows: list[Row]) -> None:
    """v ∈ F ⇒ v ∉ R."""
    ops(rows, "send", "poll|scan")
    partition, (sent, read) = one_partition(rows), rows
    must(sent.id == read.id, "the records differ")
    sends = h.of(partition, sent.id, "send")
    must(all(s.outcome == "fail" for s in sends), "another attempt to send it did not fail")
    nobody_else(h, sent)


@predicate("L8", "send poll|scan poll|scan")
def acknowledged_offset(h: History, rows: list[Row]) -> None:
    """(v, o) ∈ A, (v, o′) ∈ R, o read as another record ⇒ o = o′."""
    ops(rows, "send", "poll|scan", "poll|scan")
    partition, (sent, own, other) = one_partition(rows), rows
    must(acknowledged(h, sent), "the send was not answered with an offset")
    (acked,) = known("the send was not answered with an offset", sent.offset)
    must(own.id == sent.id and own.offset != sent.offset, "it was read where it was acknowledged")
    must(other.offset == sent.offset and other.id != sent.id, "nothing else was read in its place")
    there = {r.id for r in reads_at(h, partition, acked)}
    must(sent.id not in there, "it was read where it was acknowledged, too")


@predicate("L9", "send send")
def append_order(h: History, rows: list[Row]) -> None:
    """a ≺ b, both sent to one partition ⇒ o(a) < o(b)."""
    ops(rows, "send", "send")
    one_partition(rows)
    one, two = rows
    must(one.ok, "the first is not known to be stored")
    must(before(one, two), "the first had not returned when the second began")
    first, second = known("nobody knows where they are stored", where(h, one), where(h, two))
    must(first > second, "they are stored in this order")


@predicate("L10", "poll|scan send")
def no_read_of_the_future(h: History, rows: list[Row]) -> None:
    """v ∈ R ⇒ ¬(read ≺ the first send of v)."""
    ops(rows, "poll|scan", "send")
    partition, (read, sent) = one_partition(rows), rows
    must(read.id == sent.id, "the records differ")
    nobody_else(h, sent)
    for send in h.of(partition, read.id, "send"):
        must(before(read, send), "an attempt to send it is not known to have begun later")


@predicate("L11", "mark mark")
def watermark_back(h: History, rows: list[Row]) -> None:
    """High watermarks told to one client by one replica in one leader epoch do not decrease."""
    ops(rows, "mark", "mark")
    one_partition(rows)
    must(rows[0].ok and rows[1].ok, "a call did not happen")
    must(h.jepsen or rows[0].record.get("epoch") is not None, "nobody knows the leader epoch")
    went_back(h, *rows)


@predicate("L20", "earliest|latest earliest|latest")
def answers_back(h: History, rows: list[Row]) -> None:
    """Answers of one kind to one client do not decrease."""
    must(rows[0].op == rows[1].op, "the questions differ")
    kinds = (r.line.get("isolation") for r in rows)
    must(len(set(kinds)) == 1, "the questions were asked at different isolation")
    _answers_back(rows, "earliest|latest", "earliest|latest")


def _answers_back(rows: list[Row], *expected: str) -> None:
    ops(rows, *expected)
    one_partition(rows)
    one, two = rows
    must(one.ok and two.ok, "a question was not answered")
    must(one.process == two.process, "two clients were told")
    must(one.at < two.at, "the second answer came first")
    first, second = known("an answer is missing", one.offset, two.offset)
    must(second < first, "the answer did not go back")


@predicate("L12", "scan|dump|marker scan|dump|marker")
def epochs_ascend(h: History, rows: list[Row]) -> None:
    """o < o′ ⇒ epoch(o) ≤ epoch(o′), in one log."""
    ops(rows, "scan|dump|marker", "scan|dump|marker")
    one_partition(rows)
    one, two = rows
    log = [None if r.op == "scan" else (r.process, r.line.get("replica")) for r in rows]
    must(log[0] == log[1], "they are of the logs of two replicas")
    must(one.ok and two.ok, "a scan was not answered")
    low, high = known("an offset is missing", one.offset, two.offset)
    must(low < high, "the offsets do not ascend")
    first, second = known("an epoch is missing", *(r.record.get("epoch") for r in rows))
    must(first > second, "the epochs ascend")


@predicate("L15", "send poll|scan poll|scan")
def not_replaced(h: History, rows: list[Row]) -> None:
    """(v, o) acknowledged and read, a later read of o ⇒ again v."""
    ops(rows, "send", "poll|scan", "poll|scan")
    one_partition(rows)
    sent, early, late = rows
    must(acknowledged(h, sent), "the send was not answered with an offset")
    must(sent.id == early.id and sent.offset == early.offset, "it was not read where it was put")
    must(late.offset == sent.offset and late.id != sent.id, "the later read found it again")
    must(before(early, late), "the second read is not known to have begun later")


@predicate("L16", "list_offsets")
def first_of_that_time(h: History, rows: list[Row]) -> None:
    """answer(τ) = min {o ≥ log start: visible, timestamp(o) ≥ τ}, at an instant of the call."""
    ops(rows, "list_offsets")
    asked, partition, time = rows[0], rows[0].partition, rows[0].line.get("query")
    must(asked.ok and isinstance(time, int), "it is no answered question by time")
    assert isinstance(time, int)
    late = [s for s in h.rows(partition, "send") if s.record.get("timestamp", time - 1) >= time]
    sure = [s for s in late if s.ok and stays(h, s) and (before(s, asked) or _touches(s, asked))]
    known = [
        own for s in sure if (own := where(h, s)) is not None and own >= log_start(h, partition)
    ]
    first = min(known, default=None)
    must(asked.offset != first, "it is the first record that was there")
    if asked.offset is None or (first is not None and asked.offset > first):
        return
    # Below the first that was surely there: what may it have been?
    maybe = [s for s in late if not before(asked, s)]
    there = {
        r.id for r in h.at(partition, asked.offset, "send", "poll", "scan") if _tells_offset(h, r)
    }
    must(there.isdisjoint(s.id for s in maybe), "such a record may have been there")
    if not there:
        unknown = [s for s in maybe if s.outcome != "fail" and where(h, s) is None]
        must(not unknown, "a record of unknown offset may have been there")
        must(all(h.state(s) is None for s in h.rows(partition, "send")), "it may be a marker")


def _touches(send: Row, asked: Row) -> bool:
    return same_clock(send, asked) and send.ret is not None and send.ret == asked.inv


@predicate("C7", "mark send")
def up_to_date(h: History, rows: list[Row]) -> None:
    """Acknowledged at o ≺ an empty poll ⇒ its high watermark is above o."""
    ops(rows, "mark", "send")
    partition, (mark, sent) = one_partition(rows), rows
    must(acknowledged(h, sent) and stays(h, sent), "the send was not answered with an offset")
    must(before(sent, mark), "the poll had begun when the send returned")
    same = [r for r in h.rows(partition, "poll", "scan") if r.call == mark.call]
    must(not same, "the poll returned records of the partition")
    end, own = known("an offset is missing", mark.offset, sent.offset)
    must(end <= own, "the high watermark was above it")
