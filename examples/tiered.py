"""A scenario with tiered storage: Kafka's own LocalTieredStorage, a folder that all brokers share.

It is in Kafka's test jars. Any RemoteStorageManager is below what these scenarios are about; the
metadata of the remote segments are in their topic, as by default.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import Consumer, TopicPartition

from examples.brokers import CONTROLLER, laid_out, started, until
from examples.control_plane import ControlPlane
from examples.kafka_jars import with_test_jars

RECORDS, SIZE, SEGMENT = 60, 100_000, 1_048_576
AN_HOUR_MS, A_SECOND_MS = 3_600_000, 1000
#: Copies and local retention are looked after every second, not every 30 seconds and 5 minutes.
SETTINGS = """\
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name=\
org.apache.kafka.server.log.remote.storage.LocalTieredStorage
remote.log.metadata.manager.listener.name=PLAINTEXT
rlmm.config.remote.log.metadata.topic.replication.factor={replicas}
rlmm.config.remote.log.metadata.topic.num.partitions=1
rsm.config.dir={tier}
remote.log.manager.task.interval.ms=1000
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=100
offsets.topic.replication.factor={replicas}
"""
#: For the consumer to say that an offset is nowhere, and more.
NOWHERE_S = 10


@define
class Tiered(ControlPlane):
    """Segments of ten records, in the local logs and in the remote tier."""

    tier: Path = field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        ControlPlane.__attrs_post_init__(self)
        self.may_be_unreadable = True

    def create_tiered(self, assignment: list[int], *, enabled: bool = True) -> None:
        """Kept for ever; and locally for an hour."""
        self.create(
            [assignment],
            remote_storage_enable=str(enabled).lower(),
            segment_bytes=SEGMENT,
            retention_ms=-1,
            local_retention_ms=AN_HOUR_MS,
        )

    def local(self, broker: int) -> list[int]:
        """The first offsets of the local segments."""
        found = [log for folder in self.folders(broker) for log in folder.glob("*.log")]
        return sorted(int(log.stem) for log in found)

    def remote(self) -> list[int]:
        """The first offsets of the segments in the tier."""
        found = self.tier.rglob(f"*{self.topic}*/*.log")
        return sorted(int(log.name.partition("-")[0]) for log in found)

    def await_copies(self, broker: int) -> None:
        """All segments but the active one are in the tier."""
        until("the copies", 90, lambda: self.remote() == self.local(broker)[:-1] != [])

    def segments(self) -> str:
        local = ", ".join(f"broker {one} {self.local(one)}" for one in self.assignment)
        return f"local segments: {local}; remote {self.remote()}"

    def read(self) -> list[bytes]:
        """All that can be read, from the start of the log and of each segment."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reader", "log_level": 0}
        settings |= {"enable.auto.commit": "false", "auto.offset.reset": "error"}
        consumer: Any = Consumer(settings)
        start, end = consumer.get_watermark_offsets(TopicPartition(self.topic, self.number), 30)
        begins = {start, *self.remote(), *(at for one in self.assignment for at in self.local(one))}
        found: dict[int, bytes] = {}
        for at in sorted(begins - {end}):
            if at not in found:
                found |= self._read_from(consumer, at, end)
        consumer.close()
        missing = [at for at in range(start, end) if at not in found]
        self.say(f"the log is from {start} to {end}; read {len(found)}, not read {ranges(missing)}")
        return list(found.values())

    def _read_from(self, consumer: Any, at: int, end: int) -> dict[int, bytes]:
        consumer.assign([TopicPartition(self.topic, self.number, at)])
        found: dict[int, bytes] = {}
        until_s = time.monotonic() + NOWHERE_S
        while end - 1 not in found and time.monotonic() < until_s:
            message = consumer.poll(1)
            if message is not None and message.error() is not None:
                break
            if message is not None:
                found[message.offset()] = message.value()
        return found


def ranges(offsets: list[int]) -> str:
    """Offsets as ranges, for people."""
    begins = [at for at in offsets if at - 1 not in offsets]
    ends = [at for at in offsets if at + 1 not in offsets]
    return ", ".join(f"{a} to {b}" for a, b in zip(begins, ends, strict=True)) or "none"


def with_tier(
    folder: Path, classpath: str, stack: ExitStack, brokers: Iterable[int], settings: str = ""
) -> Mapping[str, Any]:
    """Brokers that run for as long as the stack lasts, as the fields of a scenario."""
    tier = folder / "tier"
    numbers = tuple(brokers)
    nodes = laid_out(folder, with_test_jars(classpath), numbers)
    for number in numbers:
        nodes[number].settings = SETTINGS.format(tier=tier, replicas=len(numbers)) + settings
    nodes[CONTROLLER].settings = "remote.log.storage.system.enable=true\n"
    return {"brokers": stack.enter_context(started(nodes)), "tier": tier}
