"""L and P about single records: payloads, time stamps, compaction and partitions, negated."""

from collections.abc import Iterator

from traces.second_checker.base import known, must, nobody_else, one_partition, ops, predicate
from traces.second_checker.facts import (
    age,
    compacted,
    expired,
    final,
    followed,
    in_final,
    kept_from,
    stays,
    where,
)
from traces.second_checker.history import UNKNOWN, History
from traces.second_checker.keys import partition_of
from traces.second_checker.rows import PartitionName, Row, TraceLine, before


@predicate("L7", "send|poll|scan|dump poll|scan|dump")
def payload_intact(h: History, rows: list[Row]) -> None:
    """(v, h) sent, (v, h′) read or dumped ⇒ h = h′; of two readings, where no send is known."""
    ops(rows, "send|poll|scan|dump", "poll|scan|dump")
    partition, (said, seen) = one_partition(rows), rows
    must(said.id is not None and said.id == seen.id, "the records differ")
    (own,) = known("no hash was read", seen.record.get("hash"))
    sends = h.of(partition, seen.id, "send")
    hashes = [row.record.get("hash") for row in sends or [said]]
    must(None not in hashes, "a sender did not tell the hash")
    must(own not in hashes, "it is what was sent")
    if sends:
        nobody_else(h, said)


@predicate("L17", "poll|scan|dump poll|scan|dump")
def append_times_ascend(h: History, rows: list[Row]) -> None:
    """The leader stamps, o < o′ of one leader epoch ⇒ timestamp(o) ≤ timestamp(o′)."""
    ops(rows, "poll|scan|dump", "poll|scan|dump")
    one, two = rows
    kind = h.topic(one_partition(rows).rpartition(":")[0]).get("message_timestamp_type")
    must(kind == "LogAppendTime", "the leader does not stamp")
    low, high = known("an offset is missing", one.offset, two.offset)
    epochs = known("an epoch is missing", *(r.record.get("epoch") for r in rows))
    times = known("a time stamp is missing", *(r.record.get("timestamp") for r in rows))
    must(epochs[0] == epochs[1], "two leaders stamped them")
    must(low < high and times[0] > times[1], "the times ascend")


def _stored_of_key(h: History, partition: PartitionName, key: object) -> list[tuple[int, Row]]:
    """Sends of a key that are in the log for sure, with their offsets."""
    start, found = kept_from(h, partition), list[tuple[int, Row]]()
    for row in h.rows(partition, "send"):
        own = where(h, row)
        if row.record.get("key") != key or own is None or own < start or row.outcome == "fail":
            continue
        if stays(h, row) and not (row.outcome == "ok" and "no_partition" in row.record):
            found.append((own, row))
    return found


def _end(h: History, partition: PartitionName) -> int:
    return max((r.offset or 0 for r in h.rows(partition, "scan_end") if r.ok), default=-1)


@predicate("L18", "send")
def last_of_key_stays(h: History, rows: list[Row]) -> None:
    """o the last of a key, the scan came past o ⇒ o in the scan, or a tombstone old enough."""
    ops(rows, "send")
    gone, partition = rows[0], rows[0].partition
    must(compacted(h, partition), "the topic is not compacted")
    key = gone.record.get("key")
    stored = _stored_of_key(h, partition, key)
    must(key is not None and stored, "it has no key, or is not known to be stored")
    last, _ = max(stored, key=lambda item: item[0])
    must(where(h, gone) == last, "it is not the last of its key")
    must(last < _end(h, partition), "the final scan did not come so far")
    must(not in_final(h, partition, gone.id), "the final scan holds it")
    must(not followed(h, gone), "another record of its key lies above")
    for row in h.rows(partition, "send"):
        same = row.record.get("key") == key and row.outcome != "fail"
        unsure = same and (where(h, row) is None or h.state(row) == UNKNOWN)
        must(not (unsure and row.record.get("tombstone")), "a tombstone may have followed it")
    retention = h.topic(partition.rpartition(":")[0]).get("delete_retention_ms")
    must(retention is None or not expired(h, gone), "the tombstone was old enough to go")


@predicate("L19", "send send|scan|poll")
def compaction_moves_nothing(h: History, rows: list[Row]) -> None:
    """(v, o) known, v in the final scan ⇒ at o; replaced and gone ⇒ not before its time."""
    partition = one_partition(rows)
    must(compacted(h, partition), "the topic is not compacted")
    ops(rows, "send", "send|scan|poll")
    sent, other = rows
    (own,) = known("nobody knows where it was stored", where(h, sent))
    if other.op != "send":
        found = {r.offset for r in final(h, partition) if r.id == sent.id}
        must(other.id == sent.id and other.offset in found, "the final scan does not hold it there")
        must(own not in found, "it is where it was stored")
        return
    (by,) = known("nobody knows where the later one was stored", where(h, other))
    must(other.record.get("key") == sent.record.get("key") is not None, "the keys differ")
    must(own < by, "it was not replaced by a later one")
    must(not in_final(h, partition, sent.id), "the final scan holds it")
    must(own < _end(h, partition), "the final scan did not come so far")
    lag = h.topic(partition.rpartition(":")[0]).get("min_compaction_lag_ms") or 0
    must(age(h, sent) < lag, "it was old enough to go")


@predicate("A1", "send poll|scan|dump")
def lives_apart(h: History, rows: list[Row]) -> None:
    """(v, i) sent, (v, j) read, i and j the topic's ids ⇒ i = j."""
    ops(rows, "send", "poll|scan|dump")
    sent, read = rows
    topic = read.partition.rpartition(":")[0]
    must(sent.id == read.id and sent.partition.rpartition(":")[0] == topic, "the records differ")
    lives = {h.life(row) for row in h.lives[topic, read.id] if row.op == "send"}
    own = h.life(read)
    must(lives and None not in lives and own is not None, "nobody knows of which topic it is")
    must(own not in lives, "it was sent to the topic that it was read from")
    nobody_else(h, read)


@predicate("P6", "send")
def key_names_partition(h: History, rows: list[Row]) -> None:
    """v sent with key k ⇒ partition(v) = hash(k) mod partitions."""
    ops(rows, "send")
    sent = rows[0]
    must(sent.ok and "no_partition" not in sent.record, "nobody knows where it went")
    must(sent.record.get("chosen") is False, "the application may have chosen the partition")
    topic, _, partition = sent.partition.rpartition(":")
    partitions = h.topic(topic).get("partitions")
    partitioner, key = h.producer(sent.process).get("partitioner"), sent.record.get("key")
    must(partitions and partitioner and key is not None, "a setting or the key is missing")
    least, most = _numbers(h, sent, topic, int(partitions or 1))
    for number in {int(partitions or 1), *range(least, most + 1)}:
        (right,) = known("the hash is not known", partition_of(str(partitioner), str(key), number))
        must(right != int(partition), f"the key belongs there if there are {number} partitions")


def _numbers(h: History, sent: Row, topic: str, last: int) -> tuple[int, int]:
    """The fewest and most partitions that the producer can have known: used before, or reported."""
    least, most = 1, last
    partitioner = str(h.producer(sent.process).get("partitioner"))
    for _, line in h.by_process[sent.process]:
        reported = _counted(line, topic)
        if line["seq"] >= sent.line["seq"] and reported is not None:
            most = min(most, reported)
        if line["seq"] <= sent.line["seq"] and reported is not None:
            least = reported  # a topic that is made anew may have fewer
        if line["op"] == "send" and line["seq"] < sent.line["seq"]:
            for record in line.get("records") or ():
                if record["topic"] == topic and record.get("partition") is not None:
                    least = max(least, _fits(record, line, partitioner, least, last))
    most = min([most, *_before_more(h, sent, topic)])
    return min(least, most), most


def _counted(line: TraceLine, topic: str) -> int | None:
    """The number of partitions of a topic that the caller knew, None if not reported."""
    counts: dict[str, int] = line.get("partition_counts") or {}
    return counts.get(topic) if line["outcome"] == "ok" else None


def _fits(record: TraceLine, line: TraceLine, partitioner: str, least: int, last: int) -> int:
    """The fewest partitions of a topic with which a producer can have put a record there."""
    partition, key = int(record["partition"]), record.get("key")
    if key is None or record.get("chosen") is not False or line["outcome"] != "ok":
        return partition + 1
    for number in range(max(least, partition + 1), last + 1):
        right = partition_of(partitioner, str(key), number)
        if right is None or right == partition:
            return partition + 1 if right is None else number
    return last + 1


def _before_more(h: History, sent: Row, topic: str) -> Iterator[int]:
    """The most partitions there were before each addition that followed this send."""
    for lines in h.by_process.values():
        reported: int | None = None
        for n, line in lines:
            number = _counted(line, topic)
            if number is None:
                continue
            adds = line["op"] == "create_partitions"
            if adds and before(sent, Row(line, {}, line["op"], "", n, 0)):
                yield number - 1 if reported is None else reported
            reported = number
