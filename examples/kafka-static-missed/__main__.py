"""Let two members of one classic consumer group of real Kafka commit the same records, exactly once
each.

Starts a controller and three brokers. An application reads, writes and commits in transactions
(KIP-447), with the assignor cooperative-sticky; its first instance is a static member, whose
JoinGroup is slow: the group goes on without its word. All clients are recorded in RUN (trace format
v1). Exit code 1: both commits are taken, and a reader of committed records reads the output twice;
0: the late one is refused; 2: the scenario could not be played.
"""

import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.brokers import BROKERS, NotInTimeError, free_port, laid_out, playing, started, until
from examples.kafka_jars import class_path, jars_option
from examples.relay import Header, Relay, relay
from examples.scenario import refuse, scan
from traces.record import recorded
from traces.record.confluent_words import member

GROUP, INPUT, OUTPUT = "billing", "orders", "invoices"
PARTITIONS, RECORDS_EACH = 2, 3
FIRST, SECOND = "first", "second"
JOIN_GROUP = 11
#: Both the session and the time that a rebalance waits for members; the least that brokers allow.
SESSION_MS = 6_000
PATIENCE_S = 60
REVOKED = "the partition was revoked, and its orders let go"

#: Clients that begin at the second listener go through a relay.
LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{slow}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{reached_at}
"""


def joins(header: Header) -> bool:
    return header.api_key == JOIN_GROUP and header.client_id == FIRST


@define
class Instance:
    """One instance of the application: consumer, transactional producer, and what was polled."""

    name: str
    bootstrap: str
    run: Path
    instance_id: str | None
    consumer: Any = field(init=False)
    producer: Any = field(init=False)
    polled: dict[int, list[Any]] = field(factory=dict[int, list[Any]])

    def __attrs_post_init__(self) -> None:
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        reading: dict[str, Any] = {
            **{"group.id": GROUP, "client.id": self.name, "enable.auto.commit": False},
            **{"partition.assignment.strategy": "cooperative-sticky"},
            **{"session.timeout.ms": SESSION_MS, "max.poll.interval.ms": SESSION_MS},
            **{"heartbeat.interval.ms": 500, "auto.offset.reset": "earliest"},
        }
        if self.instance_id is not None:
            reading["group.instance.id"] = self.instance_id
        writing = {"transactional.id": f"billing-{self.name}"}
        self.producer = recorded(
            Producer, self.run, {**conf, **writing}, name=f"producer-{self.name}"
        )
        self.producer.init_transactions(60)
        self.consumer = recorded(
            Consumer, self.run, {**conf, **reading}, name=f"consumer-{self.name}"
        )
        self.consumer.subscribe([INPUT], on_revoke=self.let_go)

    def let_go(self, consumer: Any, partitions: list[Any]) -> None:
        """What was not committed of a partition is left to its next owner."""
        for one in partitions:
            self.polled.pop(one.partition, None)

    def poll(self) -> None:
        """Poll once, and keep what comes."""
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            self.polled.setdefault(message.partition(), []).append(message)

    @property
    def generation(self) -> int:
        """The generation of its membership, which its transactions name; -1 for none."""
        return int(member(self.consumer.consumer_group_metadata()).get("generation", -1))

    def process(self, partition: int) -> str:
        """One transaction: an invoice for each order of a partition, and the orders' offset.

        Returns "" when it is committed, else why it was refused.
        """
        if partition not in self.polled:
            return REVOKED
        orders = self.polled[partition]
        behind = TopicPartition(INPUT, partition, orders[-1].offset() + 1)
        self.producer.begin_transaction()
        try:
            for order in orders:
                self.producer.produce(OUTPUT, order.value(), partition=0)
            membership = self.consumer.consumer_group_metadata()
            self.producer.send_offsets_to_transaction([behind], membership, 30)
            self.producer.commit_transaction(60)
        except KafkaException as refused:
            self.producer.abort_transaction(60)
            return str(refused.args[0].name())
        return ""

    def close(self) -> None:
        self.consumer.close()
        self.producer.close()


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    bootstrap: str
    slow: str
    """The brokers' addresses behind their relays."""
    relays: list[Relay]
    run: Path
    in_time: bool
    admin: Any = field(init=False)
    started: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def play(self) -> str:
        """Why the late commit was refused; "" if it was not."""
        self.create()
        with ExitStack() as clients:

            def start(name: str, bootstrap: str, instance_id: str | None) -> Instance:
                instance = Instance(name, bootstrap, self.run, instance_id)
                clients.callback(instance.close)
                return instance

            first = start(FIRST, self.slow, "instance-1")
            self.read_everything(first)
            stalls = [one.stall(joins) for one in self.relays]
            if self.in_time:
                for stall in stalls:
                    stall.end()
            second = start(SECOND, self.bootstrap, None)
            partition = self.until_second_reads(first, second)
            self.commit(second, partition)
            so_far = first.generation
            for stall in stalls:
                stall.end()
            self.say("the JoinGroup of the first instance is delivered")

            def joined() -> bool:
                second.poll()
                return first.generation > so_far

            if not self.in_time:
                until("the first instance to join", PATIENCE_S, joined)
            held = partition in first.polled
            self.say(
                f"the first instance is a member of generation {first.generation}, and "
                f"{'still owns' if held else 'has given up'} partition {partition}"
            )
            return self.commit(first, partition)

    def create(self) -> None:
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        topics = [NewTopic(INPUT, PARTITIONS, 3), NewTopic(OUTPUT, 1, 3)]
        for created in self.admin.create_topics(topics).values():
            created.result(60)
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        producer: Any = recorded(Producer, self.run, conf, name="shop")
        for number in range(PARTITIONS * RECORDS_EACH):
            producer.produce(INPUT, f"order {number}", partition=number % PARTITIONS)
        producer.close()

    def read_everything(self, first: Instance) -> None:
        def all_read() -> bool:
            first.poll()
            return sum(map(len, first.polled.values())) == PARTITIONS * RECORDS_EACH

        until("all orders read", PATIENCE_S, all_read)
        self.say(
            f"the first instance, a static member, has read all orders in generation "
            f"{first.generation}; its worker has yet to commit them"
        )

    def until_second_reads(self, first: Instance, second: Instance) -> int:
        """A partition that the second instance was given, and has read."""

        def read() -> bool:
            first.poll()
            second.poll()
            return any(len(orders) == RECORDS_EACH for orders in second.polled.values())

        until("the second instance to read", PATIENCE_S, read)
        partition = next(iter(second.polled))
        self.say(
            f"partition {partition} belongs to the second instance in generation "
            f"{second.generation}, which has read its orders"
        )
        return partition

    def commit(self, instance: Instance, partition: int) -> str:
        refused = instance.process(partition)
        said = f"is refused: {refused}" if refused else "is taken"
        self.say(
            f"the {instance.name} instance's commit of partition {partition}, in generation "
            f"{instance.generation}, {said}"
        )
        if refused and instance.name == SECOND:
            raise NotInTimeError(f"the owner's own commit was refused: {refused}")
        return refused

    def read_output(self) -> Counter[str]:
        """How often a reader of committed records reads each invoice."""
        reading = {"group.id": "reader", "isolation.level": "read_committed"}
        consumer: Any = Consumer({"bootstrap.servers": self.bootstrap, **reading})
        where = TopicPartition(OUTPUT, 0, 0)
        consumer.assign([where])
        found: Counter[str] = Counter()
        while (message := consumer.poll(5)) is not None:
            found[message.value().decode()] += 1
        consumer.close()
        return found

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.started:7.3f} s  {what}")


def start(folder: Path, classpath: str, run: Path, stack: ExitStack, in_time: bool) -> Scenario:
    """The brokers, and a relay before the second listener of each."""
    nodes = laid_out(folder, classpath)
    relays: list[Relay] = []
    for broker in BROKERS:
        port = free_port()
        relays.append(stack.enter_context(relay(port)))
        nodes[broker].settings = LISTENERS.format(
            port=nodes[broker].port, slow=port, reached_at=relays[-1].port
        )
    brokers = stack.enter_context(started(nodes))
    bootstrap = ",".join(node.address for node in brokers.values())
    slow = ",".join(f"127.0.0.1:{one.port}" for one in relays)
    return Scenario(bootstrap, slow, relays, run, in_time)


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--in-time", is_flag=True, help="Hold no JoinGroup up: the control.")
@jars_option
def main(run: Path, in_time: bool, jars: Path | None) -> None:
    with ExitStack() as stack:
        if run.exists() and any(run.iterdir()):
            refuse(f"{run} is not empty: name a new folder for the recording")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run.mkdir(parents=True, exist_ok=True)
        with playing():
            scenario = start(folder / "cluster", class_path(jars), run, stack, in_time)
            refused = scenario.play()
            invoices = scenario.read_output()
            scan(run, scenario.bootstrap)
    twice = sorted(invoice for invoice, times in invoices.items() if times > 1)
    click.echo(f"recorded in {run}; judge it: highwater check {run}")
    if twice:
        click.echo(f"In the committed output twice: {', '.join(twice)}.")
        sys.exit(1)
    click.echo(f"The late commit was refused ({refused}): nothing is there twice.")


if __name__ == "__main__":
    main()
