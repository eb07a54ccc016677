"""Anomalies in logs and their copies: payloads, watermarks, compaction, deletion, replicas, keys.

What they are about are a compacted topic whose leader stamps the records, one whose head was
deleted, one whose keys have partitions; and the logs of two brokers as they lie on disk.
"""

from typing import Any

from traces.generate.small.fixture import TOPIC, Fixture, Line, afterwards, during, name, payload
from traces.generate.small.lines import calls, scans
from traces.generate.small.registry import Lines, NotHere, in_calls

COMPACTED, DELETED, KEYED = "compacted", "deleted", "keyed"
WRITER, SCANNER, ADMIN = "q0#0", "scan-more#0", "admin#0"
STAMP = 1_790_000_000_000
LATER_NS = 2_000_000_000
# Kafka's own murmur2 of some keys, as its unit tests have them.
HASHES = {"21": -973932308, "foobar": -790332482, "abc": 479470107}
KEYED_PARTITIONS = 5

# Key and value (None: a tombstone) of what is sent to the compacted topic, and what is left of it.
WRITTEN = [("a", 1), ("b", 1), ("a", 2), ("c", 1), ("b", None), ("d", 1), ("a", 3), ("d", 2)]
LEFT = (3, 6, 7)
DELETED_TO = 2


def write(w: Fixture, topic: str, partition: int, offset: int, **more: Any) -> None:
    w.ids += 1
    record = {"topic": topic, "partition": partition, "offset": offset, "id": w.ids}
    record |= {"hash": payload(w.ids), "key": "k", "tombstone": False, "chosen": False} | more
    w.call(WRITER, "send", records=[record])


@during
def write_more(w: Fixture) -> None:
    safe = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 10}
    w.meta["producers"]["q0"] = safe | {"partitioner": "murmur2_random"}
    topic: dict[str, Any] = w.meta["topics"][TOPIC]
    times = {"message_timestamp_type": "LogAppendTime", "min_compaction_lag_ms": 1_000}
    compacted = {"cleanup_policy": "compact", "delete_retention_ms": 1_000, "partitions": 1}
    w.meta["topics"][COMPACTED] = topic | times | compacted
    w.meta["topics"][DELETED] = topic | {"partitions": 1}
    w.meta["topics"][KEYED] = topic | {"partitions": KEYED_PARTITIONS}
    for offset, (key, value) in enumerate(WRITTEN):
        write(w, COMPACTED, 0, offset, key=key, tombstone=value is None)
    for offset in range(2 * DELETED_TO):
        write(w, DELETED, 0, offset)
    for key, hashed in HASHES.items():
        write(w, KEYED, (hashed & 0x7FFFFFFF) % KEYED_PARTITIONS, 0, key=key)
    w.call(ADMIN, "delete_records", offsets={f"{DELETED}:0": DELETED_TO})


@afterwards
def scan_more(w: Fixture) -> None:
    """The cleaner has been there, when all delays were over."""
    w.now += LATER_NS
    found: dict[str, list[Line]] = {f"{KEYED}:{p}": [] for p in range(KEYED_PARTITIONS)}
    ends = dict.fromkeys(found, 0)
    for line in w.lines[WRITER]:
        for record in line.get("records", ()):
            partition = f"{record['topic']}:{record['partition']}"
            left = {COMPACTED: LEFT, DELETED: range(DELETED_TO, 99), KEYED: range(99)}
            mine = found.setdefault(partition, [])
            ends[partition] = record["offset"] + 1
            if record["offset"] in left[record["topic"]]:
                # The clock of the leader stands still at times.
                stamp = {"epoch": 1, "timestamp": STAMP + record["offset"] // 2}
                mine.append({k: v for k, v in record.items() if k != "tombstone"} | stamp)
    starts = {partition: DELETED_TO * (partition == f"{DELETED}:0") for partition in found}
    w.call(SCANNER, "list_offsets", query="earliest", offsets=starts)
    w.call(SCANNER, "assign", partitions=list(found), offsets=starts)
    for partition, records in found.items():
        reports = {
            "partitions": [partition],
            "offsets": {partition: ends[partition]},
            "records": records,
        }
        w.call(SCANNER, "scan", isolation="read_uncommitted", **reports)


PRODUCER_IDS = {"t0": 0, "t1": 1, "p0": 10, "p1": 11, "n0": 70, "n1": 71, "m0": 90, "m1": 91}


@afterwards
def dump(w: Fixture) -> None:
    """The logs of two brokers, a batch for each record."""
    senders = {
        record["id"]: PRODUCER_IDS[line["process"][:2]]
        for line in calls(w.lines, "send")
        for record in line["records"]
        if record["topic"] == TOPIC and line["outcome"] == "ok"
    }
    for node in (1, 2):
        for partition, log in w.logs.items():
            dump_log(w, node, partition, log, senders)


def dump_log(
    w: Fixture, node: int, partition: int, log: list[int | None], senders: dict[int, int]
) -> None:
    process, sequences = f"broker-{node}", dict.fromkeys(senders.values(), 0)
    previous = 0
    for offset, id in enumerate(log):
        record: Line = {"topic": TOPIC, "partition": partition, "offset": offset, "epoch": 1}
        producer = senders[previous if id is None else id]
        batch: Line = {"replica": node, "producer_id": producer, "producer_epoch": 0}
        batch |= {"transactional": True} if producer < 2 else {}
        if id is None:
            batch["control"] = "abort" if previous in w.aborted else "commit"
            record |= {"timestamp": STAMP + offset, "hash": 1}
        else:
            record |= {"timestamp": STAMP + offset, "hash": payload(id), "id": id, "key": f"k{id}"}
            record |= {"sequence": sequences[producer], "tombstone": False}
            sequences[producer] += 1
            previous = id
        w.call(process, "dump", **batch, records=[record])
    tp = name(partition)
    whole = {"offsets": {tp: len(log)}, "high_watermark": {tp: len(log)}}
    w.call(process, "dump", replica=node, **whole, log_start={tp: 0}, leader_epochs={tp: 1})


def dumped(lines: Lines, node: int) -> list[Line]:
    return [line for line in lines[f"broker-{node}"] if "records" in line]


@in_calls("L7")
def changed(fixture: Fixture, lines: Lines) -> None:
    fixture.random.choice(scans(lines)[0]["records"])["hash"] += 1


@in_calls("L7 L14")
def bits_flipped(fixture: Fixture, lines: Lines) -> None:
    mine = [line for line in dumped(lines, 2) if "control" not in line]
    fixture.random.choice(mine)["records"][0]["hash"] += 1


@in_calls("L14")
def stamped_otherwise(fixture: Fixture, lines: Lines) -> None:
    fixture.random.choice(dumped(lines, 2))["records"][0]["timestamp"] += 1


@in_calls("L14", may="P2")
def lose_a_batch_of_a_copy(fixture: Fixture, lines: Lines) -> None:
    """One broker's copy lacks a batch."""
    mine = [line for line in dumped(lines, 1) if "control" not in line]
    kept = [line for line in mine if line["records"][0]["id"] not in fixture.aborted]
    fixture.random.choice(kept)["records"] = []


@in_calls("L12 L14")
def keep_the_epoch_of_an_old_leader(fixture: Fixture, lines: Lines) -> None:
    """One broker's copy of a record has another leader epoch."""
    dumped(lines, 2)[0]["records"][0]["epoch"] = 2


@in_calls("L11")
def watermark_back(fixture: Fixture, lines: Lines) -> None:
    polls = [x for x in lines["c0#0"] if x["op"] == "poll" and x["high_watermark"]]
    for first in polls:
        for partition, mark in first["high_watermark"].items():
            later = [
                x for x in polls if x["seq"] > first["seq"] and partition in x["high_watermark"]
            ]
            if later and mark > 0:
                later[-1]["high_watermark"][partition] = mark - 1
                return
    raise NotHere


@in_calls("L13")
def log_start_back(fixture: Fixture, lines: Lines) -> None:
    polls = [line for line in lines["c1#0"] if line["op"] == "poll"]
    for poll in polls:
        for partition in poll["log_start"]:
            again = [x for x in polls if x["seq"] > poll["seq"] and partition in x["log_start"]]
            if again:
                poll["log_start"][partition] = 1
                return
    raise NotHere


def scan_of(lines: Lines, topic: str, partition: int = 0) -> Line:
    wanted = f"{topic}:{partition}"
    return next(line for line in calls(lines, "scan") if line["partitions"] == [wanted])


@in_calls("", allowed="L17")
def stamped_back(fixture: Fixture, lines: Lines) -> None:
    scan_of(lines, COMPACTED)["records"][-1]["timestamp"] = STAMP


@in_calls("L18 L4", may="L3")
def removed(fixture: Fixture, lines: Lines) -> None:
    scan = scan_of(lines, COMPACTED)
    scan["records"].remove(fixture.random.choice(scan["records"]))


def keep_longer(setting: str) -> Any:
    def configure(meta: dict[str, Any]) -> None:
        meta["topics"][COMPACTED][setting] = 60_000

    return configure


@in_calls("L18", may="L3 L4", meta=keep_longer("delete_retention_ms"))
def remove_a_tombstone_early(fixture: Fixture, lines: Lines) -> None:
    """A tombstone is removed before delete.retention.ms is over."""
    # What was done was right while that was short.


@in_calls("L19", meta=keep_longer("min_compaction_lag_ms"))
def compact_early(fixture: Fixture, lines: Lines) -> None:
    """A record is compacted away before min.compaction.lag.ms is over."""
    # What was done was right while that was short.


@in_calls("L19", may="L1 L2 L9 L17 P1")
def moved(fixture: Fixture, lines: Lines) -> None:
    scan_of(lines, COMPACTED)["records"][0]["offset"] = 2


@in_calls("A2", may="C1 C2 C3")
def read_what_was_deleted(fixture: Fixture, lines: Lines) -> None:
    """A record below the log start is read."""
    (deleted,) = (x for x in lines[WRITER] if _is_at(x, DELETED, DELETED_TO - 1))
    record = {k: v for k, v in deleted["records"][0].items() if k != "tombstone"}
    scan_of(lines, DELETED)["records"].insert(0, record | {"epoch": 1})


def _is_at(line: Line, topic: str, offset: int) -> bool:
    return any(r["topic"] == topic and r["offset"] == offset for r in line.get("records", ()))


@in_calls("P6")
def elsewhere_by_key(fixture: Fixture, lines: Lines) -> None:
    # Consistently: whoever reads finds the record where it was sent.
    keyed = [line for line in lines[WRITER] if _is_at(line, KEYED, 0)]
    (record,) = fixture.random.choice(keyed)["records"]
    used = {line["records"][0]["partition"] for line in keyed}
    free = min(set(range(KEYED_PARTITIONS)) - used)
    here, there = scan_of(lines, KEYED, record["partition"]), scan_of(lines, KEYED, free)
    (scanned,) = here["records"]
    here["records"], there["records"] = [], [scanned]
    here["offsets"], there["offsets"] = {here["partitions"][0]: 0}, {there["partitions"][0]: 1}
    record["partition"] = scanned["partition"] = free
