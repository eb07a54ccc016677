"""Let two members of one consumer group of real Kafka commit the same records, exactly once each.

Starts a controller and three brokers with default settings. An application reads, writes and
commits in transactions (KIP-447), with the consumer protocol of KIP-848; one member is slow. All
clients are recorded in RUN (trace format v1). Exit code 1: both commits are taken, and a reader of
committed records reads the output twice; 0: the late one is refused; 2: the scenario could not be
played.
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

from examples.brokers import NotInTimeError, cluster, playing, until
from examples.kafka_jars import class_path, jars_option
from examples.scenario import refuse, scan
from refimpl.machines.consumer_group import UNREVOKED
from refimpl.storage.consumer_group_records import CurrentMemberAssignment
from refimpl.storage.coordinator_records import (
    GROUP_RECORDS,
    OFFSETS_TOPIC,
    partition_for,
    read_record,
)
from traces.record import recorded

GROUP, INPUT, OUTPUT = "billing", "orders", "invoices"
PARTITIONS, RECORDS_EACH = 6, 3
OFFSETS_PARTITIONS = 50
#: What takes one or two heartbeats, of 5 s each, may take longer on a machine that has much to do.
PATIENCE_S = 120


def waits_for_nobody(consumer: Any, partitions: Any) -> None:
    """The listener of an application that lets go at once."""


@define
class Instance:
    """One instance of the application: consumer, transactional producer, and what was polled."""

    name: str
    bootstrap: str
    run: Path
    consumer: Any = field(init=False)
    producer: Any = field(init=False)
    polled: dict[int, list[Any]] = field(factory=dict[int, list[Any]])

    def __attrs_post_init__(self) -> None:
        """Join the group; give up partitions when `poll` says so, without waiting for anybody."""
        conf = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        reading = {
            **{"group.id": GROUP, "group.protocol": "consumer", "client.id": self.name},
            **{"auto.offset.reset": "earliest", "enable.auto.commit": False},
        }
        self.consumer = recorded(
            Consumer, self.run, {**conf, **reading}, name=f"consumer-{self.name}"
        )
        self.consumer.subscribe([INPUT], on_revoke=waits_for_nobody)
        writing = {"transactional.id": f"billing-{self.name}"}
        self.producer = recorded(
            Producer, self.run, {**conf, **writing}, name=f"producer-{self.name}"
        )
        self.producer.init_transactions(60)

    def poll(self, patience_s: float = 0.1) -> None:
        """Poll once, and keep what comes."""
        message = self.consumer.poll(patience_s)
        if message is not None and message.error() is None:
            self.polled.setdefault(message.partition(), []).append(message)

    def process(self, partition: int, membership: Any) -> str:
        """One transaction: an invoice for each order of a partition, and the orders' offset.

        Returns "" when it is committed, else why it was refused.
        """
        orders = self.polled[partition]
        behind = TopicPartition(INPUT, partition, orders[-1].offset() + 1)
        self.producer.begin_transaction()
        try:
            for order in orders:
                self.producer.produce(OUTPUT, order.value(), partition=0)
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
class GroupLog:
    """What the coordinator writes down of the group's members, in `__consumer_offsets`."""

    bootstrap: str
    reader: Any = field(init=False)
    states: dict[str, int] = field(factory=dict[str, int])

    def __attrs_post_init__(self) -> None:
        """Read the group's partition from its beginning."""
        reading = {"group.id": "onlooker", "isolation.level": "read_committed"}
        self.reader = Consumer({"bootstrap.servers": self.bootstrap, **reading})
        number = partition_for(GROUP, OFFSETS_PARTITIONS)
        self.reader.assign([TopicPartition(OFFSETS_TOPIC, number, 0)])

    def state_of(self, member_id: str) -> int | None:
        """The state that was written last of a member."""
        while (message := self.reader.poll(0.1)) is not None:
            if message.error() is None:
                record = read_record(GROUP_RECORDS, message.key(), message.value())
                if isinstance(record.value, CurrentMemberAssignment):
                    self.states[record.key.member_id] = record.value.state
        return self.states.get(member_id)

    def close(self) -> None:
        self.reader.close()


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    bootstrap: str
    run: Path
    admin: Any = field(init=False)
    log: "GroupLog" = field(init=False)
    started: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def play(self) -> str:
        """Why the late commit was refused; "" if it was not. Whatever happens, clients are closed
        while there are brokers to hear of it."""
        self.create()
        with ExitStack() as clients:

            def start(name: str) -> Instance:
                instance = Instance(name, self.bootstrap, self.run)
                clients.callback(instance.close)
                return instance

            slow = start("slow")
            self.log = GroupLog(self.bootstrap)
            clients.callback(self.log.close)
            membership = self.read_everything(slow)
            second = start("second")
            self.until_asked_to_give_up(second)
            third = start("third")
            self.until_target_moves([second, third])
            partition, owner = self.hand_over(slow, [second, third])
            return self.both_commit(partition, owner, slow, membership)

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

    def read_everything(self, slow: Instance) -> Any:
        """The membership under which the slow instance's worker will commit."""

        def all_read() -> bool:
            slow.poll()
            return sum(map(len, slow.polled.values())) == PARTITIONS * RECORDS_EACH

        until("all orders read", 60, all_read)
        self.say("the slow instance has read all orders; its worker has yet to commit them")
        return slow.consumer.consumer_group_metadata()

    def until_asked_to_give_up(self, second: Instance) -> None:
        """Half of its partitions, by a heartbeat; the coordinator writes down that it waits for
        that. The slow one does not poll, so it goes on owning them."""

        self.until_target("second", PARTITIONS // 2, [second])

        slow = self.member("slow").member_id

        def asked() -> bool:
            second.poll()
            return self.log.state_of(slow) == UNREVOKED

        until("the slow instance to be asked to give up", PATIENCE_S, asked)
        self.say(f"a second has joined, the target of slow is {self.target('slow')}")

    def until_target_moves(self, others: list[Instance]) -> None:
        """A third instance joins, and has a target: a new one for all, in a new epoch."""

        self.until_target("third", PARTITIONS // 3, others)
        self.say(f"a third has joined, the target of slow is {self.target('slow')}")

    def hand_over(self, slow: Instance, others: list[Instance]) -> tuple[int, Instance]:
        """The slow instance polls once, and gives up what the first target took from it. By the
        second it has to give up more, so its epoch stays. A partition of it has another owner."""
        until("the slow instance to give up", PATIENCE_S, lambda: self.gives_up(slow))
        self.say("the slow instance has polled once")
        found: list[tuple[int, Instance]] = []

        def owned() -> bool:
            for one in others:
                one.poll()
                found.extend((partition, one) for partition in one.polled)
            return bool(found) and len(found[0][1].polled[found[0][0]]) == RECORDS_EACH

        until("another owner to read", PATIENCE_S, owned)
        partition, owner = found[0]
        self.say(f"partition {partition} belongs to {owner.name}, which has read its orders")
        return partition, owner

    def gives_up(self, slow: Instance) -> bool:
        """Whether a poll has told it; one that waits would tell it of the second target, too."""
        slow.poll(0)
        return len(slow.consumer.assignment()) < PARTITIONS

    def both_commit(self, partition: int, owner: Instance, slow: Instance, membership: Any) -> str:
        refused = owner.process(partition, owner.consumer.consumer_group_metadata())
        if refused:
            raise NotInTimeError(f"the owner's own commit was refused: {refused}")
        self.say(f"{owner.name} commits {RECORDS_EACH} orders of partition {partition}")
        refused = slow.process(partition, membership)
        said = f"is refused: {refused}" if refused else "is taken"
        self.say(f"the slow instance's commit of the same orders {said}")
        return refused

    def until_target(self, name: str, count: int, polling: list[Instance]) -> None:
        """An instance has joined, and the coordinator means it to have so many partitions."""

        def has_target() -> bool:
            for one in polling:
                one.poll()
            try:
                return len(self.target(name)) == count
            except StopIteration:  # it is no member yet
                return False

        until(f"the {name} instance to join", PATIENCE_S, has_target)

    def target(self, name: str) -> list[int]:
        """What the coordinator means a member to have."""
        target = self.member(name).target_assignment
        return sorted(one.partition for one in target.topic_partitions)

    def member(self, name: str) -> Any:
        """A member as the coordinator describes it."""
        described = self.admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        return next(one for one in described.members if one.client_id == name)

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


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@jars_option
def main(run: Path, jars: Path | None) -> None:
    with ExitStack() as stack:
        if run.exists() and any(run.iterdir()):
            refuse(f"{run} is not empty: name a new folder for the recording")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        run.mkdir(parents=True, exist_ok=True)
        with playing():
            classpath = class_path(jars)
            nodes = stack.enter_context(cluster(folder / "cluster", classpath))
            scenario = Scenario(",".join(node.address for node in nodes.values()), run)
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
