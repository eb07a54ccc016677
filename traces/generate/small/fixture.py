"""A small fixture in which Kafka keeps all its promises, and writes down what its clients saw.

One clock, two partitions, two plain producers, two transactional ones, a group of two consumers
that changes hands, and a final scan. Every call takes one tick, so the order of the calls is the
order of the log: whatever a check finds in the trace of such a fixture, it invented.
"""

from collections.abc import Callable
from importlib import import_module
from random import Random
from typing import Any

from attrs import define, field

Line = dict[str, Any]
TOPIC, PARTITIONS, GROUP = "t", 2, "g"


def name(partition: int) -> str:
    return f"{TOPIC}:{partition}"


def payload(id: int) -> int:
    """The hash of a record's payload."""
    return id * 1_000_003


@define
class Fixture:
    """Logs, clients and their files; `lines` is the trace."""

    random: Random
    lines: dict[str, list[Line]] = field(factory=dict[str, list[Line]])
    meta: dict[str, Any] = field(factory=dict[str, Any])
    logs: dict[int, list[int | None]] = field(factory=dict[int, list[int | None]])
    aborted: set[int] = field(factory=set[int])
    committed: dict[int, int] = field(factory=dict[int, int])
    owners: dict[int, str] = field(factory=dict[int, str])
    position: dict[int, int] = field(factory=dict[int, int])
    generation: int = 0
    now: int = 1_000
    ids: int = 0
    epoch: int = 0

    def call(self, process: str, op: str, **fields: Any) -> Line:
        """One call that begins and returns at ticks of its own."""
        mine = self.lines.setdefault(process, [])
        if op == "assigned":
            fields.setdefault("member", process)
        for record in fields.get("records", ()) if op == "send" else ():
            record.setdefault("timestamp", self.now)
        line: Line = {"process": process, "seq": len(mine), "op": op, "outcome": "ok"}
        line |= {"invoked_ns": self.now + 1, "returned_ns": self.now + 2} | fields
        if op == "poll":
            of = {r["partition"] for r in line["records"] if r["topic"] == TOPIC} & self.logs.keys()
            reports = {"replica": 1} | self.reports(of)
            line |= {k: v for k, v in reports.items() if of and k not in line}
        self.now += 3
        mine.append(line)
        return line

    def append(self, partition: int) -> tuple[int, int]:
        self.ids += 1
        self.logs[partition].append(self.ids)
        return self.ids, len(self.logs[partition]) - 1

    def send(self, process: str, **fields: Any) -> int:
        partition = self.random.randrange(PARTITIONS)
        id, offset = self.append(partition)
        record = {"topic": TOPIC, "partition": partition, "offset": offset, "id": id}
        record["hash"] = payload(id)
        self.call(process, "send", records=[record | {"key": f"k{id}"}], **fields)
        return id

    def transaction(self, process: str, ordinal: int, commit: bool) -> None:
        shared = {"txn": ordinal, "transactional_id": f"id-{process}"}
        self.call(process, "txn_begin", **shared)
        written = [self.send(process, **shared) for _ in range(self.random.randint(1, 3))]
        if not commit:
            self.aborted |= set(written)
        self.call(process, "txn_commit" if commit else "txn_abort", **shared)
        for log in self.logs.values():
            if set(written) & {id for id in log if id is not None}:
                log.append(None)  # the marker

    def records(self, partition: int, start: int, committed_only: bool) -> list[Line]:
        return [
            {"topic": TOPIC, "partition": partition, "offset": offset, "id": id, "epoch": 1}
            | {"hash": payload(id)}
            for offset, id in enumerate(self.logs[partition])
            if offset >= start and id is not None and not (committed_only and id in self.aborted)
        ]

    def rebalance(self) -> None:
        """Everything is revoked (and committed first), then given out again."""
        member = {"group": GROUP, "generation": self.generation}
        for owner in sorted(set(self.owners.values())):
            mine = [name(p) for p, o in self.owners.items() if o == owner]
            self.commit(owner)
            self.call(owner, "revoked", partitions=mine, **member)
        self.generation += 1
        members = ["c0#0", "c1#0"]
        self.random.shuffle(members)
        self.owners = {p: members[p % 2] for p in range(PARTITIONS)}
        for partition, owner in self.owners.items():
            member = {"group": GROUP, "generation": self.generation}
            self.call(owner, "assigned", partitions=[name(partition)], **member)
            known = (
                {name(partition): self.committed[partition]} if partition in self.committed else {}
            )
            self.call(owner, "committed", partitions=[name(partition)], offsets=known, **member)
            self.position[partition] = self.committed.get(partition, 0)

    def poll(self, owner: str) -> None:
        """Read, process and (sometimes) commit."""
        records: list[Line] = []
        for partition, mine in self.owners.items():
            if mine == owner:
                got = self.records(partition, self.position[partition], True)
                got = got[: self.random.randint(1, 4)]
                records += got
                if got:
                    self.position[partition] = got[-1]["offset"] + 1
        if records:
            said = {"group": GROUP, "isolation": "read_committed", "replica": 1}
            self.call(owner, "poll", records=records, **said, **self.reported(owner))
            self.call(owner, "process", records=records, group=GROUP)
            if self.random.random() < 0.6:
                self.commit(owner)

    def reported(self, owner: str) -> Line:
        """The leader's offsets of all partitions that a consumer owns."""
        return self.reports({p for p, o in self.owners.items() if o == owner})

    def reports(self, partitions: set[int]) -> Line:
        """The leader's offsets of partitions."""
        return {
            "high_watermark": {name(p): len(self.logs[p]) for p in sorted(partitions)},
            "log_start": {name(p): 0 for p in sorted(partitions)},
            "leader_epochs": {name(p): 1 for p in sorted(partitions)},
        }

    def commit(self, owner: str) -> None:
        mine = {p: self.position[p] for p, o in self.owners.items() if o == owner}
        if mine:
            self.committed |= mine
            offsets = {name(p): o for p, o in mine.items()}
            member = {"group": GROUP, "generation": self.generation}
            self.call(owner, "commit", offsets=offsets, **member)

    def close(self, *processes: str) -> None:
        """The last line of each file that has none yet."""
        for process in processes:
            if self.lines[process][-1]["op"] not in ("close", "crash"):
                self.call(process, "close")

    def scan(self) -> None:
        for isolation in ("read_uncommitted", "read_committed"):
            process = f"scan-{isolation}#0"
            ends = {name(p): len(log) for p, log in self.logs.items()}
            zeros = dict.fromkeys(ends, 0)
            self.call(process, "list_offsets", query="earliest", offsets=zeros)
            self.call(process, "list_offsets", query="latest", offsets=ends)
            self.call(process, "assign", partitions=list(ends), offsets=zeros)
            for p, log in self.logs.items():
                self.call(
                    process,
                    "scan",
                    isolation=isolation,
                    partitions=[name(p)],
                    offsets={name(p): len(log)},
                    records=self.records(p, 0, isolation == "read_committed"),
                )


Part = Callable[[Fixture], None]
DURING: list[Part] = []
AFTERWARDS: list[Part] = []


def during(part: Part) -> Part:
    """Add something that happens in every fixture, before the consumers catch up and all close.

    A module of `traces.generate.small` gives the fixture so what its anomalies are about: clients,
    fields of lines, settings in `meta`. Random choices are those of `fixture.random`.
    """
    DURING.append(part)
    return part


def afterwards(part: Part) -> Part:
    """As `during`, after every client has closed and the final scans were made."""
    AFTERWARDS.append(part)
    return part


def fixture(seed: int, steps: int = 40) -> Fixture:
    """A whole history from a seed; the same one whichever test asks first."""
    import_module("traces.generate.small")  # its modules add parts to the fixture
    w = Fixture(Random(seed), logs={p: [] for p in range(PARTITIONS)})
    w.meta = meta()
    for process in ("t0#0", "t1#0"):
        w.call(
            process,
            "init_producer",
            transactional_id=f"id-{process}",
            producer_id=int(process[1]),
            producer_epoch=0,
        )
    for consumer in ("c0#0", "c1#0"):
        w.call(consumer, "subscribe", topics=[TOPIC], group=GROUP)
    w.rebalance()
    ordinals = {"t0#0": 0, "t1#0": 0}
    for _ in range(steps):
        drawn = w.random.random()
        if drawn < 0.35:
            w.send(w.random.choice(["p0#0", "p1#0"]))
        elif drawn < 0.5:
            process = w.random.choice(list(ordinals))
            w.transaction(process, ordinals[process], w.random.random() < 0.7)
            ordinals[process] += 1
        elif drawn < 0.95:
            w.poll(w.random.choice(["c0#0", "c1#0"]))
        else:
            w.rebalance()
    # One of each of what the anomalies need, wherever the drawn fell; then everybody catches up.
    for process in ("p0#0", "p1#0", "p0#0", "p1#0", "p0#0", "p1#0", "p0#0", "p1#0"):
        w.send(process)
    for process, ordinal in ordinals.items():
        w.transaction(process, ordinal, commit=True)
        w.transaction(process, ordinal + 1, commit=False)
        w.send("p0#0")
    for part in DURING:
        part(w)
    w.rebalance()
    for _ in range(12 * steps):
        for consumer in ("c0#0", "c1#0"):
            w.poll(consumer)
    for consumer in ("c0#0", "c1#0"):
        w.commit(consumer)
    members = ["c0#0", "c1#0"]
    w.close(*(process for process in w.lines if process not in members), *members)
    w.scan()
    for part in AFTERWARDS:
        part(w)
    w.close(*w.lines)
    w.meta["processes"] = list(w.lines)
    return w


def meta() -> dict[str, Any]:
    safe = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 10}
    consumer = {
        "group": GROUP,
        "isolation": "read_committed",
        "auto_commit": False,
        "commit_order": "process_then_commit",
        "auto_offset_reset": "earliest",
        "group_protocol": "classic",
    }
    topic = {
        "partitions": PARTITIONS,
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "cleanup_policy": "delete",
        "unclean_leader_election": False,
    }
    return {
        "format": 1,
        "run": "fixture",
        "source": "a fixture of its own",
        "complete": True,
        "topics": {TOPIC: topic},
        "internal_topics": {
            "__consumer_offsets": {"min_insync_replicas": 2, "unclean_leader_election": False}
        },
        "producers": {p: dict(safe) for p in ("p0", "p1", "t0", "t1")},
        "consumers": {c: dict(consumer) for c in ("c0", "c1")},
        "faults": [],
    }
