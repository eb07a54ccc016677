"""A rebalance storm on broker processes and real ZooKeeper: `make test-storm`.

Eight members of three client libraries, each a process, read one topic while members and brokers
are killed, stopped and started. They are recorded, and judged by every check; beside that it is
counted from the recordings alone what no member has processed, and what was processed twice. One
round commits after processing, where nothing may be lost; one before it, where nothing may be
repeated. With `--protocol consumer` all members are librdkafka's, which alone knows KIP-848. Exit 1
where a promise is broken.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import orjson
from attrs import asdict, define, field
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import traces
from chaos.real.stored.brokers import ROOT, Stored, until
from chaos.real.stored.faults import cluster
from chaos.real.storm.member import LIBRARIES, ORDERS, SESSION_MS, MemberTask
from refimpl.records.coordinators import OFFSETS_TOPIC, partition_for
from traces.record import recorded
from traces.record.cli import record_scan

FOLDER = Path("build/storm")
TOPIC, GROUP, PARTITIONS, MEMBERS = "orders", "storm", 12, 8
OFFSETS = OFFSETS_TOPIC, partition_for(GROUP, 50)
CHECKS = (*(f"G{number}" for number in range(1, 13)), "L1", "L3", "L4", "P1")
EVERY_S = 3.0
"""The time from one fault to the next."""


@define(eq=False)
class MemberProcesses:
    """The processes of the group's members: each has a name, and a new one each time it starts."""

    stored: Stored
    protocol: str
    when: str
    folder: Path
    running: dict[int, Any] = field(factory=dict[int, Any])
    started: int = 0

    def start(self, number: int) -> None:
        library = LIBRARIES[number % len(LIBRARIES)] if self.protocol == "classic" else "confluent"
        task = MemberTask(
            f"{library}{number}-{self.started}",
            library,
            self.protocol,
            self.when,
            self.stored.bootstrap,
            GROUP,
            TOPIC,
            str(self.folder),
        )
        self.started += 1
        command = [sys.executable, "-m", "chaos.real.storm.member", json.dumps(asdict(task))]
        with (self.folder.parent / f"{task.name}.err").open("wb") as errors:
            self.running[number] = subprocess.Popen(command, stderr=errors)

    def end(self, number: int, how: int) -> None:
        """End a member; one that was stopped goes on for it."""
        one = self.running[number]
        one.send_signal(how)
        one.send_signal(signal.SIGCONT)
        try:
            one.wait(60)
        except subprocess.TimeoutExpired:  # its client waits for who does not answer
            one.kill()
            one.wait()


@define(eq=False)
class Writer:
    """A producer in a thread of its own."""

    bootstrap: str
    folder: Path
    sent: int = 0
    acknowledged: set[tuple[int, int]] = field(factory=set[tuple[int, int]])
    stop: threading.Event = field(factory=threading.Event)
    thread: Any = None

    def start(self) -> None:
        self.thread = threading.Thread(target=self._write)
        self.thread.start()

    def _write(self) -> None:
        conf = {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True}
        conf |= {"delivery.timeout.ms": 120_000, "log_level": 0, "linger.ms": 5}
        writer: Any = recorded(Producer, self.folder, conf, name="writer")
        while not self.stop.wait(0.02):
            self.sent += 1
            where = self.sent % PARTITIONS
            writer.produce(TOPIC, b"%d" % self.sent, partition=where, on_delivery=self._delivered)
            writer.poll(0)
        writer.flush(150)
        writer.close()

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.add((message.partition(), message.offset()))

    def end(self) -> None:
        self.stop.set()
        self.thread.join()


@define(eq=False)
class Storm:
    """The faults of members and brokers, one after the other."""

    stored: Stored
    members: MemberProcesses
    rng: Random
    done: list[dict[str, Any]] = field(factory=list[dict[str, Any]])

    def happens(self, what: str) -> None:
        self.done.append({"at_ns": time.monotonic_ns(), "what": what})

    def kill_member(self) -> None:
        """SIGKILL; another process takes its place."""
        number = self.rng.randrange(MEMBERS)
        self.happens(f"kill -9 member {number}")
        self.members.end(number, signal.SIGKILL)
        self.members.start(number)

    def member_leaves(self) -> None:
        """SIGTERM: it leaves in order, and comes back as another process."""
        number = self.rng.randrange(MEMBERS)
        self.happens(f"member {number} leaves")
        self.members.end(number, signal.SIGTERM)
        self.members.start(number)

    def member_sleeps(self) -> None:
        """SIGSTOP for longer than its session: it wakes as a zombie."""
        number = self.rng.randrange(MEMBERS)
        self.happens(f"SIGSTOP member {number}")
        one = self.members.running[number]
        one.send_signal(signal.SIGSTOP)
        time.sleep(SESSION_MS / 1000 + 2)
        one.send_signal(signal.SIGCONT)

    def kill_coordinator(self) -> None:
        """SIGKILL of the broker that leads the group's partition; it starts again."""
        broker = self._coordinator()
        self.happens(f"kill -9 broker {broker}, the coordinator")
        self._kill(broker)

    def kill_broker(self) -> None:
        """SIGKILL of any broker; it starts again."""
        broker = self.rng.choice(sorted(self.stored.brokers))
        self.happens(f"kill -9 broker {broker}")
        self._kill(broker)

    def _kill(self, broker: int) -> None:
        self.stored.brokers[broker].kill()
        time.sleep(EVERY_S)
        self.stored.brokers[broker].start()
        self.stored.brokers[broker].wait_until_ready()
        try:
            until(self._is_whole)
        except TimeoutError:
            self.happens(f"not whole: {self._state()}")
            raise

    def _state(self) -> str:
        """The state of brokers and partitions in ZooKeeper."""
        there = self.stored.zk.get_children(f"{ROOT}/brokers/ids")
        states = [self.stored.state(TOPIC, number) for number in range(PARTITIONS)]
        return f"brokers {there}, controller {self.stored.controller()}, {states}"

    def _coordinator(self) -> int:
        """The leader of the partition that the group is on, by ZooKeeper."""
        leader = self.stored.state(*OFFSETS)["leader"]
        return leader if leader in self.stored.brokers else min(self.stored.brokers)

    def _is_whole(self) -> bool:
        """Everybody is in sync again: at most one broker is away at a time."""
        those = [(TOPIC, number) for number in range(PARTITIONS)] + [OFFSETS]
        return all(len(self.stored.state(*one)["isr"]) == 3 for one in those)

    def inject_faults(self, seconds: float) -> None:
        """One fault after the other for so many seconds; the last one to its end."""
        ends = time.monotonic() + seconds
        kinds: tuple[Callable[[], None], ...] = (
            *(self.kill_member, self.kill_member, self.kill_member, self.member_leaves),
            *(self.member_sleeps, self.kill_coordinator, self.kill_broker),
        )
        while time.monotonic() < ends:
            self.rng.choice(kinds)()
            time.sleep(self.rng.random() * EVERY_S)


def play(protocol: str, when: str, seconds: float, seed: int, folder: Path) -> dict[str, Any]:
    """One round; what came of it."""
    run = folder / "run"
    run.mkdir(parents=True)
    with cluster(folder) as (stored, _):
        admin: Any = AdminClient({"bootstrap.servers": stored.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)
        members, writer = (
            MemberProcesses(stored, protocol, when, run),
            Writer(stored.bootstrap, run),
        )
        storm = Storm(stored, members, Random(f"{seed}/{protocol}/{when}"))
        until(lambda: len(stored.state(TOPIC)["isr"]) == 3)
        writer.start()
        for number in range(MEMBERS):
            members.start(number)
        try:
            until(lambda: bool(_committed(stored.bootstrap)))
            storm.inject_faults(seconds)
            writer.end()
            until(lambda: _committed(stored.bootstrap) == _ends(stored.bootstrap))
        except TimeoutError:
            print(*storm.done, sep="\n", flush=True)
            raise
        finally:
            writer.stop.set()
            for number in members.running:
                members.end(number, signal.SIGTERM)
        meta = {"faults": storm.done, "topics": {TOPIC: {"partitions": PARTITIONS}}}
        (run / "meta.json").write_bytes(orjson.dumps(meta))
        record_scan.main([str(run), "--bootstrap", stored.bootstrap], standalone_mode=False)
    verdicts = traces.check(traces.load(run))
    processed = Counter(_processed(run))
    lost = writer.acknowledged - processed.keys()
    repeated = {where for where, count in processed.items() if count > 1}
    return {
        "protocol": protocol,
        "order": ORDERS[when],
        "faults": dict(Counter(_kind(one["what"]) for one in storm.done)),
        "processes": members.started,
        "acknowledged": len(writer.acknowledged),
        "processed": sum(processed.values()),
        "not processed": len(lost),
        "repeated": len(repeated),
        "verdict": verdicts.verdict,
        "checks": {name: verdicts[name].verdict for name in CHECKS},
        "broken": verdicts.verdict == "violated" or bool(lost if when == "after" else repeated),
    }


def _kind(what: str) -> str:
    return " ".join(word for word in what.split() if not word.rstrip(",").isdigit())


def _processed(run: Path) -> Iterator[tuple[int, int]]:
    """Partition and offset of what members say they have processed, in their own files."""
    for file in sorted(run.glob("*.ndjson")):
        polls: dict[int, list[dict[str, Any]]] = {}
        with file.open("rb") as lines:
            for line in lines:
                call = orjson.loads(line)
                if call.get("op") == "poll":
                    polls[call["seq"]] = call["records"]
                elif call.get("op") == "process":
                    of = call.get("records_of")
                    for one in polls[of] if of is not None else call["records"]:
                        yield one["partition"], one["offset"]


def _asking(bootstrap: str) -> Any:
    """A consumer of the group that is no member of it, until the end of a `with`."""
    return closing(Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}))


def _partitions() -> list[TopicPartition]:
    return [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]


def _committed(bootstrap: str) -> dict[int, int]:
    """The offsets that the group has committed, by partition."""
    with _asking(bootstrap) as asking:
        found = asking.committed(_partitions(), timeout=10)
        return {one.partition: one.offset for one in found if one.offset >= 0}


def _ends(bootstrap: str) -> dict[int, int]:
    """The log end offsets by partition, of those that are not empty."""
    with _asking(bootstrap) as asking:
        ends = {
            one.partition: asking.get_watermark_offsets(one, timeout=10)[1] for one in _partitions()
        }
        return {number: end for number, end in ends.items() if end}


def main() -> int:
    """Both orders of processing and committing, one after the other."""
    parser = argparse.ArgumentParser(prog="make test-storm", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long each storm lasts")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--when", choices=tuple(ORDERS), action="append")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    broken = False
    for when in given.when or ORDERS:
        folder = FOLDER / f"{given.protocol}-{when}-seed-{given.seed}-{os.getpid()}"
        result = play(given.protocol, when, given.seconds, given.seed, folder.absolute())
        (folder / "verdict.json").write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
        print(orjson.dumps(result, option=orjson.OPT_INDENT_2).decode(), flush=True)
        broken |= result["broken"]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
