"""P2, P5, T7, T11: producer sessions, and what became of transactions in the log, negated."""

from typing import Any

from traces.second_checker.base import known, must, nobody_else, one_partition, ops, predicate
from traces.second_checker.facts import (
    acknowledged,
    compacted,
    final,
    happened,
    in_final,
    stays,
    superseded,
)
from traces.second_checker.history import ABORTED, COMMITTED, History
from traces.second_checker.rows import Row, same_clock

_SEQUENCES = 1 << 31
_MS = 1_000_000
_GRACE = 20_000 * _MS


def _session(row: Row) -> tuple[Any, Any]:
    return row.line.get("producer_id"), row.line.get("producer_epoch")


@predicate("P2", "send send / dump / dump dump")
def session_without_gap(h: History, rows: list[Row]) -> None:
    """One (pid, epoch): i before j, j in the log ⇒ i in the log, or i certainly failed."""
    partition = one_partition(rows)
    must(None not in _session(rows[-1]), "the session is not known")
    if rows[-1].op == "dump":
        _gap_in_dump(h, rows)
        return
    ops(rows, "send", "send")
    lost, later = rows
    must(lost.process == later.process and lost.at < later.at, "it was not sent before")
    must(_session(lost) == _session(later), "it is another session")
    must(lost.outcome != "fail" and stays(h, lost), "it certainly failed, or was aborted")
    must("no_partition" not in lost.record, "nobody knows which partition it was sent to")
    must(not in_final(h, partition, lost.id), "the final scan holds it")
    must(in_final(h, partition, later.id), "the later one is not in the log either")
    attempts = h.of(partition, later.id, "send")
    if later.outcome != "fail":
        attempts = [s for s in attempts if s.outcome != "fail"]
    must(happened(h, later) or len(attempts) == 1, "another call may have stored the later one")
    must(not superseded(h, lost), "compaction may have removed it")


def _gap_in_dump(h: History, rows: list[Row]) -> None:
    """A broker takes the sequence numbers of a session one by one."""
    row, partition = rows[-1], rows[-1].partition
    must(not compacted(h, partition), "the topic is compacted")
    log = [r for r in h.rows(partition, "dump") if r.line.get("replica") == row.line.get("replica")]
    own, number = known("a number is missing", row.offset, row.record.get("sequence"))
    mine = [r for r in log if _session(r) == _session(row) and r.record.get("sequence") is not None]
    earlier = sorted((r.offset or 0, r.record["sequence"]) for r in mine if (r.offset or 0) < own)
    if len(rows) == 1:
        must(not earlier, "it is not the first of its session")
        must(any(r.offset == 0 for r in log), "the head of the log is gone")
        step = (number + 1) % _SEQUENCES
    else:
        must(earlier and earlier[-1][0] == rows[0].offset, "another one stands between them")
        step = (number - earlier[-1][1]) % _SEQUENCES
    must(1 < step < _SEQUENCES // 2, "the numbers follow one another")


@predicate("P5", "send poll|scan send poll|scan")
def stored_by_two_sessions(h: History, rows: list[Row]) -> None:
    """v sent in two sessions and read at o ≠ o′."""
    ops(rows, "send", "poll|scan", "send", "poll|scan")
    one_partition(rows)
    one, first, two, second = rows
    must(len({row.id for row in rows}) == 1, "the records differ")
    must((one.process, _session(one)) != (two.process, _session(two)), "it is one session")
    must(first.offset != second.offset, "it was read at one offset")


@predicate("T7", "send marker|poll|scan")
def ended_as_asked(h: History, rows: list[Row]) -> None:
    """The outcome of T in the log is the outcome that T's producer was answered."""
    ops(rows, "send", "marker|poll|scan")
    partition, (sent, seen) = one_partition(rows), rows
    state = h.state(sent)
    must(state in (COMMITTED, ABORTED), "nobody knows how its transaction ended")
    if seen.op == "marker":
        _marked_otherwise(h, sent, seen, state == COMMITTED)
        return
    must(sent.id == seen.id, "the records differ")
    nobody_else(h, sent)
    if state == ABORTED:
        must(seen.line.get("isolation") == "read_committed", "it was not read as committed")
        others = [s for s in h.of(partition, sent.id, "send") if h.state(s) != ABORTED]
        must(not others, "another attempt to send it was not aborted")
        return
    others = [s for s in h.of(partition, sent.id, "send") if s.outcome != "fail"]
    must(all(h.state(s) in (None, COMMITTED) for s in others), "it may be another attempt's")
    both = [r for r in final(h, partition) if r.id == sent.id]
    shown = [r for r in both if r.line.get("isolation") == "read_committed"]
    must(both and not shown, "who reads what is committed was given it")
    ends = [
        r.offset or 0
        for r in h.rows(partition, "scan_end")
        if r.ok and r.line.get("isolation") == "read_committed"
    ]
    must((seen.offset or 0) < max(ends, default=-1), "who reads what is committed did not come by")
    must(not superseded(h, sent), "compaction may have removed it")


def _marked_otherwise(h: History, sent: Row, marker: Row, committed: bool) -> None:
    """The first marker of its producer behind a record says the opposite."""
    must(acknowledged(h, sent), "nobody knows where it was stored")
    replica, pid = marker.line.get("replica"), marker.line.get("producer_id")
    own, end = known("an offset is missing", sent.offset, marker.offset)
    held = [r for r in h.rows(sent.partition, "dump", "marker") if r.line.get("replica") == replica]
    there = [r for r in held if r.offset == own and r.op == "dump"]
    must([r for r in there if r.line.get("producer_id") == pid], "it is not of that producer")
    must(all(r.id in (None, sent.id) for r in there), "another record is in its place")
    between = [r for r in held if r.op == "marker" and own < (r.offset or 0) < end]
    must(not [r for r in between if r.line.get("producer_id") == pid], "another marker is nearer")
    must(own < end, "the marker is before it")
    must((marker.line.get("control") == "commit") != committed, "the marker says what was answered")


@predicate("T11", "send last_stable|scan_end")
def not_hanging(h: History, rows: list[Row]) -> None:
    """transaction.timeout.ms and 20 s after a record of T: the last stable offset is above."""
    ops(rows, "send", "last_stable|scan_end")
    one_partition(rows)
    sent, report = rows
    if report.op == "scan_end":
        committed = report.line.get("isolation") == "read_committed"
        must(report.ok and committed, "the scan did not end at the last stable offset")
    must(acknowledged(h, sent) and h.state(sent) is not None, "it is of no transaction")
    stable, own = known("an offset is missing", report.offset, sent.offset)
    must(stable <= own, "the last stable offset is above it")
    began, ended = known("a time is missing", sent.ret, report.inv)
    must(same_clock(sent, report), "the times are of different clocks")
    timeout = h.producer(sent.process).get("transaction_timeout_ms")
    limit = 0 if timeout is None else timeout * _MS + _GRACE
    must(ended - began > limit, "its time was not over")
