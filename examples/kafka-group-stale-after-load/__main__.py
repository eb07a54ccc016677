"""Let a group coordinator of real Kafka answer with an offset older than the one it acknowledged.

Starts a controller and three brokers. A group commits offset 10 and then 20; the broker that
coordinates it shuts down in good order. The next one loads the group while its high watermark is
still behind, and the follower's fetch that advances it comes between the load's last look and the
moment at which the coordinator listens. All clients are recorded in RUN (trace format v1). Exit
code 1: the group's offset is answered as 10; 0: as 20; 2: the scenario could not be played.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson
from attrs import define, field
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.brokers import CONTROLLER, Node, NotInTimeError, laid_out, started, until
from examples.kafka_jars import class_path, classes_option, jars_option
from examples.scenario import recording, scan
from refimpl.records.coordinators import OFFSETS_TOPIC, partition_for
from traces.record import recorded

TOPIC, ORDERS, HALF = "orders", 20, 10
OLD, NEW, FOLLOWER = 1, 2, 3
#: Of the two partitions of `__consumer_offsets` the first moves, and the second one's leader stays.
MOVES, STAYS = 0, 1
ASSIGNMENTS = [[OLD, NEW, FOLLOWER], [NEW, FOLLOWER, OLD]]
#: Groups whose assignments keep the coordinator's one thread busy, one after the other.
BUSY = 8
#: A commit that is answered so soon was sent once, so a later answer cannot rest on a copy of it.
ONCE_S = 0.05
PATIENCE_S = 60
#: What a follower takes to ask again, on a machine that has little to do. Whether it had is seen
#: later: the new leader's high watermark is behind, or the scenario could not be played.
ASKS_AGAIN_S = 0.5

# A follower that waits long for news hears late of a new high watermark: 0.5 s by default.
BROKERS = """\
group.coordinator.threads=1
group.consumer.assignors=HeldAssignor
held.assignor.folder={folder}
offsets.topic.num.partitions=2
replica.fetch.wait.max.ms=20000
replica.lag.time.max.ms=60000
"""
# The paused follower stays in the ISR.
CONTROLLERS = "broker.session.timeout.ms=60000\n"
# Tells when a coordinator begins to load.
LOGGING = """\
logger.runtime.name=org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime
logger.runtime.level=DEBUG
"""


def groups_on(partition: int, count: int) -> list[str]:
    """Names of groups that belong to a partition of `__consumer_offsets`."""
    named = (f"group-{number}" for number in range(10 * count))
    return [one for one in named if partition_for(one, 2) == partition][:count]


@define
class BusyGroup:
    """A group of KIP-848 with one member: joining it takes an assignment."""

    name: str
    bootstrap: str
    consumer: Any = field(init=False)
    asked: bool = False

    def __attrs_post_init__(self) -> None:
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        joins = {"group.id": self.name, "group.protocol": "consumer"}
        hears = {"stats_cb": self._statistics, "statistics.interval.ms": 100}
        self.consumer = Consumer({**where, **joins, **hears})
        self.consumer.subscribe([TOPIC])

    def _statistics(self, told: str) -> None:
        coordinator = orjson.loads(told)["brokers"].get("GroupCoordinator", {"state": "INIT"})
        self.asked = coordinator["state"] == "UP" and coordinator["waitresp_cnt"] > 0

    def has_asked(self) -> bool:
        """Whether its first heartbeat is under way."""
        self.consumer.poll(0)
        return self.asked


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    brokers: Mapping[int, Node]
    gates: Path
    run: Path
    clients: ExitStack
    admin: Any = field(init=False)
    group: str = groups_on(MOVES, 2)[0]
    neighbour: str = groups_on(MOVES, 2)[1]
    began: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    def play(self) -> int:
        """The group's committed offset as its new coordinator answers it."""
        self.create()
        member = self.reader(self.group, "member")
        self.read_and_commit(member, HALF)
        self.keep_busy()
        self.commit_while_the_follower_pauses(member)
        self.move()
        self.load()
        self.advance()
        self.go(BUSY)
        until("the load is over", PATIENCE_S, self.loaded)
        return self.ask()

    def create(self) -> None:
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        offsets = NewTopic(
            OFFSETS_TOPIC, 2, replica_assignment=ASSIGNMENTS, config={"cleanup.policy": "compact"}
        )
        orders = NewTopic(TOPIC, 1, replica_assignment=[ASSIGNMENTS[STAYS]])
        for created in self.admin.create_topics([offsets, orders]).values():
            created.result(60)
        settings = {"bootstrap.servers": self.bootstrap, "log_level": 0, "acks": "all"}
        shop: Any = recorded(Producer, self.run, settings, name="shop")
        for number in range(ORDERS):
            shop.produce(TOPIC, f"order {number}", partition=0)
        shop.close()

    def reader(self, group: str, name: str, isolation: str = "read_uncommitted") -> Any:
        """A recorded consumer that assigns its partition itself."""
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        reads = {"group.id": group, "enable.auto.commit": False, "isolation.level": isolation}
        reads |= {"auto.offset.reset": "earliest", "client.id": name}
        order = "process_then_commit"
        consumer: Any = recorded(
            Consumer, self.run, {**where, **reads}, name=name, commit_order=order
        )
        self.clients.callback(consumer.close)
        return consumer

    def read_and_commit(self, member: Any, upto: int) -> None:
        member.assign([TopicPartition(TOPIC, 0, 0)])
        self.poll_to(member, upto)
        for offset in (upto - 1, upto):  # the first has to find the coordinator, which takes longer
            began = time.monotonic()
            member.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
        if time.monotonic() - began > ONCE_S:
            raise NotInTimeError(f"the commit of offset {upto} took long: it may come once more")
        self.say(f"{self.group} commits offset {upto}")

    def poll_to(self, member: Any, upto: int) -> None:
        def there() -> bool:
            message = member.poll(0.5)
            return message is not None and message.offset() >= upto - 1

        until(f"order {upto}", PATIENCE_S, there)

    def keep_busy(self) -> None:
        """The thread of the coordinator-to-be assigns for one group, and has more to do."""
        for name in groups_on(STAYS, BUSY):
            group = BusyGroup(name, self.bootstrap)
            self.clients.callback(group.consumer.close)
            until(f"{name} asks", PATIENCE_S, group.has_asked)
            until("an assignment", PATIENCE_S, lambda: self.assigning(1))
        self.say(f"broker {NEW} assigns partitions for {BUSY} groups, one after the other")

    def commit_while_the_follower_pauses(self, member: Any) -> None:
        """The next leader has everything, and waits for more, when the commit is acknowledged: of
        the new high watermark it hears with the next records, or when it asks again."""
        self.poll_to(member, ORDERS)
        before = self.size(OLD)
        self.pause()
        with ThreadPoolExecutor(1) as aside:
            offsets = [TopicPartition(TOPIC, 0, ORDERS)]
            answer = aside.submit(member.commit, offsets=offsets, asynchronous=False)
            until("the commit is written", PATIENCE_S, lambda: self.size(OLD) > before)
            until("it is copied", PATIENCE_S, lambda: self.size(NEW) == self.size(OLD))
            time.sleep(ASKS_AGAIN_S)
            self.resume()
            answer.result(PATIENCE_S)
        self.say(f"{self.group} commits offset {ORDERS}, and is acknowledged")

    def move(self) -> None:
        """Its coordinator shuts down in good order; the next one has yet to begin to load."""
        self.pause()
        self.brokers[OLD].signal(signal.SIGTERM)
        new = self.brokers[NEW]
        scheduled = f"Scheduling loading of metadata from {OFFSETS_TOPIC}-{MOVES} "
        until("another coordinator", PATIENCE_S, lambda: new.said(scheduled))
        self.say(f"broker {OLD} shuts down, broker {NEW} leads {OFFSETS_TOPIC}-{MOVES}")

    def load(self) -> None:
        """The thread ends assignments until it comes to the load; then it assigns again, while
        another thread reads the log."""
        number = 1
        while self.loads() < 2:
            if number == BUSY:
                raise NotInTimeError("the coordinator does not come to the load")
            self.go(number)
            number += 1
            until("the next assignment", PATIENCE_S, partial(self.assigning, number))
        idle = 0
        while idle < 2:
            idle = 0 if self.reads_the_log() else idle + 1
        if self.caught_up(2):
            raise NotInTimeError("the new leader's high watermark was not behind")
        self.say("the load has read the log; its end waits for the thread, which assigns")

    def advance(self) -> None:
        self.resume()
        until("the high watermark to advance", PATIENCE_S, lambda: self.caught_up(5))
        if self.loaded():
            raise NotInTimeError("the load was over before the high watermark advanced")
        self.say("the follower has fetched, and the high watermark is at the end")

    def ask(self) -> int:
        """What consumers that begin now are told of the group."""
        where = [TopicPartition(TOPIC, 0)]
        plain = self.reader(self.group, "plain")
        (found,) = plain.committed(where, 30)
        self.say(f"the committed offset of {self.group} is answered as {found.offset}")
        stable = self.reader(self.group, "stable", "read_committed")
        try:
            (told,) = stable.committed(where, 15)
            self.say(f"and as {told.offset} to a reader that requires it to be stable")
        except KafkaException as refused:
            name = refused.args[0].name()
            self.say(f"a reader that requires it to be stable is not answered: {name}")
        other = self.reader(self.neighbour, "neighbour")
        other.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        (healed,) = plain.committed(where, 30)
        self.say(f"{self.neighbour} commits; {self.group} is answered as {healed.offset}")
        return int(found.offset)

    def loads(self) -> int:
        """How often the broker's coordinator has begun to load a partition."""
        said = self.brokers[NEW].output.read_text(errors="replace")
        return said.count("Transition from INITIAL to LOADING")

    def loaded(self) -> bool:
        over = f"Finished loading of metadata from {OFFSETS_TOPIC}-{MOVES} "
        return self.brokers[NEW].said(over)

    def reads_the_log(self) -> bool:
        process = self.brokers[NEW].process
        assert process is not None
        stacks = subprocess.run(
            ("jcmd", str(process.pid), "Thread.print"), capture_output=True, text=True, check=True
        )
        return "CoordinatorLoaderImpl" in stacks.stdout

    def caught_up(self, seconds: float) -> bool:
        """A new leader does not tell the end before its high watermark is in its own epoch."""
        looks = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "-", "log_level": 0})
        try:
            looks.get_watermark_offsets(TopicPartition(OFFSETS_TOPIC, MOVES), seconds)
        except KafkaException:
            return False
        finally:
            looks.close()
        return True

    def assigning(self, number: int) -> bool:
        return (self.gates / f"started-{number}").exists()

    def go(self, upto: int) -> None:
        """The assignments up to this one may end."""
        for number in range(1, upto + 1):
            (self.gates / f"go-{number}").touch()

    def size(self, broker: int) -> int:
        return self.brokers[broker].log_size(OFFSETS_TOPIC)

    def pause(self) -> None:
        self.brokers[FOLLOWER].signal(signal.SIGSTOP)
        self.say(f"broker {FOLLOWER} pauses")

    def resume(self) -> None:
        self.brokers[FOLLOWER].signal(signal.SIGCONT)
        self.say(f"broker {FOLLOWER} goes on")

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.began:7.3f} s  {what}")


def start(folder: Path, classpath: str, stack: ExitStack) -> tuple[Mapping[int, Node], Path]:
    """The brokers, and the folder by which the assignor is held."""
    gates, classes = folder / "gates", folder / "classes"
    gates.mkdir(parents=True)
    source = Path(__file__).with_name("HeldAssignor.java")
    command = ("javac", "-nowarn", "-cp", classpath, "-d", classes, source)
    subprocess.run(command, check=True)
    nodes = laid_out(folder / "cluster", f"{classes}{os.pathsep}{classpath}")
    for node in nodes.values():
        leads = node.id == CONTROLLER
        node.settings = CONTROLLERS if leads else BROKERS.format(folder=gates)
        node.logging = LOGGING
    return stack.enter_context(started(nodes)), gates


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@jars_option
@classes_option
def main(run: Path, jars: Path | None, classes: Path | None) -> None:
    with recording(run) as (folder, stack):
        brokers, gates = start(folder, class_path(jars, classes), stack)
        with ExitStack() as clients:
            scenario = Scenario(brokers, gates, run, clients)
            offset = scenario.play()
        scan(run, scenario.bootstrap)
    click.echo(f"recorded in {run}; judge it: highwater check {run}")
    if offset != ORDERS:
        click.echo(f"Offset {ORDERS} was acknowledged, and {offset} is what a new reader is told.")
        sys.exit(1)
    click.echo("A new reader is told what was acknowledged: this Kafka hears of it.")


if __name__ == "__main__":
    main()
