"""Broker processes on real ZooKeeper, broken while real clients write: `make test-faults`.

Each round is a cluster of its own with ten faults; its history and its verdict are kept in
`build/faults`, and the next start goes on behind the last round that was judged. Every fourth round
writes with acks=1 and lets anybody lead: there a loss has to be allowed, elsewhere nothing may be
lost. Exit 1 where a promise is broken.

Transactional producers of three libraries write to another topic in each round. In the safe ones
two applications read the first topic, and write there within transactions. These clients are
processes, which are killed, stopped and taken over as well. TLC judges both topics, and the log of
the transactions' coordinator.
"""

import argparse
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import orjson
from attrs import define, field
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient  # pyright: ignore[reportMissingTypeStubs]

import traces
from chaos.real.stored.brokers import BrokerProcess, Stored, until
from chaos.real.stored.observed_pipe import StepsFile
from chaos.real.stored.observed_traces import Merge
from chaos.real.stored.proxy import ZooKeeperProxy
from chaos.real.stored.zookeeper import zookeeper
from chaos.real.transacting.clients import GROUP, PARTITIONS, SINK, Clients, places
from chaos.real.transacting.outputs import of_applications
from chaos.recording import REPLICATION
from traces.record import recorded
from traces.record.cli import record_scan

FOLDER = Path("build/faults")
STATE = "__transaction_state"
SETTINGS = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}
CHECKS = ("L1", "L3", "L4", "P1", "P7", "G6", *(f"T{number}" for number in range(1, 12)))
TOPIC, BROKERS, FAULTS = "orders", (1, 2, 3), 10
OBSERVED = ",".join((TOPIC, SINK, STATE))
SESSION_S = 3
PAUSE_S = 0.03
"""Between two records: TLC follows each of them."""


@define(eq=False)
class Round:
    """One cluster, its clients, and what is done to it."""

    stored: Stored
    proxies: dict[int, ZooKeeperProxy]
    writer: Any
    reader: Any
    rng: Random
    clients: Clients
    done: Counter[str] = field(factory=Counter[str])
    faults: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    sent: int = 0
    acknowledged: int = 0

    def write(self, seconds: float) -> None:
        """Clients go on for so long."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.sent += 1
            value, where = b"%d" % self.sent, self.sent % PARTITIONS
            with suppress(BufferError):
                self.writer.produce(TOPIC, value, partition=where, on_delivery=self._delivered)
            self.writer.poll(0)
            self.reader.consume(100, PAUSE_S)
        self.clients.look()

    def _delivered(self, error: Any, message: Any) -> None:
        self.acknowledged += error is None

    def leader(self, topic: str = TOPIC) -> int:
        """The first partition's leader by ZooKeeper; any broker while there is none."""
        leader = self.stored.state(topic)["leader"]
        return leader if leader in BROKERS else self.rng.choice(BROKERS)

    def happens(self, what: str, broker: int) -> None:
        self.done[what] += 1
        self.faults.append({"at_ns": time.monotonic_ns(), "what": f"{what} broker {broker}"})

    def kill(self, broker: int) -> None:
        """SIGKILL."""
        self.happens("kill -9", broker)
        self.stored.brokers[broker].kill()

    def client_fault(self) -> None:
        """Something happens to a transactional client as well."""
        self.faults.append({"at_ns": time.monotonic_ns(), "what": self.clients.happens()})

    def heal(self) -> None:
        """Everybody is back and in sync, and each transactional client gets on."""
        for proxy in self.proxies.values():
            proxy.cut = False
        for one in self.stored.brokers.values():
            if one.process.poll() is not None:
                one.kill()
                one.start()
                one.wait_until_ready()
        for fault in self.faults:
            fault.setdefault("until_ns", time.monotonic_ns())
        until(self._is_whole)
        self.clients.move(lambda: self.write(0.3))

    def _is_whole(self) -> bool:
        """All three replicas of every partition are in sync."""
        there = [(topic, number) for topic in (TOPIC, SINK) for number in range(PARTITIONS)]
        there.append((STATE, 0))
        return all(sorted(self.stored.state(*one)["isr"]) == [1, 2, 3] for one in there)


def kill_leader(run: Round) -> None:
    run.kill(run.leader())
    run.write(SESSION_S + 1)


def kill_controller(run: Round) -> None:
    run.kill(run.stored.controller())
    run.write(SESSION_S + 1)


def kill_coordinator(run: Round) -> None:
    """The leader of the transactions' log."""
    run.kill(run.leader(STATE))
    run.write(SESSION_S + 1)


def kill_two(run: Round) -> None:
    leader = run.leader()
    run.kill(run.rng.choice([one for one in BROKERS if one != leader]))
    run.write(0.5)
    run.kill(leader)
    run.write(SESSION_S)


def kill_and_return(run: Round) -> None:
    """Back before its session has ended."""
    broker = run.rng.choice(BROKERS)
    run.kill(broker)
    run.stored.brokers[broker].start()
    run.stored.brokers[broker].wait_until_ready()
    run.write(1)


def sleep_leader(run: Round) -> None:
    """SIGSTOP for longer than its session, then SIGCONT: it does not know that it is deposed."""
    leader = run.leader()
    run.happens("SIGSTOP", leader)
    run.stored.brokers[leader].signal(signal.SIGSTOP)
    try:
        run.write(SESSION_S + 2)
    finally:
        run.stored.brokers[leader].signal(signal.SIGCONT)
    run.write(1)


def doze(run: Round) -> None:
    """SIGSTOP for a moment."""
    broker = run.rng.choice(BROKERS)
    run.happens("SIGSTOP", broker)
    run.stored.brokers[broker].signal(signal.SIGSTOP)
    try:
        run.write(1)
    finally:
        run.stored.brokers[broker].signal(signal.SIGCONT)


def cut_from_zookeeper(run: Round) -> None:
    """The leader's session ends while its clients and followers still reach it."""
    leader = run.leader()
    run.happens("cut from ZooKeeper", leader)
    run.proxies[leader].sever()
    run.write(SESSION_S + 2)


def full_disk(run: Round) -> None:
    """No file of the leader may grow any more: writes fail in the middle of a batch."""
    leader = run.leader()
    run.happens("full disk", leader)
    size = max(path.stat().st_size for path in _logs(run.stored.brokers[leader])) + 100
    pid = run.stored.brokers[leader].process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    run.write(SESSION_S + 1)
    run.kill(leader)  # if it has not ended by itself


def _logs(broker: BrokerProcess) -> list[Path]:
    return list((broker.folder / f"broker-{broker.id}" / f"{TOPIC}-0").glob("*.log"))


KINDS: tuple[Callable[[Round], None], ...] = (
    *(kill_leader, kill_leader, kill_coordinator, kill_coordinator, kill_controller),
    *(kill_two, kill_and_return),
    *(sleep_leader, doze, cut_from_zookeeper, full_disk),
)


@contextmanager
def cluster(
    folder: Path, settings: Mapping[str, Any] | None = None
) -> Generator[tuple[Stored, dict[int, ZooKeeperProxy]]]:
    """Three brokers, each with a proxy of its own before ZooKeeper."""
    with zookeeper(folder) as [server]:
        client: Any = KazooClient(server.address)
        client.start()
        proxies = {id: ZooKeeperProxy(server.port) for id in BROKERS}
        steps = {id: StepsFile(folder / f"pipe-{id}", folder / f"steps-{id}") for id in BROKERS}
        brokers: dict[int, BrokerProcess] = {}
        for id in BROKERS:
            program = ("chaos.real.stored.observed_broker", OBSERVED, str(steps[id].pipe))
            brokers[id] = BrokerProcess(
                id, proxies[id], folder, program=program, settings=settings or {}
            )
        stored = Stored(brokers, client)
        try:
            for id, one in stored.brokers.items():
                steps[id].start()
                proxies[id].start()
                one.start()
            for one in stored.brokers.values():
                one.wait_until_ready()
            yield stored, proxies
        finally:
            for one in stored.brokers.values():
                one.kill()
            for one in steps.values():
                one.stop()
            for proxy in proxies.values():
                proxy.close()
            client.stop()
            client.close()


def play(number: int, seed: int, folder: Path) -> dict[str, Any]:
    """One round; what is kept of it."""
    safe, rng = number % 4 != 3, Random(f"{seed}/{number}")
    in_flight = 5 if number % 2 else 1
    run_folder = folder / "run"
    with cluster(folder, SETTINGS) as (stored, proxies):
        settings = {} if safe else {"min.insync.replicas": "1"}
        settings["unclean.leader.election.enable"] = str(not safe).lower()
        admin: Any = AdminClient({"bootstrap.servers": stored.bootstrap, "log_level": 0})
        replicas = [list(BROKERS)] * PARTITIONS
        new = [
            NewTopic(TOPIC, PARTITIONS, replica_assignment=replicas, config=settings),
            NewTopic(SINK, PARTITIONS, replica_assignment=replicas),
            # Made here, because broker 1 leads a partition first in the spec Replication
            NewTopic(
                STATE, 1, replica_assignment=replicas[:1], config={"cleanup.policy": "compact"}
            ),
        ]
        for made in admin.create_topics(new).values():
            made.result(30)
        clients = Clients(stored.bootstrap, run_folder, Random(f"clients {seed}/{number}"))
        of_round = _clients(stored.bootstrap, run_folder, safe=safe, in_flight=in_flight)
        run = Round(stored, proxies, *of_round, rng, clients)
        for place in places(TOPIC if safe else ""):
            clients.start(place)
        longest = (0.0, "")
        try:
            run.heal()
            for _ in range(FAULTS):
                kind = rng.choice(KINDS)
                run.client_fault()
                kind(run)
                began = time.monotonic()
                try:
                    run.heal()
                    longest = max(longest, (time.monotonic() - began, kind.__name__))
                except Exception:
                    print(f"round {number}, after {kind.__name__}: {run.faults}", flush=True)
                    raise
            clients.stop()
        finally:
            clients.kill()
        processed, not_once = 0, list[str]()
        if safe:
            processed, not_once = of_applications(stored.bootstrap, GROUP, TOPIC, SINK, PARTITIONS)
        run.writer.flush(60)
        run.writer.close()
        run.reader.close()
        (run_folder / "meta.json").write_bytes(orjson.dumps({"faults": run.faults}))
        arguments = [str(run_folder), "--bootstrap", stored.bootstrap]
        record_scan.main(arguments, standalone_mode=False)
    refused, merged = validated(folder)
    verdicts = traces.check(traces.load(run_folder))
    found = {name: verdicts[name].verdict for name in CHECKS}
    return {
        "safe": safe,
        "verdict": verdicts.verdict,
        "checks": found,
        "faults": dict(run.done),
        "transactions": dict(clients.done),
        "stuck": clients.stuck,
        "processed": processed,
        "not once": not_once[:10],
        "sent": run.sent,
        "acknowledged": run.acknowledged,
        "steps": sum(len(one.trace.steps) for one in merged.partitions.values()),
        "inferred": merged.inferred,
        "registered again": merged.registered_again,
        "refused": refused,
        "longest until whole": [round(longest[0], 1), longest[1]],
    }


def validated(folder: Path) -> tuple[list[str], Merge]:
    """The reasons for which TLC rejects the steps of all processes, and these steps."""
    merged = Merge.of(sorted(folder.glob("steps-*")))
    path = folder / "orders.events.ndjson"
    path.write_bytes(b"".join(merged.events(folder.name, REPLICATION)))
    return refusals(path), merged


def refusals(events: Path) -> list[str]:
    """Reasons for which `highwater validate` rejects traces of a file."""
    found = events.with_suffix(".json")
    command = [sys.executable, "-m", "highwater", "validate", events, "--json", found]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"highwater validate failed: {ran.stderr}")
    verdicts = orjson.loads(found.read_bytes())
    assert verdicts
    return [one["why"] for one in verdicts if not one["accepted"]]


def _clients(bootstrap: str, folder: Path, *, safe: bool, in_flight: int) -> tuple[Any, Any]:
    """A writer and a reader. With one request in flight librdkafka infers no acknowledgement from a
    later one, so it tells the offset of every record."""
    folder.mkdir(parents=True)
    common = {"bootstrap.servers": bootstrap, "log_level": 0, "retry.backoff.ms": 20}
    common |= {"topic.metadata.refresh.interval.ms": 200, "socket.timeout.ms": 3000}
    common |= {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    produce = {"acks": "all" if safe else "1", "enable.idempotence": safe, "linger.ms": 0}
    produce |= {"max.in.flight.requests.per.connection": in_flight}
    produce |= {"request.timeout.ms": 2500, "delivery.timeout.ms": 60_000}
    consume = {"group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    writer = recorded(Producer, folder, {**common, **produce})
    reader: Any = recorded(Consumer, folder, {**common, **consume})
    reader.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    return writer, reader


def _loses(checks: dict[str, str]) -> bool:
    """True if a loss was seen that a safe topic does not allow. librdkafka does not give the offset
    of each record whose acknowledgement it had to infer; then a check may have to pass."""
    return "allowed" in checks.values()


def main() -> int:
    """Round after round, until so many kills."""
    parser = argparse.ArgumentParser(prog="make test-faults", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    total, transactions, number, broken = Counter[str](), Counter[str](), 0, 0
    while total["kill -9"] < given.kills:
        folder = (FOLDER / f"seed-{given.seed}-round-{number}").absolute()
        kept = folder / "verdict.json"
        if not kept.exists():
            for old in sorted(folder.rglob("*"), reverse=True):
                old.rmdir() if old.is_dir() else old.unlink()
            folder.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(orjson.dumps(play(number, given.seed, folder)))
        result = orjson.loads(kept.read_bytes())
        total.update(result["faults"])
        transactions.update(result["transactions"], processed=result["processed"])
        lost = result["verdict"] == "violated" or (result["safe"] and _loses(result["checks"]))
        broken += lost or any(result[one] for one in ("refused", "stuck", "not once"))
        print(f"round {number}: {result}", flush=True)
        number += 1
    kinds = ", ".join(f"{what} {count}" for what, count in sorted(total.items()))
    ends = ", ".join(f"{what} {count:,}" for what, count in sorted(transactions.items()))
    print(f"{number} rounds, seed {given.seed}: {kinds}; {broken} rounds broke a promise")
    print(f"transactions: {ends}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
