"""The members of the groups of a run, each with a thread of its own, all recorded."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from attrs import define, field

from chaos.real.campaign.plan import ORDERS, GroupPlan, Plan
from chaos.real.campaign.writers import common
from traces.record import recorded

AT_ONCE, POLL_S = 200, 0.2
SESSION_MS, HEARTBEAT_MS = 6_000, 500
AGAIN_S = 2.0
"""After which a member that is given nothing commits its positions again: a commit may be lost."""
CLOSE_S = 60.0
FATAL = -150
"""librdkafka's code of an error after which a client does nothing more."""


@define(eq=False)
class GroupMember:
    """A consumer that processes what it polls, and then commits without waiting."""

    name: str
    group: GroupPlan
    plan: Plan
    bootstrap: str
    folder: Path
    counts: Counter[str]
    _leaving: Event = field(factory=Event)
    _thread: Any = field(default=None, init=False)
    _consumer: Any = field(default=None, init=False)
    _conf: dict[str, Any] = field(factory=dict[str, Any], init=False)
    failed: str = field(default="", init=False)

    def start(self, instance: str) -> None:
        """Subscribe; `instance` is for a static member."""
        conf = common(self.plan, self.bootstrap) | {"group.id": self.group.name}
        conf |= {"group.protocol": self.group.protocol, "client.id": self.name}
        conf |= {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
        if self.group.protocol == "classic":
            conf |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
            conf |= {"partition.assignment.strategy": self.group.assignor}
        if self.group.static:
            conf |= {"group.instance.id": instance}
        self._conf = conf
        self._begin()
        self._thread = Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        library: Any = import_module("confluent_kafka")
        arguments = (library.Consumer, self.folder, self._conf)
        order = "process_then_commit"
        self._consumer = recorded(*arguments, name=self.name, commit_order=order)
        self._consumer.subscribe([ORDERS])

    def leave(self) -> None:
        """Close, as far as librdkafka does within its time."""
        self._leaving.set()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            self.failed = self.failed or f"{self.name} does not close within {CLOSE_S:.0f} s"

    def _run(self) -> None:
        try:
            idle_since = time.monotonic()
            while not self._leaving.is_set():
                polled = self._consumer.consume(AT_ONCE, POLL_S)
                if FATAL in (error.code() for one in polled if (error := one.error()) is not None):
                    self._begin_again()
                    continue
                records = [one for one in polled if one.error() is None]
                if records:
                    self._processes(records)
                    idle_since = time.monotonic()
                elif time.monotonic() > idle_since + AGAIN_S:
                    self._commits_again()
                    idle_since = time.monotonic()
            self._consumer.close()
        except Exception as failure:  # the run reports it
            self.failed = f"{self.name}: {failure!r}"

    def _begin_again(self) -> None:
        """An application's next process: librdkafka's client is of no use after a fatal error."""
        self.counts["fatal"] += 1
        self._consumer.close()
        self._begin()

    def _processes(self, records: list[Any]) -> None:
        library: Any = import_module("confluent_kafka")
        self._consumer.processed(*records)
        self.counts["processed"] += len(records)
        ends = {(one.topic(), one.partition()): one.offset() + 1 for one in records}
        offsets = [library.TopicPartition(*where, offset) for where, offset in ends.items()]
        with suppress(library.KafkaException):  # it has lost its partitions
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _commits_again(self) -> None:
        library: Any = import_module("confluent_kafka")
        with suppress(library.KafkaException):
            positions = self._consumer.position(self._consumer.assignment())
            if read := [one for one in positions if one.offset >= 0]:
                self._consumer.commit(offsets=read, asynchronous=True)


@define(eq=False)
class GroupMembers:
    """The members of one group, by the place that each has."""

    group: GroupPlan
    plan: Plan
    bootstrap: str
    folder: Path
    counts: Counter[str] = field(factory=Counter[str])
    _members: dict[int, GroupMember] = field(factory=dict[int, GroupMember])
    _former: list[GroupMember] = field(factory=list[GroupMember])
    _made: int = 0
    _changing: Any = field(factory=Lock)

    def start(self) -> None:
        """All members join."""
        for place in range(self.group.members):
            self._join(place)

    def replace(self, number: int, meanwhile: Callable[[], None]) -> str:
        """One leaves, and later another one has its place, and its instance id if it is static."""
        with self._changing:
            place = number % self.group.members
            left = self._members[place]
            left.leave()
            self._former.append(left)
            meanwhile()
            self._join(place)
            return left.name

    def stop(self) -> None:
        """All leave."""
        for member in self._members.values():
            member.leave()

    @property
    def failures(self) -> list[str]:
        """Members that could not go on."""
        every = (*self._members.values(), *self._former)
        return [member.failed for member in every if member.failed]

    def _join(self, place: int) -> None:
        name = f"{self.group.name}-{place}-{self._made}"
        self._made += 1
        member = GroupMember(name, self.group, self.plan, self.bootstrap, self.folder, self.counts)
        member.start(f"{self.group.name}-{place}")
        self._members[place] = member


def committed_to_the_end(group: str, bootstrap: str, partitions: int) -> bool:
    """True if a group has committed the end of every partition of `orders`."""
    library: Any = import_module("confluent_kafka")
    reader = library.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        asked = [library.TopicPartition(ORDERS, number) for number in range(partitions)]
        committed = reader.committed(asked, timeout=10)
        ends = [reader.get_watermark_offsets(one, timeout=10)[1] for one in asked]
        # A transaction's marker is the end of nothing that a member processes: `orders` has none.
        return [max(0, one.offset) for one in committed] == ends
    except library.KafkaException:
        return False
    finally:
        reader.close()
