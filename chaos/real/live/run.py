"""One run: three brokers in this process, real clients by TCP, and one fault after the other."""

import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import orjson
from attrs import define, field, frozen

from chaos.real.live.members import GROUP, HEARTBEAT_MS, SESSION_MS, Members
from chaos.real.live.recorder import LiveRecorder
from chaos.real.transacting.clients import GROUP as APPLICATIONS
from chaos.real.transacting.clients import SINK, Clients, places
from chaos.real.transacting.outputs import of_applications
from chaos.recorders.groups import group_recorder
from chaos.recording import REPLICATION
from refimpl.edge import BlockingCluster
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import PREFERRED, ElectLeadersRequest
from traces.record import recorded

BROKERS = (1, 2, 3)
TOPIC, PARTITIONS = "orders", 2
MEMBERS = 2
RECORDS = 4
LAG_MS = 31_000
"""More than replica.lag.time.max.ms, for clocks that are advanced."""
AGAIN_SECONDS = 2
"""After which members that have read everything commit again; more than a commit takes."""
TRANSACTION_MS = 600_000
"""Longer than all that clocks are advanced in a run, so that clients are fenced by others alone."""
SETTINGS = {
    "replica.socket.timeout.ms": "500",  # for answers that were lost on a link that is cut
    "replica.fetch.wait.max.ms": "200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
}


@frozen
class RunPlan:
    """The plan of a run.

    A `safe` run writes with acks=all and min.insync.replicas=2; another one writes with acks=1, and
    any remaining replica may lead.
    """

    seed: int
    safe: bool = True
    faults: int = 6
    #: True if the producer of a safe run has sequence numbers
    idempotence: bool = True
    #: The client's time-out; after it, the offset of a sent record may stay unknown
    timeout_ms: int = 1500
    #: True if transactional clients, processes of their own, write and read as well
    transactions: bool = False

    @property
    def protocol(self) -> str:
        """Of the group that reads: classic, or KIP-848's."""
        return "classic" if self.seed % 2 else "consumer"

    @property
    def name(self) -> str:
        """By which files and folders are called."""
        return f"live-{self.seed}-{'safe' if self.safe else 'unsafe'}"


@frozen
class RunResult:
    """The results of a run."""

    plan: RunPlan
    acknowledged: int
    failed: int
    faults: Counter[str]
    steps: int
    #: Those of the group's coordinators
    group_steps: int
    #: Why the group is not recorded to the end, if it is not
    group_ended: str
    #: What became of transactional clients and their transactions
    transactions: Counter[str] = field(factory=Counter[str])
    #: What applications have not processed exactly once
    not_once: list[str] = field(factory=list[str])


@define(eq=False)
class Running:
    """A cluster, its clients, and the faults so far."""

    plan: RunPlan
    cluster: Any
    writer: Any
    reader: Any
    members: Members
    rng: Random
    clients: Clients
    faults: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    counts: Counter[str] = field(factory=Counter[str])
    #: The number of records by partition
    acknowledged: Counter[int] = field(factory=Counter[int])
    failed: int = 0
    sent: int = 0

    def write(self, count: int) -> None:
        """Write 4 records so many times, and read a little; do not wait for acknowledgements."""
        for _ in range(RECORDS * count):
            self.sent += 1
            partition = self.rng.randrange(PARTITIONS)
            self.writer.produce(
                TOPIC, b"%d" % self.sent, partition=partition, on_delivery=self._delivered
            )
            self.writer.poll(0.001)
        self.read()

    def settle(self) -> None:
        """After all faults: every record is acknowledged, all replicas are in sync, all is
        committed."""
        self.cluster.heal()
        for broker in BROKERS:
            if not self.cluster.hosts[broker].up:
                self.cluster.restart(broker)
        for fault in self.faults:
            fault.setdefault("until_ns", time.monotonic_ns())
        self.cluster.until(self._is_whole, timeout_ms=180_000)
        self.clients.move(lambda: self.write(1))
        self.writer.flush(180)
        self.read()
        self._drain()

    def write_alone(self, count: int) -> None:
        """Write to a leader without followers until it acknowledged something, if it ever does."""
        before, until = self.acknowledged[0], time.monotonic() + self.plan.timeout_ms / 1000
        self.write(count)
        while self.acknowledged[0] == before and time.monotonic() < until:
            self.writer.poll(0.01)

    def read(self) -> None:
        """Read the records that are there for the consumer."""
        self.reader.consume(500, 0.01)
        self.members.work()

    def leader(self) -> int:
        """Of the first partition; any broker while there is none."""
        return self.cluster.leader(TOPIC, 0) or self.rng.choice(BROKERS)

    def follower(self) -> int:
        """Any other one."""
        leader = self.leader()
        return self.rng.choice([one for one in BROKERS if one != leader])

    def happens(self, what: str, broker: int) -> None:
        """Note a fault."""
        self.counts[what] += 1
        self.faults.append({"at_ns": time.monotonic_ns(), "what": f"{what} broker {broker}"})

    def _is_whole(self) -> bool:
        return all(len(self.cluster.isr(TOPIC, one)) == 3 for one in range(PARTITIONS))

    def _drain(self) -> None:
        """Let the group come to the end, however often it has to begin or to commit anew."""
        until, again = time.monotonic() + 180, time.monotonic() + AGAIN_SECONDS
        while not self.members.have_committed(self._ends()):
            self.members.work()
            if time.monotonic() > again:
                self.members.commit_again()
                again += AGAIN_SECONDS
            if time.monotonic() > until:
                read = self.members.have_read()
                raise TimeoutError(
                    f"the group {GROUP} has not committed {self._ends()} in 180 s; it read {read}"
                )

    def _ends(self) -> list[int]:
        numbers = range(PARTITIONS)
        leaders = [self.cluster.leader(TOPIC, one) for one in numbers]
        of = self.cluster.high_watermark
        return [of(TOPIC, one, leader) for one, leader in zip(numbers, leaders, strict=True)]

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged[message.partition()] += 1
        else:
            self.failed += 1


# Faults: each leaves the cluster as it is then, for `settle`


def kill(run: Running, broker: int) -> None:
    """SIGKILL, and the controller notices."""
    run.happens("kill", broker)
    run.cluster.kill(broker)
    run.cluster.expire_session(broker)


def kill_leader(run: Running) -> None:
    """The leader is killed, and another one is elected."""
    kill(run, run.leader())
    run.write(15)


def kill_follower(run: Running) -> None:
    """A follower is killed."""
    kill(run, run.follower())
    run.write(15)


def kill_two(run: Running) -> None:
    """Leader and follower are killed; with min.insync.replicas=2 nothing is written meanwhile."""
    kill(run, run.follower())
    run.write(5)
    kill(run, run.leader())
    run.write(5)


def kill_all(run: Running) -> None:
    """One after the other is killed: the last one goes offline in the ISR."""
    for broker in run.rng.sample(BROKERS, 3):
        kill(run, broker)
    run.write(5)


def pause_leader(run: Running) -> None:
    """SIGSTOP: the leader does not know that it is replaced, and finds out later."""
    leader = run.leader()
    run.happens("pause", leader)
    run.cluster.pause(leader)
    run.cluster.expire_session(leader)
    run.write(15)


def cut_follower(run: Running) -> None:
    """A follower is cut off until it is out of the ISR."""
    follower, leader = run.follower(), run.leader()
    run.happens("cut", follower)
    run.cluster.cut(follower, "brokers")
    run.write(10)
    run.cluster.advance(LAG_MS, broker=leader)
    run.write(10)


def cut_leader(run: Running) -> None:
    """Cut the leader off from everything but its clients; another one is elected."""
    leader = run.leader()
    run.happens("cut", leader)
    run.cluster.cut(leader, "all")
    run.write(5)
    run.cluster.expire_session(leader)
    run.write(10)


def without_followers(run: Running) -> int:
    """The leader, cut off from all other brokers."""
    leader = run.leader()
    run.happens("cut", leader)
    run.cluster.cut(leader, "brokers")
    return leader


def cut_then_kill(run: Running) -> None:
    """Followers are cut off, the leader writes alone and is killed: what acks=1 may lose."""
    leader = without_followers(run)
    run.write_alone(10)
    kill(run, leader)
    run.cluster.heal()
    run.write(10)


def alone_then_kill(run: Running) -> None:
    """The same, once followers are out of the ISR: only an unclean election goes on."""
    leader = without_followers(run)
    for _ in BROKERS:  # one leaves at a time
        run.cluster.advance(LAG_MS, broker=leader)
        run.write(5)
    run.write_alone(5)
    kill(run, leader)
    run.cluster.heal()
    run.write(5)


def slow_follower(run: Running) -> None:
    """Messages to and from a follower take 20 ms."""
    follower = run.follower()
    run.happens("slow", follower)
    run.cluster.slow(follower, 20)
    run.write(20)


def elect_preferred(run: Running) -> None:
    """The preferred replica leads again, by request; a reassignment is not in the spec."""
    preferred = BROKERS[0]
    if run.leader() == preferred:
        kill(run, preferred)
        run.write(5)
        run.settle()
    run.happens("elect", preferred)
    run.cluster.ask(ElectLeadersRequest(PREFERRED, [TopicPartition(TOPIC, 0)]))
    run.write(15)


def lose_acknowledgements(run: Running) -> None:
    """Records are written, and their acknowledgements are lost."""
    run.happens("lose acknowledgements of", 0)
    run.cluster.drop_response("Produce", count=2)
    run.write(15)


FAULTS: tuple[Callable[[Running], None], ...] = (
    *(kill_leader, kill_follower, kill_two, kill_all, pause_leader, cut_follower, cut_leader),
    *(cut_then_kill, alone_then_kill, slow_follower, elect_preferred, lose_acknowledgements),
)


def record(plan: RunPlan, runs: Path, events: Path) -> RunResult:
    """Do it; the clients' history goes to a folder of `runs`, the brokers' steps to a file of
    `events`. The order of faults is the seed's; what threads and sockets do is not."""
    rng, began = Random(plan.seed), time.monotonic_ns()
    recorder = LiveRecorder(TOPIC, lambda: (time.monotonic_ns() - began) // 1_000_000)
    folder = runs / plan.name
    folder.mkdir(parents=True, exist_ok=True)
    with BlockingCluster(
        brokers=3, seed=plan.seed, configs=SETTINGS, observe=recorder.observe
    ) as cluster:
        recorder.hosts = cluster.hosts
        assignments = {number: list(BROKERS) for number in range(PARTITIONS)}
        configs = {
            "min.insync.replicas": "2" if plan.safe else "1",
            "unclean.leader.election.enable": str(not plan.safe).lower(),
        }
        cluster.create_topic(TOPIC, assignments=assignments, configs=configs)
        cluster.create_topic(SINK, assignments=assignments)
        names = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        topic_id = cluster.controller.controller.metadata.topics[TOPIC].topic_id
        who = plan.protocol, GROUP
        group = group_recorder(*who, recorder.clock, recorder.offsets_of, names, topic_id)
        recorder.record_group(group)
        writer, reader, members = _clients(cluster.bootstrap, folder, plan)
        clients = Clients(cluster.bootstrap, folder, Random(plan.seed), TRANSACTION_MS)
        run = Running(plan, cluster, writer, reader, members, rng, clients)
        try:
            for place in places(TOPIC if plan.safe else "") if plan.transactions else ():
                clients.start(place)
            _under_faults(run)
            clients.stop()
        finally:
            clients.kill()
        for client in (writer, reader, members):
            client.close()
        not_once = list[str]()
        if plan.transactions and plan.safe:
            asked = cluster.bootstrap, APPLICATIONS, TOPIC, SINK, PARTITIONS
            _, not_once = of_applications(*asked)
        (folder / "meta.json").write_bytes(orjson.dumps({"faults": run.faults}))
        _scan(folder, cluster.bootstrap)
    lines = list(recorder.lines(plan.name, REPLICATION))
    events.mkdir(parents=True, exist_ok=True)
    (events / f"{plan.name}.events.ndjson").write_bytes(b"".join(lines))
    steps = len(lines) - PARTITIONS - 1
    of_group = len(group.steps), group.ended
    written = run.acknowledged.total(), run.failed
    of_clients = clients.done, not_once + [f"{name} is stuck" for name in clients.stuck]
    return RunResult(plan, *written, run.counts, steps, *of_group, *of_clients)


def _under_faults(run: Running) -> None:
    """Some faults, one after the other; after each all is well again."""
    for _ in range(MEMBERS):
        run.members.join()
    run.write(20)
    run.settle()
    chosen = run.rng.sample(FAULTS, min(run.plan.faults, len(FAULTS)))
    if not run.plan.safe:
        chosen[0] = cut_then_kill  # which always loses records
    for fault in chosen:
        if run.plan.transactions:
            run.faults.append({"at_ns": time.monotonic_ns(), "what": run.clients.happens()})
        fault(run)
        run.settle()
        run.members.replace_one(run.rng)
    run.settle()


def _clients(bootstrap: str, folder: Path, plan: RunPlan) -> tuple[Any, Any, Members]:
    """A recorded producer and consumer, and a group without members, all of librdkafka.

    They refresh their metadata often.
    """
    client: Any = import_module("confluent_kafka")
    common = {"bootstrap.servers": bootstrap, "log_level": 0, "retry.backoff.ms": 10}
    common |= {"topic.metadata.refresh.interval.ms": 50, "reconnect.backoff.ms": 10}
    common |= {"reconnect.backoff.max.ms": 50, "socket.timeout.ms": plan.timeout_ms + 500}
    produce: dict[str, Any] = {"acks": "all" if plan.safe else "1", "linger.ms": 0}
    produce["enable.idempotence"] = plan.safe and plan.idempotence
    delivery_ms = max(30_000, 2 * plan.timeout_ms)
    produce |= {"request.timeout.ms": plan.timeout_ms, "delivery.timeout.ms": delivery_ms}
    consume = {"group.id": "live", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    writer = recorded(client.Producer, folder, {**common, **produce})
    reader = recorded(client.Consumer, folder, {**common, **consume})
    reader.assign([client.TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    return writer, reader, Members(client, TOPIC, plan.protocol, common, folder)


def _scan(folder: Path, bootstrap: str) -> None:
    """End the recording by reading all that the logs hold."""
    record_scan: Any = import_module("traces.record.cli").record_scan
    arguments = [str(folder), "--bootstrap", bootstrap]
    record_scan.main(arguments, standalone_mode=False)
