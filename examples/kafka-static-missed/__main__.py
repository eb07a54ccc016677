"""Let two members of one classic consumer group of real Kafka commit the same records, exactly once
each.

Starts a controller and three brokers. An application reads, writes and commits in transactions
(KIP-447), with the assignor cooperative-sticky; its first instance is a static member, whose
JoinGroup is slow: the group goes on without its word. All clients are recorded in RUN (trace format
v1). Exit code 1: both commits are taken, and a reader of committed records reads the output twice;
0: the late one is refused; 2: the scenario could not be played.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from attrs import define

from examples.billing import RECORDS_EACH, Billing, Instance, conclude
from examples.brokers import BROKERS, NotInTimeError, free_port, laid_out, started, until
from examples.kafka_jars import class_path, jars_option
from examples.relay import Header, Relay, relay
from examples.scenario import recording, scan
from traces.record.confluent_words import member

PARTITIONS = 2
FIRST, SECOND = "first", "second"
JOIN_GROUP = 11
#: Both the session and the time that a rebalance waits for members; the least that brokers allow.
SESSION_MS = 6_000
PATIENCE_S, POLL_S = 60, 0.02
COOPERATIVE = {
    **{"partition.assignment.strategy": "cooperative-sticky", "heartbeat.interval.ms": 500},
    **{"session.timeout.ms": SESSION_MS, "max.poll.interval.ms": SESSION_MS},
}
REVOKED = "the partition was revoked, and its orders let go"

#: Clients that begin at the second listener go through a relay.
LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{slow}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{reached_at}
"""


def joins(header: Header) -> bool:
    return header.api_key == JOIN_GROUP and header.client_id == FIRST


@define
class Member(Instance):
    """An instance that lets the orders of a partition go with it."""

    def let_go(self, consumer: Any, partitions: list[Any]) -> None:
        """What was not committed of a partition is left to its next owner."""
        for one in partitions:
            self.polled.pop(one.partition, None)

    @property
    def generation(self) -> int:
        """The generation of its membership, which its transactions name; -1 for none."""
        return int(member(self.consumer.consumer_group_metadata()).get("generation", -1))


@define
class Scenario(Billing):
    """What happens, step by step; each step waits until the one before has taken effect."""

    slow: str
    """The brokers' addresses behind their relays."""
    relays: list[Relay]
    in_time: bool

    def play(self) -> str:
        """Why the late commit was refused; "" if it was not."""
        self.create(PARTITIONS)
        with ExitStack() as clients:

            def start(name: str, bootstrap: str, instance_id: str | None) -> Member:
                static = {} if instance_id is None else {"group.instance.id": instance_id}
                instance = Member(name, bootstrap, self.run, {**COOPERATIVE, **static})
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
                second.poll(POLL_S)
                return first.generation > so_far

            if not self.in_time:
                until("the first instance to join", PATIENCE_S, joined)
            held = partition in first.polled
            self.say(
                f"the first instance is a member of generation {first.generation}, and "
                f"{'still owns' if held else 'has given up'} partition {partition}"
            )
            return self.commit(first, partition)

    def read_everything(self, first: Member) -> None:
        def all_read() -> bool:
            first.poll(POLL_S)
            return sum(map(len, first.polled.values())) == PARTITIONS * RECORDS_EACH

        until("all orders read", PATIENCE_S, all_read)
        self.say(
            f"the first instance, a static member, has read all orders in generation "
            f"{first.generation}; its worker has yet to commit them"
        )

    def until_second_reads(self, first: Member, second: Member) -> int:
        """A partition that the second instance was given, and has read."""

        def read() -> bool:
            first.poll(POLL_S)
            second.poll(POLL_S)
            return any(len(orders) == RECORDS_EACH for orders in second.polled.values())

        until("the second instance to read", PATIENCE_S, read)
        partition = next(iter(second.polled))
        self.say(
            f"partition {partition} belongs to the second instance in generation "
            f"{second.generation}, which has read its orders"
        )
        return partition

    def commit(self, instance: Member, partition: int) -> str:
        membership = instance.consumer.consumer_group_metadata()
        held = partition in instance.polled
        refused = instance.process(partition, membership) if held else REVOKED
        said = f"is refused: {refused}" if refused else "is taken"
        self.say(
            f"the {instance.name} instance's commit of partition {partition}, in generation "
            f"{instance.generation}, {said}"
        )
        if refused and instance.name == SECOND:
            raise NotInTimeError(f"the owner's own commit was refused: {refused}")
        return refused


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
    return Scenario(bootstrap, run, slow, relays, in_time)


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--in-time", is_flag=True, help="Hold no JoinGroup up: the control.")
@jars_option
def main(run: Path, in_time: bool, jars: Path | None) -> None:
    with recording(run) as (folder, stack):
        scenario = start(folder / "cluster", class_path(jars), run, stack, in_time)
        refused = scenario.play()
        invoices = scenario.read_output()
        scan(run, scenario.bootstrap)
    conclude(run, refused, invoices)


if __name__ == "__main__":
    main()
