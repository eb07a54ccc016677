"""P and T: what producers and their transactions promise, negated word by word."""

from traces.second_checker.base import known, must, nobody_else, one_partition, ops, predicate
from traces.second_checker.facts import acknowledged, where
from traces.second_checker.history import ABORTED, COMMITTED, History
from traces.second_checker.lives import may_have_begun
from traces.second_checker.rows import Row, before

MS = 1_000_000
FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED")


@predicate("P1", "send send")
def order_kept(h: History, rows: list[Row]) -> None:
    """One process: send i before send j, both stored ⇒ o(i) < o(j)."""
    ops(rows, "send", "send")
    one_partition(rows)
    one, two = rows
    must(one.process == two.process, "two processes sent them")
    must(one.at < two.at, "they were sent in the other order")
    first, second = known("nobody knows where they are stored", where(h, one), where(h, two))
    must(second < first, "they are stored in this order")


@predicate("P3", "init_producer|send send")
def fenced(h: History, rows: list[Row]) -> None:
    """InitProducerId of a newer epoch ≺ send of an older one ⇒ the send is not acknowledged."""
    must(len(rows) == 2, "a sign of a newer epoch and a send were expected")
    sign, sent = rows
    ops(rows[1:], "send")
    must(sign.ok and sent.ok, "one of the calls did not happen")
    must(before(sign, sent), "the send had begun when the newer epoch was seen")
    tid = sent.line.get("transactional_id")
    must(sign.line.get("transactional_id") == tid, "they belong to different producers")
    if tid is None:
        pid, epoch = (sent.line.get(f"producer_{x}") for x in ("id", "epoch"))
        newer, other = (sign.line.get(f"producer_{x}") for x in ("epoch", "id"))
        must(pid is not None and pid == other, "they belong to different producers")
        must(epoch is not None and newer is not None and newer > epoch, "its epoch is not older")
        return
    own, other = _initialised(h, sent), _initialised(h, sign)
    later = own is not None and other is not None and before(own, other)
    must(later, "the other is not known to have been initialised after it")


def _initialised(h: History, row: Row) -> Row | None:
    """The last successful initialisation of a process up to a row of its."""
    found = None
    for n, line in h.by_process[row.process]:
        if n <= row.n and line["op"] == "init_producer" and line["outcome"] == "ok":
            found = Row(line, {}, "init_producer", "", n, 0)
    return found


@predicate("P4", "init_producer init_producer")
def epochs_grow(h: History, rows: list[Row]) -> None:
    """One transactional id, one producer id: init i ≺ init j ⇒ epoch(i) < epoch(j)."""
    ops(rows, "init_producer", "init_producer")
    one, two = (row.line for row in rows)
    must(rows[0].ok and rows[1].ok, "an initialisation did not succeed")
    for name in ("transactional_id", "producer_id"):
        must(one.get(name) is not None and one.get(name) == two.get(name), f"the {name}s differ")
    must(before(*rows), "the first had not returned when the second began")
    epochs = (line.get("producer_epoch") for line in (one, two))
    first, second = known("an epoch is missing", *epochs)
    must(second <= first, "the epoch grew")


@predicate("P7", "init_producer txn_commit")
def newest_is_not_fenced(h: History, rows: list[Row]) -> None:
    """i the last of an id to begin ≺ its commit, within transaction.timeout.ms ⇒ not fenced."""
    ops(rows, "init_producer", "txn_commit")
    own, end = rows
    tid = end.line.get("transactional_id")
    must(tid is not None and own.line.get("transactional_id") == tid, "they are of different ids")
    must(own.process == end.process and own.ok, "it is not its own initialisation")
    last = _initialised(h, end)
    must(last is not None and last.n == own.n, "it began again since")
    must(not end.ok and end.line.get("error") in FENCED, "it was not refused as fenced")
    (answered,) = known("nobody knows when it was answered", end.ret)
    begins = [
        line["invoked_ns"]
        for _, line in h.by_process[end.process]
        if line["op"] == "txn_begin" and line.get("txn") == end.line.get("txn")
    ]
    must(begins, "nobody knows when its transaction began")
    timeout = h.producer(end.process).get("transaction_timeout_ms")
    must(timeout is None or answered - begins[-1] < timeout * MS, "its time was over")
    for process, mine in h.by_process.items():
        for n, line in mine:
            other = Row(line, {}, line["op"], "", n, 0)
            begins_too = other.op == "init_producer" and line.get("transactional_id") == tid
            if begins_too and process != end.process:
                must(before(other, own) or before(end, other), "another instance began since")


def _read_as_committed(row: Row) -> None:
    must(row.line.get("isolation") == "read_committed", "it was not read as committed")


@predicate("T2", "poll|scan send")
def waits_for_commit(h: History, rows: list[Row]) -> None:
    """v ∈ T read as committed ⇒ ¬(the read returned before T's commit was first requested)."""
    ops(rows, "poll|scan", "send")
    partition, (read, send) = one_partition(rows), rows
    must(read.id == send.id, "the records differ")
    must(h.state(send) not in (None, ABORTED), "its transaction did not commit")
    nobody_else(h, send)
    _read_as_committed(read)
    for sent in h.of(partition, read.id, "send"):
        must(h.state(sent) is not None, "an attempt to send it needs no commit")
        if h.state(sent) != ABORTED:
            _asked_later(h, read, sent)


def _asked_later(h: History, read: Row, sent: Row) -> None:
    asked = h.commit_asked(sent)
    when, clock = asked or (None, "")
    returned, requested = known("a time is missing", read.ret, when)
    must(clock == read.line.get("clock", "host"), "the times are of different clocks")
    must(returned < requested, "the commit had been requested")


@predicate("T3", "send poll|scan")
def stops_at_open(h: History, rows: list[Row]) -> None:
    """o read as committed at t, committed T has a record below o ⇒ T asked to commit by t."""
    ops(rows, "send", "poll|scan")
    one_partition(rows)
    sent, read = rows
    _read_as_committed(read)
    must(acknowledged(h, sent) and h.state(sent) == COMMITTED, "its transaction did not commit")
    below, own = known("an offset is missing", sent.offset, read.offset)
    must(below < own, "the read is below it")
    _asked_later(h, read, sent)


@predicate("T4", "poll|scan send")
def aborted_unseen(h: History, rows: list[Row]) -> None:
    """T aborted, or never asked to commit ⇒ no v ∈ T is read as committed."""
    ops(rows, "poll|scan", "send")
    partition, (read, sent) = one_partition(rows), rows
    must(read.id == sent.id, "the records differ")
    nobody_else(h, sent)
    _read_as_committed(read)
    for attempt in h.of(partition, read.id, "send"):
        must(h.state(attempt) == ABORTED, "an attempt to send it was not aborted")


@predicate("T5", "poll send")
def own_unread(h: History, rows: list[Row]) -> None:
    """A unit reads v ⇒ it did not send v."""
    ops(rows, "poll", "send")
    one_partition(rows)
    read, sent = rows
    must(read.id == sent.id, "the records differ")
    must(read.unit == sent.unit, "another transaction sent it")
    attempts = [s for s in h.of(read.partition, read.id, "send") if s.outcome != "fail"]
    must(len(attempts) <= 1, "it may be what another call sent")


@predicate("T8", "txn_commit txn_begin txn_commit")
def one_at_a_time(h: History, rows: list[Row]) -> None:
    """Committed transactions of one id: [begin, request to commit] are disjoint."""
    ops(rows, "txn_commit", "txn_begin", "txn_commit")
    end, begin, other = rows
    must(end.ok and other.ok, "one of them did not commit")
    tids = {row.line.get("transactional_id") for row in rows}
    must(len(tids) == 1 and None not in tids, "the transactional ids differ")
    must(begin.unit == other.unit, "the second does not end what it began")
    must(begin.process != end.process, "one process does one thing at a time")
    first = _begun(h, end)
    # [first, end] and [begin, other] share an instant: each begins before the other asks to end.
    must(before(begin, end), "the second began when the first asked to commit, or later")
    must(
        first and before(first, other), "the first began when the second asked to commit, or later"
    )


def _begun(h: History, end: Row) -> Row | None:
    for n, line in h.by_process[end.process]:
        if line["op"] == "txn_begin" and line.get("txn") == end.line.get("txn"):
            return Row(line, {}, "txn_begin", "", n, 0)
    return None


@predicate("T10", "poll poll")
def consumed_once(h: History, rows: list[Row]) -> None:
    """Two committed transactions of one group do not both consume (partition, o)."""
    ops(rows, "poll", "poll")
    one_partition(rows)
    one, two = rows
    must(one.group is not None and one.group == two.group, "the groups differ")
    must(one.offset is not None and one.offset == two.offset, "the offsets differ")
    must(one.unit != two.unit, "it is one transaction")
    must(all(h.state(r) == COMMITTED for r in rows), "a transaction is not known to be committed")
    must(not may_have_begun(h, one, two), "the group may have been made again in between")
