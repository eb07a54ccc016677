"""Let two members of one consumer group of real Kafka commit the same records, exactly once each.

Starts a controller and three brokers with default settings. An application reads, writes and
commits in transactions (KIP-447), with the consumer protocol of KIP-848; one member is slow. All
clients are recorded in RUN (trace format v1). Exit code 1: both commits are taken, and a reader of
committed records reads the output twice; 0: the late one is refused; 2: the scenario could not be
played.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from attrs import define, field
from confluent_kafka import Consumer, TopicPartition

from examples.billing import GROUP, RECORDS_EACH, Billing, Instance, conclude
from examples.brokers import NotInTimeError, cluster, until
from examples.kafka_jars import class_path, jars_option
from examples.scenario import recording, scan
from refimpl.machines.consumer_group import UNREVOKED
from refimpl.records.consumer_groups import CurrentMemberAssignment
from refimpl.records.coordinators import (
    GROUP_RECORDS,
    OFFSETS_TOPIC,
    partition_for,
    read_record,
)

PARTITIONS = 6
PROTOCOL = {"group.protocol": "consumer"}
OFFSETS_PARTITIONS = 50
#: What takes one or two heartbeats, of 5 s each, may take longer on a machine that has much to do.
PATIENCE_S = 120


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
class Scenario(Billing):
    """What happens, step by step; each step waits until the one before has taken effect."""

    log: GroupLog = field(init=False)

    def play(self) -> str:
        """Why the late commit was refused; "" if it was not. Whatever happens, clients are closed
        while there are brokers to hear of it."""
        self.create(PARTITIONS)
        with ExitStack() as clients:

            def start(name: str) -> Instance:
                instance = Instance(name, self.bootstrap, self.run, PROTOCOL)
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


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@jars_option
def main(run: Path, jars: Path | None) -> None:
    with recording(run) as (folder, stack):
        nodes = stack.enter_context(cluster(folder / "cluster", class_path(jars)))
        scenario = Scenario(",".join(node.address for node in nodes.values()), run)
        refused = scenario.play()
        invoices = scenario.read_output()
        scan(run, scenario.bootstrap)
    conclude(run, refused, invoices)


if __name__ == "__main__":
    main()
