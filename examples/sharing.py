"""Scenarios of share groups on real brokers: Java members that are told what to do, recorded."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from chaos.real.sharing.members import MembersProcess, members
from examples.brokers import BROKERS, laid_out, started, until
from examples.transactions import PATIENCE_S, Transactional
from highwater import recorded

TOPIC, GROUP = "queue", "workers"
EARLIEST = {"share.auto.offset.reset": "earliest"}
#: Defaults of Kafka 4.3.
LOCK_MS, LIMIT = 30_000, 5
#: So long, beyond a lock, may records wait for members that poll.
STUCK_MS = 10_000
#: A member that is given records one after the other waits for less.
QUIET_S = 3


@define
class Sharing(Transactional):
    """The scenario, step by step; each step waits until the one before has taken effect."""

    members: MembersProcess = field(kw_only=True)
    settings: dict[str, str] = field(factory=dict[str, str])
    """Of the group, told by the recording."""
    left: set[str] = field(factory=set[str])
    group: str = GROUP

    def configure(self, **settings: str) -> None:
        """Set these of the group before its first member joins."""
        self.settings = EARLIEST | {name.replace("_", "."): one for name, one in settings.items()}
        how = AlterConfigOpType.SET
        entries = [ConfigEntry(*one, incremental_operation=how) for one in self.settings.items()]
        group = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        self.admin.incremental_alter_configs([group])[group].result(PATIENCE_S)

    def send_all(self, values: range, batch: int = 10, name: str = "producer") -> None:
        """Records in batches of so many, all acknowledged."""
        conf = {**self.where, "acks": "all", "linger.ms": 1000}
        producer: Any = recorded(Producer, self.run, conf, name=name)
        for number in values:
            producer.produce(TOPIC, f"record {number}", partition=0)
            if number % batch == batch - 1 and producer.flush(PATIENCE_S):
                raise RuntimeError("records were not acknowledged")
        if producer.flush(PATIENCE_S):
            raise RuntimeError("records were not acknowledged")
        producer.close()

    def delete(self, offset: int) -> None:
        """Move the log's start up to an offset, as DeleteRecords does."""
        where = TopicPartition(TOPIC, 0, offset)
        self.admin.delete_records([where])[where].result(PATIENCE_S)
        self.say(f"the records below {offset} are deleted")

    def join(self, name: str, most: int = 10) -> None:
        self.members.ask(name, f"join {self.group} {most}")

    def take(self, name: str, count: int, seconds: float = PATIENCE_S) -> list[int]:
        """The offsets that a member is given: so many, or those of this time."""
        told = self.members.ask(name, f"take {count} {int(seconds * 1000)}")
        taken = [int(one) for one in told.split(",") if one]
        self.say(f"{name} is given {spans(taken)}")
        return taken

    def finish(self, name: str, ack: str = "ACCEPT") -> str:
        """Acknowledge all that it holds; the answer."""
        answer = self.members.ask(name, f"finish {ack}")
        self.say(f"{name} acknowledges with {ack}: {answer}")
        return answer

    def read_on(self, name: str, seconds: float = PATIENCE_S) -> list[int]:
        """Let a member accept what comes: first within this time, and until nothing comes."""
        done = list[int]()
        while taken := self.take(name, 1, seconds):
            self.finish(name)
            done, seconds = done + taken, QUIET_S
        return done

    def leave(self, *names: str) -> None:
        for name in names:
            self.members.ask(name, "close")
            self.left.add(name)
        self.say(f"{' and '.join(names)} {'have' if names[1:] else 'has'} left the group")

    def end(self) -> None:
        """All members that are there leave, and their recordings end."""
        if "watcher" in self.members.said:
            self.stop_watching()
        for name in self.members.said:
            if name not in self.left:
                self.members.ask(name, "close")

    def watched(self) -> None:
        """From now to the end somebody asks, too, where the group starts and its partition ends."""
        self.members.tell("watcher", f"watch {self.group} {self.isolation}")

    def stop_watching(self) -> None:
        """No more questions."""
        self.members.tell("watcher", "stop")
        self.members.hear("watcher")
        self.members.hear("watcher")

    @property
    def isolation(self) -> str:
        """The group's `share.isolation.level`."""
        return self.settings.get("share.isolation.level", "read_uncommitted")

    @property
    def lock_ms(self) -> int:
        """The group's `share.record.lock.duration.ms`."""
        return int(self.settings.get("share.record.lock.duration.ms", LOCK_MS))

    @property
    def stopped_s(self) -> float:
        """So long a member polls in vain until its group is stuck, and a little longer."""
        return (self.lock_ms + STUCK_MS) / 1000 + 3 * QUIET_S

    def fetches(self, name: str) -> int:
        return int(self.members.ask(name, "fetches"))

    def start_and_lag(self) -> tuple[int, int]:
        """The group's one partition, as an administrator is told."""
        start, lag = self.members.ask("admin", f"start {self.group}").split()
        self.say(f"the group starts at {start}, its lag is {lag}")
        return int(start), int(lag)

    def leads(self, broker: int) -> None:
        """Wait until this broker leads the topic's partition."""

        def so() -> bool:
            found = self.partitions(TOPIC)
            return bool(found) and found[0].leader == broker

        until(f"broker {broker} leads", PATIENCE_S, so)

    def complaints(self, pattern: str) -> int:
        """How many lines of the brokers' outputs have this in them."""
        texts = (node.output.read_text(errors="replace") for node in self.brokers.values())
        return sum(text.count(pattern) for text in texts)

    def meta(self) -> dict[str, Any]:
        """Faults, and what a recorder of the members would know of their settings."""
        members = [name for name in self.members.said if name not in ("admin", "watcher")]
        group = {"lock_ms": self.lock_ms, "delivery_limit": LIMIT, "isolation": self.isolation}
        group |= {"stuck_ms": STUCK_MS}
        return {
            "faults": self.faults,
            "consumers": {name: {"group": self.group} for name in members},
            "share_groups": {self.group: group},
        }


def spans(offsets: list[int]) -> str:
    """Offsets in short: 0-9, 12."""
    found = list[list[int]]()
    for one in sorted(offsets):
        if found and one <= found[-1][1] + 1:
            found[-1][1] = one
        else:
            found.append([one, one])
    told = (f"{first}-{last}" if last > first else f"{first}" for first, last in found)
    return ", ".join(told) or "nothing"


def shared(
    scenario: type[Sharing], settings: str = "", brokers: tuple[int, ...] = BROKERS
) -> Callable[..., Sharing]:
    """Starts a scenario on brokers with these settings, with a JVM for the members."""

    def start(folder: Path, classpath: str, run: Path, stack: ExitStack, **more: Any) -> Sharing:
        nodes = laid_out(folder, classpath, brokers)
        for node in nodes.values():
            node.settings += settings
        stack.enter_context(started(nodes))
        bootstrap = ",".join(nodes[id].address for id in brokers)
        jvm = stack.enter_context(members(folder, classpath, bootstrap, run, TOPIC))
        return scenario(nodes, run, members=jvm, **more)

    return start
