"""L13, A2, L14: log starts, deletion, and what the dumps of several replicas hold, negated."""

from collections.abc import Iterator

from traces.second_checker.base import known, must, one_partition, ops, predicate
from traces.second_checker.facts import compacted
from traces.second_checker.history import History
from traces.second_checker.rows import PartitionName, Row, same_clock

_POSITIONED = ("assign", "assigned", "seek", "reset")
_MATTER = ("id", "hash", "epoch", "sequence", "timestamp", "key")
_OF_LINE = ("producer_id", "producer_epoch", "control")
LogKey = tuple[str, int | None]


def _by_one_replica(h: History, one: Row, two: Row) -> bool:
    """Two answers in one epoch are the leader's, if neither client has a rack (KIP-392)."""
    leaders = all(h.consumer(row.process).get("rack") == "" for row in (one, two))
    return leaders or one.line.get("replica") == two.line.get("replica")


def went_back(h: History, one: Row, two: Row) -> None:
    """Require that a client got a lower number later, of one replica and leader epoch."""
    must(one.process == two.process and one.at < two.at, "they were not told to one client so")
    must(_by_one_replica(h, one, two), "two replicas told them")
    must(one.record.get("epoch") == two.record.get("epoch"), "they were told in two epochs")
    first, second = known("an offset is missing", one.offset, two.offset)
    must(second < first, "it did not go back")


def asked_after(h: History, row: Row) -> int | None:
    """When the broker was asked, at the earliest: a consumer fetches ahead of its polls."""
    if row.op in ("scan", "scan_end", "earliest", "latest", "delete_records"):
        return row.inv
    if row.line["op"] == "scan":
        return row.inv
    mine = [r for r in h.rows(row.partition, *_POSITIONED) if r.process == row.process and r.ok]
    earlier = [r for r in mine if r.at < row.at]
    return max(earlier, key=lambda r: r.at).inv if earlier else None


def _reported_before(h: History, said: Row, row: Row) -> None:
    since = asked_after(h, row)
    returned, asked = known("nobody knows when it was asked for", said.ret, since)
    must(same_clock(said, row) and returned < asked, "it may have been asked for before")
    start, own = known("an offset is missing", said.offset, row.offset)
    must(own < start, "it is not below the start")


@predicate("L13", "log_start log_start|poll")
def log_start_grows(h: History, rows: list[Row]) -> None:
    """Log starts in one leader epoch do not decrease, and no later poll reads below one."""
    ops(rows, "log_start", "log_start|poll")
    partition, (one, two) = one_partition(rows), rows
    (epoch,) = known("an epoch is missing", one.record.get("epoch"))
    if two.op == "log_start":
        went_back(h, one, two)
        return
    own = [r for r in h.rows(partition, "log_start") if r.call == two.call]
    must(own and two.ok, "the call that read it told no log start")
    must(own[-1].record.get("epoch") == epoch, "it was read in another epoch")
    must(_by_one_replica(h, one, two), "two replicas told them")
    _reported_before(h, one, two)


@predicate("A2", "delete_records log_start|earliest|poll|scan")
def deleted_is_gone(h: History, rows: list[Row]) -> None:
    """DeleteRecords up to o answered ≺ a log start is told or a record read ⇒ it is ≥ o."""
    ops(rows, "delete_records", "log_start|earliest|poll|scan")
    one_partition(rows)
    deleted, later = rows
    must(deleted.ok and later.ok, "one of the calls did not happen")
    _reported_before(h, deleted, later)


@predicate("L14", "dump|marker dump|marker|dump_end")
def replicas_agree(h: History, rows: list[Row]) -> None:
    """Log starts ≤ o < high watermarks of r and s ⇒ log_r[o] = log_s[o]."""
    ops(rows, "dump|marker", "dump|marker|dump_end")
    partition, (one, two) = one_partition(rows), rows
    (own,) = known("an offset is missing", one.offset)
    must(_log(one) != _log(two), "it is one log")
    for row in rows:
        start, end = _bounds(h, partition, _log(row))
        must(start <= own < end, "one of the replicas does not answer for the offset")
    if two.op != "dump_end":
        must(one.offset == two.offset, "the offsets differ")
        pairs = [(r.record.get(n), o.record.get(n)) for r, o in [rows] for n in _MATTER]
        pairs += [(one.line.get(name), two.line.get(name)) for name in _OF_LINE]
        differ = [a for a, b in pairs if None not in (a, b) and a != b]
        must(differ, "the records are alike")
        return
    there = [r.offset for r in _held(h, partition, _log(two))]
    must(own not in there, "the other log holds the offset")
    must(not _may_be_compacted(h, partition, one, _log(two)), "compaction may have removed it")


def _log(row: Row) -> LogKey:
    return row.process, row.line.get("replica")


def _held(h: History, partition: PartitionName, log: LogKey) -> Iterator[Row]:
    return (r for r in h.rows(partition, "dump", "marker") if _log(r) == log)


def _bounds(h: History, partition: PartitionName, log: LogKey) -> tuple[int, int]:
    """The first offset of a dumped log, and the end of the part known to be committed."""
    dumped = h.rows(partition, "dump_start", "dump_mark", "dump_end")
    reports = [r for r in dumped if _log(r) == log]
    starts = [r.offset or 0 for r in reports if r.op == "dump_start"]
    marks = [r.offset or 0 for r in reports if r.op == "dump_mark"]
    ends = [r.offset or 0 for r in reports if r.op == "dump_end"]
    must(marks and ends, "a dump does not tell where it ends")
    return max(starts, default=0), min(min(marks), ends[0])


def _may_be_compacted(h: History, partition: PartitionName, row: Row, log: LogKey) -> bool:
    if not compacted(h, partition):
        return False
    key, own = row.record.get("key"), row.offset or 0
    dead = [r for r in h.rows(partition, "dump") if r.record.get("tombstone")]
    later = [r for r in [*_held(h, partition, log), *dead] if (r.offset or 0) > own]
    if key is not None and any(r.record.get("key") == key for r in later):
        return True
    return bool(row.record.get("tombstone")) or row.op == "marker" or _aborted(h, partition, row)


def _aborted(h: History, partition: PartitionName, row: Row) -> bool:
    """True if the next marker of the record's producer, in any log, aborts it."""
    pid = row.line.get("producer_id")
    markers = [r for r in h.rows(partition, "marker") if r.line.get("producer_id") == pid]
    after = [r for r in markers if (r.offset or 0) > (row.offset or 0)]
    nearest = min(after, key=lambda r: r.offset or 0, default=None)
    return nearest is not None and nearest.line.get("control") == "abort"
