"""Anomalies in transactions that read what they copy, and about questions for offsets by time.

The fixture gets two workers of one group that poll a record inside a transaction and send another,
one after the other, and somebody who asks each partition for its first offset of some time.
"""

from traces.generate.small.fixture import TOPIC, Fixture, Line, afterwards, during, meta, name
from traces.generate.small.registry import Lines, in_calls

WORKERS, GROUP, ASKING = ("m0#0", "m1#0"), "mixed", "asking#0"


@during
def consume_and_produce(w: Fixture) -> None:
    own = meta()
    for n, process in enumerate(WORKERS):
        w.meta["consumers"][process.partition("#")[0]] = own["consumers"]["c0"] | {"group": GROUP}
        w.meta["producers"][process.partition("#")[0]] = own["producers"]["p0"]
        tid = {"transactional_id": f"id-{process}"}
        w.call(process, "init_producer", producer_id=90 + n, producer_epoch=0, **tid)
    while len(w.records(0, 0, True)) < len(WORKERS):
        w.send("p0#0")
    records = w.records(0, 0, True)
    for n, process in enumerate(WORKERS):
        shared = {"txn": 0, "transactional_id": f"id-{process}"}
        w.call(process, "txn_begin", **shared)
        w.call(process, "assign", partitions=[name(0)], offsets={name(0): records[n]["offset"]})
        given = {"isolation": "read_committed", "group": GROUP, "txn": 0}
        w.call(process, "poll", records=records[n : n + 1], **given)
        w.call(process, "process", records=records[n : n + 1], group=GROUP)
        sent = w.send(process, **shared)
        w.call(process, "txn_commit", **shared)
        for log in w.logs.values():
            if sent in log:
                log.append(None)  # the marker


@afterwards
def ask_by_time(w: Fixture) -> None:
    sent = [line["records"] for mine in w.lines.values() for line in mine if line["op"] == "send"]
    for partition in w.logs:
        mine = [
            (r["timestamp"], r["offset"])
            for records in sent
            for r in records
            if r["topic"] == TOPIC and r.get("partition") == partition
            if "offset" in r and r["id"] not in w.aborted
        ]
        time, _ = mine[len(mine) // 2]
        offset = min(offset for stamp, offset in mine if stamp >= time)
        w.call(ASKING, "list_offsets", query=time, offsets={name(partition): offset})


def polled(lines: Lines, process: str) -> Line:
    return next(line for line in lines[process] if line["op"] == "poll")


def sent(lines: Lines, process: str) -> Line:
    record = next(line for line in lines[process] if line["op"] == "send")["records"][0]
    return {"topic": TOPIC} | {x: record[x] for x in ("partition", "offset", "id")}


@in_calls("L16")
def wrong_for_time(fixture: Fixture, lines: Lines) -> None:
    asked = lines[ASKING][0]
    ((partition, offset),) = asked["offsets"].items()
    asked["offsets"] = {partition: offset + 1}


def give(lines: Lines, process: str, record: Line) -> Line:
    """A worker was assigned, and polled, this record instead."""
    partition = name(record["partition"])
    assign = next(line for line in lines[process] if line["op"] == "assign")
    assign |= {"partitions": [partition], "offsets": {partition: record["offset"]}}
    poll = polled(lines, process)
    poll["records"] = [record]
    return poll


@in_calls("T10")
def consumed_twice(fixture: Fixture, lines: Lines) -> None:
    give(lines, WORKERS[1], polled(lines, WORKERS[0])["records"][0])


@in_calls("T5 T2", may="C5 T3")
def own_read(fixture: Fixture, lines: Lines) -> None:
    mine = lines[WORKERS[0]]
    poll = give(lines, WORKERS[0], sent(lines, WORKERS[0]))
    send = next(line for line in mine if line["op"] == "send")
    poll |= {"invoked_ns": send["returned_ns"], "returned_ns": send["returned_ns"] + 1}
    mine.remove(poll)
    mine.insert(mine.index(send) + 1, poll)


@in_calls("T6 L10 T2", may="C5 T3")
def read_each_other(fixture: Fixture, lines: Lines) -> None:
    """Two transactions of committed records each read what the other has yet to commit."""
    for one, other in (WORKERS, WORKERS[::-1]):
        give(lines, one, sent(lines, other))
