"""Give a move of a partition on real Kafka up for another one that never ends.

Starts a controller and three brokers with default settings, moves a replica to a broker that is
down, names the first replicas as the target again, and starts the broker. Exit code 1: the
second move never ends, although every replica is in sync; 0: it ends; 2: the scenario could not be
played.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from examples.brokers import Node, NotInTimeError, cluster, playing, until
from examples.kafka_jars import class_path, classes_option, jars_option

TOPIC = "reassignment-stuck"
PARTITION = TopicPartition(TOPIC, 0)
FIRST, SECOND = [1, 2], [3, 2]


def play(brokers: Mapping[int, Node], cancel: bool, patience_s: float) -> bool:
    """Whether nothing moves at the end."""
    where = brokers[1].address
    admin: Any = AdminClient({"bootstrap.servers": where, "log_level": 0})
    started = time.monotonic()

    def mover() -> Any:
        """A client that knows who is up now: it asks any of them."""
        return KafkaAdminClient(bootstrap_servers=where)

    def say(what: str) -> None:
        click.echo(f"{time.monotonic() - started:7.3f} s  {what}")

    def move(target: list[int] | None) -> None:
        (error,) = mover().alter_partition_reassignments({PARTITION: target}).values()
        if error is not None:
            raise NotInTimeError(f"the move to {target} is refused: {error}")
        say(f"move to {target}: accepted; {state()}")

    def moving() -> dict[str, list[int]]:
        found = mover().list_partition_reassignments([PARTITION])
        return found.get(PARTITION, {})

    def state() -> str:
        partition = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions[0]
        now = moving()
        coming, going = now.get("adding_replicas", []), now.get("removing_replicas", [])
        return (
            f"replicas {partition.replicas}, ISR {sorted(partition.isrs)}, "
            f"adding {list(coming)}, removing {list(going)}"
        )

    def alive(count: int) -> None:
        until(f"{count} brokers", 120, lambda: len(admin.list_topics(timeout=5).brokers) == count)

    alive(3)
    topic = NewTopic(TOPIC, 1, replica_assignment=[FIRST])
    admin.create_topics([topic])[TOPIC].result(60)
    until("the topic", 60, lambda: TOPIC in admin.list_topics(timeout=5).topics)
    brokers[3].signal(signal.SIGTERM)
    brokers[3].wait()
    alive(2)
    say("broker 3 is shut down")
    move(SECOND)
    move(None if cancel else FIRST)
    brokers[3].start()
    alive(3)
    say("broker 3 is up again")
    end = time.monotonic() + patience_s
    while moving() and time.monotonic() < end:
        time.sleep(0.5)
    say(state())
    return not moving()


@click.command(help=__doc__)
@click.option("--cancel", is_flag=True, help="Take the move back by its own request: the control.")
@click.option("--patience", default=30.0, show_default=True, help="Seconds to wait for its end.")
@jars_option
@classes_option
def main(cancel: bool, patience: float, jars: Path | None, classes: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder, playing():
        classpath = class_path(jars, classes)
        with cluster(Path(folder) / "cluster", classpath) as brokers:
            ended = play(brokers, cancel, patience)
    if not ended:
        click.echo("All brokers are up, and the move never ends.")
        sys.exit(1)
    click.echo("The move has ended.")


if __name__ == "__main__":
    main()
