"""Small random traces of all kinds of calls, in which little is kept of what Kafka promises.

In a fixture every promise is kept but one; here a few clients of one partition do and tell what
they like. So findings meet: each of them may rest on what another one contradicts.
"""

from collections import Counter
from random import Random
from typing import Any

from tests.traces.evidence import Lines, Trace
from tests.traces.fixture import Line
from tests.traces.small import PARTITION, record

REPORTS = ("high_watermark", "log_start", "last_stable")
LATER = 10**6  # when a client closes that was silent for long
THEMES = {
    "log": "send send send send poll poll list_offsets",
    "transactions": "send send send begin begin end poll poll_within init",
    "offsets": "begin offsets_within offsets_within end committed committed commit assigned send",
    "group": "assigned revoked poll poll process commit commit committed send seek",
    "members": "assigned assigned revoked subscribe commit poll send",
    "reader": "send send poll poll poll seek assign reset pause committed commit assigned revoked",
    "starts": "send send poll poll list_offsets list_offsets delete_records reset",
    "share": "send acquire acquire acquire acknowledge acknowledge start begin end",
    "replicas": "send send send poll begin end",
}


def dense_trace(seed: int) -> Trace:
    """The trace of a seed."""
    made = _Dense(Random(seed))
    for _ in range(made.random.randint(3, 11)):
        getattr(made, made.random.choice(THEMES[made.theme].split()))()
    made.scans()
    if made.theme == "replicas" or made.chance(0.1):
        made.dumps()
    made.ends()
    return made.lines, made.meta()


class _Dense:
    """The calls so far; `log` has the record that most clients find at each offset."""

    def __init__(self, random: Random) -> None:
        self.random, self.now = random, 0
        self.theme = random.choice(sorted(THEMES))
        self.highest, self.ids = random.randint(2, 5), random.randint(1, 4)
        self.partitions = random.choice((1, 1, 1, 2))  # the second one is empty
        self.lines: Lines = {}
        self.log: dict[int, int] = {}
        self.open: dict[str, int] = {}
        self.begun = Counter[str]()
        self.compacted, self.numbered = self.chance(0.3), self.chance(0.5)
        self.shared, self.static = self.chance(0.5), self.chance(0.2)
        self.reports = random.sample(REPORTS, random.randint(0, 3)) if self.chance(0.4) else []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def any(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def offset(self, more: int = 0) -> int:
        return self.random.randint(0, self.highest + more)

    def id(self) -> int:
        return self.random.randint(1, self.ids)

    def stored(self, offset: int, **more: Any) -> Line:
        """A record found at an offset: mostly the one that is there."""
        id = self.log.get(offset, self.id()) if self.chance(0.85) else self.id()
        return record(id, offset, **more)

    def read(self, offset: int) -> Line:
        one = self.stored(offset, epoch=1 if self.chance(0.85) else self.any(0, 2))
        times = {"timestamp": 1_000 + (offset if self.chance(0.9) else 0)}
        return one | times | {"hash": one["id"] * 7 if self.chance(0.95) else 5}

    def call(self, process: str, op: str, sure: float = 0.9, **fields: Any) -> None:
        """One call; the next one of another process may overlap it."""
        mine = self.lines.setdefault(process, [])
        last = mine[-1].get("returned_ns", mine[-1]["invoked_ns"]) if mine else 0
        self.now = max(self.now + self.random.randint(1, 4), last)
        outcome = "ok" if self.chance(sure) else self.any("fail", "info")
        line: Line = {"process": process, "seq": len(mine), "op": op, "outcome": outcome}
        line |= {"invoked_ns": self.now, "returned_ns": self.now + self.any(1, 1, 2, 5, 12)}
        mine.append(line | fields)
        if self.chance(0.5):
            self.now = line["returned_ns"]
        if outcome == "info" and self.chance(0.5):
            del mine[-1]["returned_ns"]

    def producer(self) -> str:
        return self.any("p0#0", "p1#0")

    def consumer(self) -> str:
        return self.any("c0#0", "c0#0", "c1#0")

    def transactional(self, producer: str) -> Line:
        return {"transactional_id": "x" if self.shared else f"x-{producer}"}

    def producer_id(self, producer: str) -> int:
        return 7 if self.shared else 7 + int(producer[1])

    def within(self) -> tuple[str, Line] | None:
        """A producer in a transaction, and its fields; where there is none, one begins."""
        if not self.open:
            return self.begin()
        producer = self.random.choice(list(self.open))
        return producer, {"txn": self.open[producer]} | self.transactional(producer)

    def send(self) -> None:
        producer, id = self.producer(), self.id()
        offset = self.offset() if self.chance(0.3) else len(self.log)
        one = record(id, timestamp=1_000 + self.random.randint(0, 5), key=self.any("k1", "k2"))
        one |= {"hash": id * 7 if self.chance(0.8) else 1}
        if self.chance(0.8):
            one["chosen"] = self.chance(0.3)
        if self.compacted:
            one["tombstone"] = self.chance(0.2)
        fields: Line = {}
        if producer in self.open:
            fields = {"txn": self.open[producer]} | self.transactional(producer)
        elif self.numbered:
            fields = {"producer_id": self.producer_id(producer), "producer_epoch": self.any(0, 1)}
        self.call(producer, "send", 0.7, records=[one], **fields)
        line = self.lines[producer][-1]
        if line["outcome"] == "ok":
            one["offset"] = offset
        if line["outcome"] != "fail" and self.chance(0.9):
            self.log.setdefault(offset, id)

    def init(self) -> None:
        producer = self.producer()
        numbers: Line = {
            "producer_id": self.producer_id(producer),
            "producer_epoch": self.any(0, 1, 2),
        }
        self.call(producer, "init_producer", **numbers, **self.transactional(producer))

    def begin(self) -> None:
        producer = self.producer()
        if producer in self.open:
            return self.end()
        self.open[producer] = self.begun[producer]
        self.begun[producer] += 1
        mine = {"txn": self.open[producer]} | self.transactional(producer)
        return self.call(producer, "txn_begin", 1, **mine)

    def end(self) -> None:
        if mine := self.within():
            producer, fields = mine
            self.call(producer, self.any("txn_commit", "txn_commit", "txn_abort"), 0.75, **fields)
            del self.open[producer]

    def offsets_within(self) -> None:
        if mine := self.within():
            fields = {"offsets": {PARTITION: self.offset()}} | self.member(self.consumer())
            self.call(mine[0], "txn_offsets", 0.8, **fields, **mine[1])

    def poll_within(self) -> None:
        if mine := self.within():
            self.poll(mine[0], txn=mine[1]["txn"])

    def poll(self, process: str = "", **more: Any) -> None:
        offset, several = self.offset(), list[Line]()
        for _ in range(self.any(0, 1, 1, 2, 3)):
            several.append(self.read(offset))
            offset = offset + 1 if self.chance(0.8) else self.offset()
        fields: Line = {"records": several, "isolation": self.isolation(), "group": "g"}
        if self.reports:
            fields |= {"replica": self.any(1, 1, 2), "leader_epochs": {PARTITION: self.any(1, 2)}}
            fields |= {name: {PARTITION: self.offset(1)} for name in self.reports}
        self.call(process or self.consumer(), "poll", **fields, **more)

    def isolation(self) -> str:
        return self.any("read_committed", "read_committed", "read_uncommitted")

    def process(self) -> None:
        self.call(self.consumer(), "process", records=[self.stored(self.offset())], group="g")

    def member(self, consumer: str) -> Line:
        fields = {"group": "g", "generation": self.any(1, 2, 3), "member": consumer}
        return fields | ({"instance": "i"} if self.static else {})

    def of_member(self, op: str, **fields: Any) -> None:
        consumer = self.consumer()
        self.call(consumer, op, **self.member(consumer), **fields)

    def assigned(self) -> None:
        self.of_member("assigned", partitions=[PARTITION])

    def revoked(self) -> None:
        self.of_member(self.any("revoked", "revoked", "lost"), partitions=[PARTITION])

    def commit(self) -> None:
        self.of_member("commit", offsets={PARTITION: self.offset(1)})

    def committed(self) -> None:
        offsets = {} if self.chance(0.3) else {PARTITION: self.offset(1)}
        fields: Line = {"isolation": self.isolation()} if self.chance(0.4) else {}
        fields |= {"partitions": [PARTITION], "offsets": offsets, "group": "g"}
        self.call(self.consumer(), "committed", **fields)

    def seek(self) -> None:
        self.call(self.consumer(), "seek", offsets={PARTITION: self.offset()})

    def assign(self) -> None:
        fields: Line = {"partitions": [PARTITION], "offsets": {PARTITION: self.offset()}}
        self.call(self.consumer(), "assign", **fields)

    def reset(self) -> None:
        reason = self.any("no_offset", "out_of_range", "truncation")
        self.call(self.consumer(), "reset", offsets={PARTITION: self.offset()}, reason=reason)

    def pause(self) -> None:
        self.call(self.consumer(), self.any("pause", "pause", "resume"), partitions=[PARTITION])

    def subscribe(self) -> None:
        self.call(self.consumer(), "subscribe", topics=["t"], group="g")

    def list_offsets(self) -> None:
        query = self.any("earliest", "latest", 1_000 + self.random.randint(0, 5))
        fields: Line = {"query": query, "offsets": {PARTITION: self.offset()}}
        self.call(self.any("c0#0", "q0#0"), "list_offsets", **fields)

    def delete_records(self) -> None:
        self.call("q0#0", "delete_records", offsets={PARTITION: self.offset()})

    def of_share_group(self, op: str, **detail: Any) -> None:
        process = self.any("s0#0", "s1#0")
        fields: Line = {"records": [self.stored(self.offset(), **detail)], "member": process}
        self.call(process, op, group="s", **fields)

    def acquire(self) -> None:
        self.of_share_group("acquire", delivery_count=self.random.randint(0, 3))

    def acknowledge(self) -> None:
        self.of_share_group("acknowledge", ack=self.any("accept", "accept", "release", "reject"))

    def start(self) -> None:
        """Of the share group: where it is, or from where it goes on."""
        fields: Line = {"offsets": {PARTITION: self.offset()}, "group": "s"}
        self.call("q0#0", self.any("committed", "commit"), **fields)

    def scans(self) -> None:
        """Final scans: one of all, and maybe one of what is committed, which holds no more."""
        self.now += 50
        offsets = {"t:0": self.highest + 2} | ({"t:1": 0} if self.partitions == 2 else {})
        several = [self.read(offset) for offset in sorted(self.log) if self.chance(0.85)]
        for isolation in ("read_uncommitted", "read_committed"):
            fields: Line = {"partitions": [*offsets], "offsets": offsets, "isolation": isolation}
            self.call(f"scan-{isolation}#0", "scan", 1, records=several, **fields)
            several = [one for one in several if self.chance(0.85)]
            if self.chance(0.5):
                break

    def dumps(self) -> None:
        """The logs of two replicas."""
        for replica in (1, 2):
            process, ends = f"broker-{replica}", self.random.randint(0, self.highest + 1)
            for offset in range(ends):
                batch: Line = {"replica": replica, "producer_id": 7, "producer_epoch": 0}
                one = self.read(offset) | {"sequence": offset if self.chance(0.8) else 0}
                one |= {"key": f"k{one['id'] % 2}", "tombstone": self.chance(0.3)}
                if self.begun and self.chance(0.3):
                    batch |= {"transactional": True, "control": self.any("commit", "abort")}
                    one = {
                        name: one[name] for name in one if name not in ("id", "key", "tombstone")
                    }
                self.call(process, "dump", 1, records=[one], **batch)
            about = {"offsets": ends, "high_watermark": self.random.randint(0, ends)}
            about |= {"log_start": self.any(0, 0, 1), "leader_epochs": 1}
            fields: Line = {name: {PARTITION: value} for name, value in about.items()}
            self.call(process, "dump", 1, replica=replica, **fields)

    def ends(self) -> None:
        """Every process closes or crashes; of some, nobody knows."""
        for process, mine in self.lines.items():
            self.now = max(line.get("returned_ns", line["invoked_ns"]) for line in mine)
            self.now += self.any(0, LATER)
            if self.chance(0.99):
                self.call(process, self.any("close", "close", "close", "crash"), 1)

    def reads(self, client: str) -> bool:
        """True if a client is a consumer, maybe besides a producer."""
        mine = (line for p, lines in self.lines.items() if p.startswith(client) for line in lines)
        return client[0] == "c" or (client[0] == "p" and any(x["op"] == "poll" for x in mine))

    def meta(self) -> Line:
        topic: Line = {"partitions": self.partitions, "replication_factor": 3}
        topic |= {"min_insync_replicas": self.any(2, 2, 2, 1)}
        topic |= {"cleanup_policy": "compact" if self.compacted else "delete"}
        topic |= {"min_compaction_lag_ms": 0, "delete_retention_ms": self.any(0, 1_000)}
        topic |= {"message_timestamp_type": self.any("LogAppendTime", "CreateTime")}
        topic |= {"unclean_leader_election": self.chance(0.15)}
        producer: Line = {"acks": self.any("all", "all", "all", "1"), "retries": 10}
        producer |= {"idempotence": self.chance(0.8), "max_in_flight": self.any(1, 5)}
        producer |= {"transaction_timeout_ms": 1_000, "partitioner": self.any("murmur2", None)}
        consumer: Line = {"group": "g", "isolation": "read_committed", "auto_commit": False}
        orders = ("process_then_commit", "process_then_commit", "commit_then_process")
        consumer |= {"commit_order": self.any(*orders), "session_timeout_ms": self.any(0, 10_000)}
        consumer |= {"auto_offset_reset": self.any("earliest", "latest")}
        consumer |= {"group_protocol": self.any("classic", "classic", "consumer")}
        share = {"lock_ms": self.any(0, 30_000), "delivery_limit": self.any(2, 5)}
        clients = sorted({process.partition("#")[0] for process in self.lines})
        internal = {"min_insync_replicas": 2, "unclean_leader_election": self.chance(0.1)}
        return {
            **{"format": 1, "run": "x", "source": "dense", "complete": True, "faults": []},
            "topics": {"t": topic},
            "internal_topics": {"__consumer_offsets": internal},
            "producers": {name: dict(producer) for name in clients if name[0] == "p"},
            "consumers": {name: dict(consumer) for name in clients if self.reads(name)},
            "share_groups": {"s": share | {"isolation": "read_committed"}},
            "processes": [*self.lines],
        }
