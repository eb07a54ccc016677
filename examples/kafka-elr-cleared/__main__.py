"""Leave a partition of real Kafka without a leader for good, with every broker up.

Starts a controller and three brokers with default settings and a topic with two replicas, stops
both cleanly, changes the topic's min.insync.replicas, and starts them again. Exit code 1: nobody
is elected; 0: a leader is; 2: the scenario could not be played.
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

from examples.brokers import Node, cluster, playing, until
from examples.kafka_jars import class_path, jars_option
from examples.scenario import set_min_isr

TOPIC = "elr-cleared"
#: Broker 3 has no replica: it stays up, and answers.
ASSIGNMENT = [1, 2]


def play(brokers: Mapping[int, Node], change: bool, patience_s: float) -> int:
    """The leader at the end, -1 for none."""
    admin: Any = AdminClient({"bootstrap.servers": brokers[3].address, "log_level": 0})
    started = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"{time.monotonic() - started:7.3f} s  {what}")

    def state() -> tuple[int, set[int]]:
        partitions = admin.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        return (partitions[0].leader, set(partitions[0].isrs)) if 0 in partitions else (-1, set())

    def everybody_is_up() -> bool:
        return len(admin.list_topics(timeout=5).brokers) == len(brokers)

    until("three brokers", 60, everybody_is_up)
    topic = NewTopic(TOPIC, 1, replica_assignment=[ASSIGNMENT], config={"min.insync.replicas": "2"})
    admin.create_topics([topic])[TOPIC].result(60)
    until("both in sync", 60, lambda: state() == (1, {1, 2}))
    say("broker 1 leads, ISR {1, 2}, min.insync.replicas=2")
    for broker, left in ((2, (1, {1})), (1, (-1, set[int]()))):
        brokers[broker].signal(signal.SIGTERM)
        brokers[broker].wait()
        until("the ISR without it", 60, lambda left=left: state() == left)
        say(f"controlled shutdown of broker {broker}: leader {left[0]}, ISR {left[1] or '{}'}")
    if change:
        set_min_isr(admin, TOPIC, 1)
        say("min.insync.replicas=1")
    for broker in ASSIGNMENT:
        brokers[broker].start()
    until("three brokers", 120, everybody_is_up)
    say("all brokers are up again")
    end = time.monotonic() + patience_s
    while state()[0] < 0 and time.monotonic() < end:
        time.sleep(0.2)
    leader, isr = state()
    say(f"leader {leader}, ISR {isr or '{}'}")
    return leader


@click.command(help=__doc__)
@click.option("--keep-config", is_flag=True, help="Do not change the setting: the control.")
@click.option("--patience", default=30.0, show_default=True, help="Seconds to wait for a leader.")
@jars_option
def main(keep_config: bool, patience: float, jars: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder, playing():
        classpath = class_path(jars)
        with cluster(Path(folder) / "cluster", classpath) as brokers:
            leader = play(brokers, not keep_config, patience)
    if leader < 0:
        click.echo("All replicas are up and complete, and nobody is elected.")
        sys.exit(1)
    click.echo(f"Broker {leader} leads.")


if __name__ == "__main__":
    main()
