"""Leave classic members alone in a consumer group of real Kafka, with a partition that nobody owns.

Starts one broker with `group.consumer.migration.policy=upgrade`. A classic consumer owns both
partitions of a topic, one of KIP-848 joins and leaves again. Exit code 1: one partition has no
owner at the end, although the classic consumer polls and beats its heart; 0: it has; 2: the
scenario could not be played.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from chaos.real.kafka.judge import Judge, KafkaBroker
from examples.brokers import NotInTimeError, playing

TOPIC = GROUP = "classic-left-alone"
EVERYTHING = {0, 1}


def play(where: str, patience_s: float) -> bool:
    """Whether a partition has no owner at the end."""
    started = time.monotonic()

    def say(what: str) -> None:
        click.echo(f"{time.monotonic() - started:7.3f} s  {what}")

    def consumer(**conf: Any) -> Any:
        common: dict[str, Any] = {"bootstrap.servers": where, "group.id": GROUP, "log_level": 0}
        made: Any = Consumer({**common, "enable.auto.commit": False, **conf})
        made.subscribe([TOPIC])
        return made

    def owned(one: Any) -> set[int]:
        return {each.partition for each in one.assignment()}

    def poll(members: list[Any], until: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not until():
            if time.monotonic() > end:
                return False
            for one in members:
                one.poll(0.1)
        return True

    def wait(members: list[Any], until: Callable[[], bool], what: str) -> None:
        if not poll(members, until, 120):
            raise NotInTimeError(f"{what}: not within 120 s")
        say(f"{what}: {', '.join(str(sorted(owned(one))) for one in members)}")

    admin: Any = AdminClient({"bootstrap.servers": where, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, len(EVERYTHING), 1)])[TOPIC].result(60)
    session = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
    with ExitStack() as open_ones:
        classic = consumer(**session, **{"group.protocol": "classic"})
        open_ones.callback(classic.close)
        wait([classic], lambda: owned(classic) == EVERYTHING, "a classic consumer owns")
        modern = consumer(**{"group.protocol": "consumer"})
        both = [classic, modern]
        leaving = open_ones.enter_context(ExitStack())
        leaving.callback(modern.close)
        wait(both, lambda: all(len(owned(one)) == 1 for one in both), "it and one of KIP-848 own")
        poll(both, lambda: False, 3)  # until the group is at rest
        leaving.close()
        say("that of KIP-848 has left")
        poll([classic], lambda: False, 1)
        again = poll([classic], lambda: owned(classic) == EVERYTHING, patience_s)
        say(f"the classic consumer owns {sorted(owned(classic))} after {patience_s:.0f} s at most")
        return not again


@click.command(help=__doc__)
@click.option("--policy", default="upgrade", show_default=True)
@click.option("--bootstrap", help="Play it on these brokers, which have the policy already.")
@click.option("--patience", type=float, default=30, show_default=True, help="Seconds to wait.")
def main(policy: str, bootstrap: str | None, patience: float) -> None:
    with playing(), ExitStack() as running:
        if bootstrap is None:
            folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
            judge = Judge.start()
            running.callback(judge.stop)
            broker = KafkaBroker(folder, {"group.consumer.migration.policy": policy})
            broker.format(judge)
            running.enter_context(broker.running())
            bootstrap = broker.address
        left = play(bootstrap, patience)
    click.echo("a partition has no owner" if left else "every partition has an owner")
    sys.exit(int(left))


if __name__ == "__main__":
    main()
