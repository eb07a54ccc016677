"""Read a record again that real Kafka has confirmed to have deleted.

Starts a controller and three brokers with default settings, deletes a record while one broker is
down, and lets that broker come into the ISR and be elected before it has heard of the deletion. It
records its clients in RUN (trace format v1). Exit code 1: the deleted record is read; 0: it is not;
2: the scenario could not be played.
"""

import signal
import sys
import time
from pathlib import Path

import click
import orjson
from attrs import define, field
from confluent_kafka import TopicPartition

from examples.brokers import NotInTimeError, until
from examples.kafka_jars import class_path, classes_option, jars_option
from examples.relay import Header
from examples.relayed import FENCED_S, Relayed, fetched_by_broker_3, relayed
from examples.scenario import recording, scan

TOPIC = "deleted-records"
FETCH = 1
#: A fetch without an answer is asked again after replica.socket.timeout.ms (30 s).
JOINS_S = 90
#: Until a follower has fetched again, in seconds, and more.
HEARD_S = 1.0


def played_by(run: Path) -> dict[str, object]:
    """The first line of the producer in a recording."""
    with (run / "producer#0.ndjson").open("rb") as lines:
        return orjson.loads(lines.readline())


def answered_to_broker_3(header: Header) -> bool:
    return header.api_key == FETCH and fetched_by_broker_3(header)


@define
class DeletedRecords(Relayed):
    """A replica that was away is elected, cleanly, before it hears what was deleted."""

    in_time: bool = field(kw_only=True)
    deletion: dict[str, object] = field(factory=dict[str, object])

    def play(self) -> list[bytes]:
        self.let_broker_1_lead()
        self.write("A", 60)
        self.write("B", 60)
        until("A and B everywhere", 10, lambda: len(set(self.sizes())) == 1)
        self.kill_broker_3()
        self.delete_a()
        self.join_again()
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        self.replace_broker_1()
        self.producer.close()
        self.record_the_deletion()
        return self.read()

    def kill_broker_3(self) -> None:
        self.signal(3, signal.SIGKILL)
        self.brokers[3].wait()
        self.in_sync({1, 2}, FENCED_S)
        self.say("broker 3 is fenced, ISR {1, 2}")

    def delete_a(self) -> None:
        """The answer comes when every live replica has deleted it."""
        invoked = time.monotonic_ns()
        up_to = TopicPartition(TOPIC, 0, 1)
        done = self.admin.delete_records([up_to], request_timeout=60)[up_to].result(60)
        times = {"invoked_ns": invoked, "returned_ns": time.monotonic_ns()}
        self.deletion = {**times, "offsets": {f"{TOPIC}:0": done.low_watermark}}
        self.say(f"DeleteRecords answered: the log starts at {done.low_watermark}")

    def record_the_deletion(self) -> None:
        """As a process of its own: the recorder writes down no calls of an AdminClient."""
        clock = played_by(self.run)["clock"]
        now = time.monotonic_ns()
        end = {"op": "close", "invoked_ns": now, "returned_ns": now}
        calls = [{"op": "delete_records", **self.deletion}, end]
        lines = [
            {"process": "admin#0", "clock": clock, "seq": seq, "outcome": "ok", **call}
            for seq, call in enumerate(calls)
        ]
        told = b"".join(orjson.dumps(line) + b"\n" for line in lines)
        (self.run / "admin#0.ndjson").write_bytes(told)

    def join_again(self) -> None:
        """Broker 3 has all that is committed, so its first fetch lets it in. The answer is late."""
        if not self.in_time:
            self.leader.stall(answered_to_broker_3, at_most=0, answers=True)
            self.fault("answers of broker 1 to fetches of broker 3 are held up")
        self.brokers[3].start()
        try:
            self.in_sync({1, 2, 3}, JOINS_S)
        except NotInTimeError:
            until("broker 3 to be up", FENCED_S, lambda: self.alive() == {1, 2, 3})
            self.say("broker 3 is up again, and not let in")
        else:
            self.say("broker 3 is up again, and in sync: ISR {1, 2, 3}")
        if self.in_time:
            time.sleep(HEARD_S)


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--in-time", is_flag=True, help="Hold no answer up: the control.")
@jars_option
@classes_option
def main(run: Path, in_time: bool, jars: Path | None, classes: Path | None) -> None:
    with recording(run) as (folder, stack):
        fields = relayed(folder.resolve(), class_path(jars, classes), stack)
        scenario = DeletedRecords(run=run, topic=TOPIC, in_time=in_time, **fields)
        values = scenario.play()
        (run / "meta.json").write_bytes(orjson.dumps({"faults": scenario.faults}))
        scan(run, scenario.bootstrap)
    click.echo(f"recorded in {run}; judge it: highwater check {run}")
    if b"A" in values:
        click.echo("A was deleted, which was confirmed, and is read again.")
        sys.exit(1)
    click.echo("A stays deleted.")


if __name__ == "__main__":
    main()
