"""Let a share group of real Kafka fetch for ever what compaction has removed.

Starts a controller and three brokers with default settings. Two members read a compacted topic that
has a hole between what they hold; the one that holds what lies behind is done first. Both leave,
and new records are written. All clients are recorded in RUN (trace format v1). Exit code 1: the
group is never given the new records; 0: it is given all; 2: the scenario could not be played.
"""

import time
from typing import Any

import click
from attrs import define
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from examples.brokers import NotInTimeError, until
from examples.sharing import TOPIC, Sharing, shared
from examples.transactions import PATIENCE_S, program
from highwater import recorded

SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "1000",
    "min.insync.replicas": "2",
}
#: The hole: records of one key, of which compaction keeps the last.
WIDE = 500
#: The cleaner looks for work every log.cleaner.backoff.ms (15 s).
CLEANED_S = 120


@define
class Hole(Sharing):
    """The state that is loaded begins with offsets that hold nothing."""

    ascending: bool = False

    def play(self) -> str:
        self.create(TOPIC, [[1, 2, 3]], **SETTINGS)
        self.configure(share_record_lock_duration_ms="60000")
        self.write("head", [f"k{n}" for n in range(10)])
        self.write("hole", ["x"] * WIDE)
        self.write("tail", [f"l{n}" for n in range(10)] + ["x"])
        until("compaction", CLEANED_S, self.is_cleaned)
        self.join("A", 10)
        self.join("B", 500)
        self.take("A", 10)
        if self.ascending:
            self.finish("A")
        if 10 + WIDE not in (behind := self.read_on("B")):
            raise NotInTimeError(f"B was given {behind}")
        if not self.ascending:
            self.finish("A")
        self.start_and_lag()
        self.leave("A", "B")
        self.join("C", 500)
        self.write("new", [f"m{n}" for n in range(20)])
        self.watched()
        again = self.read_on("C", self.stopped_s)
        self.say(f"C has sent {self.fetches('C')} fetches")
        self.start_and_lag()
        self.end()
        return "" if len(again) >= 20 else "The new records are never given to the group."

    def write(self, name: str, keys: list[str]) -> None:
        """Records with these keys, in a producer of their own; the segment before is closed."""
        conf = {**self.where, "acks": "all"}
        producer: Any = recorded(Producer, self.run, conf, name=name)
        for number, key in enumerate(keys):
            producer.produce(TOPIC, f"{name} {number}", key, partition=0)
        producer.close()

    def is_cleaned(self) -> bool:
        """True once a hole is there; a record closes the active segment, for it is not cleaned."""
        left = self.offsets()
        if len(left) < 60:
            self.say(f"the log holds {len(left)} records up to offset {left[-1]}")
            return True
        time.sleep(2)
        self.write(f"roll-{int(time.monotonic() * 10)}", ["roll"])
        return False

    def offsets(self) -> list[int]:
        conf = {**self.where, "group.id": "reader", "enable.partition.eof": True}
        consumer: Any = Consumer(conf)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found = list[int]()
        while (message := consumer.poll(PATIENCE_S)) is not None and message.error() is None:
            found.append(message.offset())
        ended = message is not None and message.error().code() == KafkaError._PARTITION_EOF
        consumer.close()
        if not ended:
            raise NotInTimeError("the log was not read to its end")
        return found


if __name__ == "__main__":
    help = "The first member is done first: a control."
    ascending = click.Option(["--ascending"], is_flag=True, help=help)
    program(__doc__ or "", shared(Hole), "The group is given what is there.", ascending)()
