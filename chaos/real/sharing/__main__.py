"""Share groups beside broker processes that are killed: `make test-sharing`.

Each round is a cluster of three brokers on real ZooKeeper. Members of one group are Java's
KafkaShareConsumer and confluent-kafka's ShareConsumer, with implicit and explicit acknowledgement.
While a producer writes, the brokers that lead the topic, the state of the share group and its
coordinator are killed and started again. At the end the members read what is there and leave. The
group is empty then, so a last member has to load what was stored. `highwater check` judges all that
the clients were told. Exit 1 where a promise is broken.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import orjson
from attrs import define, field

import traces
from chaos.real.kafka.judge import jars
from chaos.real.sharing.members import MembersProcess, members
from chaos.real.stored.brokers import BrokerProcess, Stored, until
from chaos.real.stored.zookeeper import zookeeper
from traces.record import recorded
from traces.record.cli import record_scan

FOLDER = Path("build/sharing")
TOPIC, GROUP, BROKERS = "queue", "workers", (1, 2, 3)
STATE, OFFSETS = "__share_group_state", "__consumer_offsets"
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 3,
    "share.coordinator.state.topic.min.isr": 2,
    "offsets.topic.replication.factor": 3,
}
LOCK_MS, LIMIT, STUCK_MS = 15_000, 5, 20_000
SESSION_S, PAUSE_S, AT_ONCE = 3, 0.02, 20
#: Of what a member is given it releases so much.
RELEASED = 0.1
#: A member is done when it was given nothing for so long: a lock, and the time to be given more.
QUIET_S = LOCK_MS / 1000 + 5
PATIENCE_S = 120.0
CHECKS = ("S1", "S2", "S3", "S4", "S5", "S6", "L1", "L3", "L4", "P1")


@define(eq=False)
class Member:
    """A member with a thread of its own, which takes records and acknowledges them."""

    name: str
    rng: Random
    leaving: Event = field(factory=Event)
    given: int = 0
    quiet_since: float = field(factory=time.monotonic)
    failed: str = ""
    _thread: Any = None

    def start(self) -> None:
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.join()
            while not self.leaving.is_set():
                if many := self.take():
                    self.given += many
                    self.quiet_since = time.monotonic()
            self.leave()
        except Exception as failure:  # it is told with the round
            self.failed = f"{self.name}: {failure!r}"

    def end(self) -> None:
        """Leave the group, and wait until it has."""
        self.leaving.set()
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive():
            self.failed = self.failed or f"{self.name} does not leave"

    def join(self) -> None:
        """Subscribe."""
        raise NotImplementedError

    def take(self) -> int:
        """Poll for a moment, and acknowledge what comes; how many records."""
        raise NotImplementedError

    def leave(self) -> None:
        """Close."""
        raise NotImplementedError


@define(eq=False)
class JavaMember(Member):
    """Java's KafkaShareConsumer with explicit acknowledgement."""

    jvm: MembersProcess = field(kw_only=True)

    def join(self) -> None:
        self.jvm.ask(self.name, f"join {GROUP} {AT_ONCE}")

    def take(self) -> int:
        told = self.jvm.ask(self.name, "take 1 500")
        if told:
            ack = "RELEASE" if self.rng.random() < RELEASED else "ACCEPT"
            self.jvm.ask(self.name, f"finish {ack}")
        return len(told.split(",")) if told else 0

    def leave(self) -> None:
        self.jvm.ask(self.name, "close")


@define(eq=False)
class PythonMember(Member):
    """confluent-kafka's ShareConsumer, with implicit or explicit acknowledgement."""

    bootstrap: str = field(kw_only=True)
    run: Path = field(kw_only=True)
    explicit: bool = field(kw_only=True)
    _consumer: Any = None

    def join(self) -> None:
        library: Any = import_module("confluent_kafka")
        conf = {
            "bootstrap.servers": self.bootstrap,
            "group.id": GROUP,
            "share.acknowledgement.mode": "explicit" if self.explicit else "implicit",
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
        self._consumer = recorded(library.ShareConsumer, self.run, conf, name=self.name)
        self._consumer.subscribe([TOPIC])

    def take(self) -> int:
        library: Any = import_module("confluent_kafka")
        good = [one for one in self._consumer.poll(0.5) if one.error() is None]
        if good and self.explicit:
            kinds = library.AcknowledgeType
            for one in good:
                release = self.rng.random() < RELEASED
                self._consumer.acknowledge(one, kinds.RELEASE if release else kinds.ACCEPT)
            with suppress(library.KafkaException):
                self._consumer.commit_sync(20)
        return len(good)

    def leave(self) -> None:
        self._consumer.close()


@define(eq=False)
class ShareRound:
    """One cluster, its clients, and what is done to it."""

    stored: Stored
    producer: Any
    members: list[Member]
    rng: Random
    done: Counter[str] = field(factory=Counter[str])
    faults: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    sent: int = 0

    def write(self, seconds: float) -> None:
        """The producer goes on for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.sent += 1
            with suppress(BufferError):
                self.producer.produce(TOPIC, b"%d" % self.sent, partition=0)
            self.producer.poll(0)
            time.sleep(PAUSE_S)

    def leader(self, topic: str) -> int:
        """By ZooKeeper; any broker while there is none."""
        leader = self.stored.state(topic)["leader"]
        return leader if leader in BROKERS else self.rng.choice(BROKERS)

    def kill(self, broker: int, why: str) -> None:
        self.done[why] += 1
        self.done["kill -9"] += 1
        what = f"kill -9 broker {broker}, {why}"
        self.faults.append({"at_ns": time.monotonic_ns(), "what": what})
        self.stored.brokers[broker].kill()

    def heal(self) -> None:
        """Everybody is back and in sync."""
        for one in self.stored.brokers.values():
            if one.process.poll() is not None:
                one.kill()
                one.start()
                one.wait_until_ready()
        for fault in self.faults:
            fault.setdefault("until_ns", time.monotonic_ns())
        until(self._is_whole)

    def _is_whole(self) -> bool:
        there = (TOPIC, STATE, OFFSETS)
        return all(sorted(self.stored.state(one)["isr"]) == [*BROKERS] for one in there)

    def failures(self) -> list[str]:
        """Members that could not go on."""
        return [one.failed for one in self.members if one.failed]

    def rest(self) -> None:
        """No member is given anything any more."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends and not self.failures():
            now = time.monotonic()
            if all(now - one.quiet_since > QUIET_S for one in self.members):
                return
            time.sleep(0.2)


def kill_leader(run: ShareRound) -> None:
    run.kill(run.leader(TOPIC), "which leads the topic")
    run.write(SESSION_S + 1)


def kill_state(run: ShareRound) -> None:
    run.kill(run.leader(STATE), "which leads the state of share groups")
    run.write(SESSION_S + 1)


def kill_coordinator(run: ShareRound) -> None:
    run.kill(run.leader(OFFSETS), "which coordinates the group")
    run.write(SESSION_S + 1)


def kill_two(run: ShareRound) -> None:
    """One behind the other: for a while nobody can write."""
    first = run.leader(STATE)
    run.kill(first, "which leads the state of share groups")
    run.write(0.5)
    run.kill(run.rng.choice([one for one in BROKERS if one != first]), "the second")
    run.write(SESSION_S)


def kill_and_return(run: ShareRound) -> None:
    """Back before its session has ended."""
    broker = run.rng.choice(BROKERS)
    run.kill(broker, "which is back at once")
    run.stored.brokers[broker].start()
    run.stored.brokers[broker].wait_until_ready()
    run.write(1)


KINDS: tuple[Callable[[ShareRound], None], ...] = (
    *(kill_leader, kill_state, kill_state, kill_coordinator, kill_two, kill_and_return),
)


@contextmanager
def cluster(folder: Path) -> Generator[Stored]:
    """Three brokers on ZooKeeper."""
    kazoo: Any = import_module("kazoo.client")
    with zookeeper(folder) as [server]:
        client = kazoo.KazooClient(server.address)
        client.start()
        brokers = {id: BrokerProcess(id, server, folder, settings=SETTINGS) for id in BROKERS}
        try:
            for one in brokers.values():
                one.start()
            for one in brokers.values():
                one.wait_until_ready()
            yield Stored(brokers, client)
        finally:
            for one in brokers.values():
                one.kill()
            client.stop()
            client.close()


def configure(bootstrap: str) -> None:
    """The group reads from the start, and locks records for the shortest time."""
    library: Any = import_module("confluent_kafka.admin")
    settings = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
    }
    how = library.AlterConfigOpType.SET
    entries = [library.ConfigEntry(*one, incremental_operation=how) for one in settings.items()]
    group = library.ConfigResource(library.ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin = library.AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.incremental_alter_configs([group])[group].result(30)


def play(number: int, seed: int, kills: int, folder: Path) -> dict[str, Any]:
    """One round; what is kept of it."""
    rng, run_folder = Random(f"{seed}/{number}"), folder / "run"
    run_folder.mkdir(parents=True)
    library: Any = import_module("confluent_kafka")
    with cluster(folder) as stored:
        stored.create(TOPIC)
        configure(stored.bootstrap)
        conf = {"bootstrap.servers": stored.bootstrap, "log_level": 0, "acks": "all"}
        conf |= {"enable.idempotence": True, "linger.ms": 0, "delivery.timeout.ms": 120_000}
        producer: Any = recorded(library.Producer, run_folder, conf, name="producer")
        with members(folder, f"{jars()}/*", stored.bootstrap, run_folder, TOPIC) as jvm:
            here: dict[str, Any] = {"bootstrap": stored.bootstrap, "run": run_folder}

            def seeded(name: str) -> tuple[str, Random]:
                return name, Random(f"{name} {seed}/{number}")

            several: list[Member] = [
                JavaMember(*seeded("java-0"), jvm=jvm),
                JavaMember(*seeded("java-1"), jvm=jvm),
                PythonMember(*seeded("implicit"), explicit=False, **here),
                PythonMember(*seeded("explicit"), explicit=True, **here),
            ]
            for one in several:
                one.start()
            run = ShareRound(stored, producer, several, rng)
            until(lambda: bool(stored.state(STATE) and stored.state(OFFSETS)))
            run.heal()
            run.write(2)
            while run.done["kill -9"] < kills and not run.failures():
                rng.choice(KINDS)(run)
                run.heal()
                run.write(2)
            left = producer.flush(120)
            jvm.tell("watcher", f"watch {GROUP} read_uncommitted")
            run.rest()
            for one in several:
                one.end()
            # It has to load what was stored, for the group was empty
            last = JavaMember(*seeded("last"), jvm=jvm)
            last.start()
            run.members.append(last)
            last_run = ShareRound(stored, producer, [last], rng)
            last_run.rest()
            last.end()
            jvm.tell("watcher", "stop")
            jvm.hear("watcher")
            jvm.hear("watcher")
            jvm.ask("watcher", "close")
        producer.close()
        limits = {"lock_ms": LOCK_MS, "delivery_limit": LIMIT, "stuck_ms": STUCK_MS}
        meta = {
            "faults": run.faults,
            "share_groups": {GROUP: limits | {"isolation": "read_uncommitted"}},
            "consumers": {one: {"group": GROUP} for one in ("java-0", "java-1", "last")},
        }
        (run_folder / "meta.json").write_bytes(orjson.dumps(meta))
        record_scan.main([str(run_folder), "--bootstrap", stored.bootstrap], standalone_mode=False)
    verdicts = traces.check(traces.load(run_folder))
    return {
        "verdict": verdicts.verdict,
        "checks": {name: verdicts[name].verdict for name in CHECKS},
        "faults": dict(run.done),
        "sent": run.sent,
        "not sent": left,
        "given": {one.name: one.given for one in run.members},
        "failed": run.failures(),
    }


def main() -> int:
    """Round after round, until so many kills."""
    parser = argparse.ArgumentParser(prog="make test-sharing", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=10, help="kills of a round")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    total, number, broken = Counter[str](), 0, 0
    while total["kill -9"] < given.kills:
        folder = (FOLDER / f"seed-{given.seed}-round-{number}").absolute()
        kept = folder / "verdict.json"
        if not kept.exists():
            for old in sorted(folder.rglob("*"), reverse=True):
                old.rmdir() if old.is_dir() else old.unlink()
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(orjson.dumps(play(number, given.seed, given.each, folder)))
        result = orjson.loads(kept.read_bytes())
        total.update(result["faults"])
        broken += result["verdict"] == "violated" or bool(result["failed"])
        print(f"round {number}: {result}", flush=True)
        number += 1
    kinds = ", ".join(f"{what} {count}" for what, count in sorted(total.items()))
    print(f"{number} rounds, seed {given.seed}: {kinds}; {broken} rounds broke a promise")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
