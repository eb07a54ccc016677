"""Let the log cleaner of real Kafka overtake the load of a group coordinator, which then fails.

Starts a controller and three brokers. A group of KIP-848 is deleted and begun anew under its name,
by a consumer that is in it both times. The broker that coordinates it shuts down; while the next
one loads, its cleaner removes what the first life of the group ended with. Exit code 1: the load
has failed, and no group of that partition has a coordinator; 0: it has not; 2: the scenario could
not be played.
"""

import re
import signal
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import click
from attrs import define, field
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewTopic

from examples.brokers import (
    CONTROLLER,
    Node,
    NotInTimeError,
    laid_out,
    listens,
    playing,
    started,
    until,
)
from examples.kafka_jars import class_path, classes_option, jars_option
from refimpl.records.coordinators import OFFSETS_TOPIC
from refimpl.wire.messages import write_request
from tests.wire.client import API_KEYS, Client

TOPIC, OTHER, GROUP, FILLER = "orders", "others", "anew", "filler"
PARTITIONS = 2
OLD, NEW, THIRD = 1, 2, 3
#: Changes of the first life's membership: its epochs become larger than those of the second.
CHANGES = 6
CONNECTIONS = 32
#: Commits of another group: so many that a load takes a second, and that a segment ends.
RECORDS, MORE_RECORDS = 60_000, 12_000
STEP = 10 * CONNECTIONS
LAG = "min.compaction.lag.ms"
OFFSETS_CONFIG = {"cleanup.policy": "compact", "segment.bytes": "1048576", LAG: "86400000"}
# A load reads batch by batch and not 5 MB at a time, and commits do not share batches: this load
# takes seconds. The cleaner looks every 0.1 s, not every 15 s.
BROKERS = """\
offsets.topic.num.partitions=1
offsets.load.buffer.size=1
group.coordinator.append.linger.ms=0
log.cleaner.backoff.ms=100
"""


@define
class Member:
    """A consumer of KIP-848, heartbeat by heartbeat; its id is its own as long as it lives."""

    client: Client
    topic: str
    id: str = field(factory=lambda: str(uuid4()))
    epoch: int = 0
    owned: list[dict[str, Any]] = field(factory=list[dict[str, Any]])

    @property
    def partitions(self) -> set[int]:
        return {number for one in self.owned for number in one["partitions"]}

    def beat(self) -> None:
        body: dict[str, Any] = {"group_id": GROUP, "member_id": self.id, "member_epoch": self.epoch}
        body["topic_partitions"] = self.owned
        if self.epoch == 0:
            body |= {"rebalance_timeout": 60_000, "subscribed_topic_names": [self.topic]}
        told = self.client.ask("ConsumerGroupHeartbeat", 1, body)
        if told["error_code"] != "NONE":
            raise NotInTimeError(f"a heartbeat was refused: {told}")
        self.epoch = told["member_epoch"]
        if told["assignment"] is not None:
            given = told["assignment"]["topic_partitions"]
            self.owned = [one | {"topic_id": UUID(one["topic_id"])} for one in given]

    def leave(self) -> None:
        body = {"group_id": GROUP, "member_id": self.id, "member_epoch": -1}
        self.client.ask("ConsumerGroupHeartbeat", 1, body)
        self.epoch, self.owned = 0, []


def commits(port: int, count: int) -> None:
    """Commit an offset of a group without members so often, one after the other."""
    part = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    about = {"group_id": FILLER, "generation_id_or_member_epoch": -1, "member_id": ""}
    values = {**about, "topics": [{"name": TOPIC, "partitions": [part]}]}
    with Client.connect(port) as client:
        told = client.ask("OffsetCommit", 8, values)["topics"][0]["partitions"][0]
        if told["error_code"] != "NONE":
            raise NotInTimeError(f"a commit was refused: {told}")
        key = API_KEYS["OffsetCommit"]
        body = struct.pack(">hhih", key, 8, 1, -1) + b"\0" + write_request(key, 8, values)
        with client.connection.makefile("rb") as answers:
            for _ in range(count):  # the same bytes again: quicker than to write each anew
                client.connection.sendall(struct.pack(">i", len(body)) + body)
                (size,) = struct.unpack(">i", answers.read(4))
                answers.read(size)


@define
class Scenario:
    """What happens, step by step; each step waits until the one before has taken effect."""

    brokers: Mapping[int, Node]
    cleaned: bool
    patience_s: float
    admin: Any = field(init=False)
    began: float = field(factory=time.monotonic)

    def __attrs_post_init__(self) -> None:
        where: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self.admin = AdminClient(where)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.brokers.values())

    def play(self) -> bool:
        """Whether the load has failed."""
        self.create()
        with Client.connect(self.brokers[OLD].port) as client:
            stays, goes, changes = (Member(client, topic) for topic in (TOPIC, TOPIC, OTHER))
            self.live_once(stays, changes)
            self.fill(RECORDS, stays)
            while not self.late_in_a_segment():
                self.fill(STEP, stays, quiet=True)
            stays.leave()
            (deleted,) = client.ask("DeleteGroups", 2, {"groups_names": [GROUP]})["results"]
            self.say(f"the consumer leaves, the group is deleted: {deleted['error_code']}")
            self.live_again(stays, goes, changes)
        self.fill(MORE_RECORDS)
        return self.fail_over()

    def create(self) -> None:
        until("three brokers", 60, lambda: len(self.admin.list_topics(timeout=5).brokers) == 3)
        offsets = NewTopic(OFFSETS_TOPIC, 1, replica_assignment=[[OLD, NEW]], config=OFFSETS_CONFIG)
        topics = [NewTopic(one, PARTITIONS, 3) for one in (TOPIC, OTHER)]
        for created in self.admin.create_topics([offsets, *topics]).values():
            created.result(60)
        with Client.connect(self.brokers[OLD].port) as client:

            def loaded() -> bool:
                body = {"group_id": GROUP, "member_id": str(uuid4()), "member_epoch": -1}
                told = client.ask("ConsumerGroupHeartbeat", 1, body)["error_code"]
                return told == "GROUP_ID_NOT_FOUND"

            until("a coordinator", 60, loaded)

    def together(self, members: Iterable[Member], what: str, owned: Mapping[str, int]) -> None:
        """Heartbeats in this order until all are in one epoch, and own so many partitions."""
        there = list(members)

        def settled() -> bool:
            for one in there:
                one.beat()
            same = len({one.epoch for one in there}) == 1
            return same and all(len(one.partitions) == owned[one.id] for one in there)

        until(what, 60, settled)

    def live_once(self, stays: Member, changes: Member) -> None:
        for _ in range(CHANGES):
            self.together([stays], "alone", {stays.id: 2})
            self.together([changes, stays], "both", {stays.id: 2, changes.id: 2})
            changes.leave()
        before = stays.epoch
        until("the last epoch", 60, lambda: (stays.beat(), stays.epoch > before)[1])
        self.say(f"a consumer has partitions {sorted(stays.partitions)} in epoch {stays.epoch}")

    def live_again(self, stays: Member, goes: Member, changes: Member) -> None:
        self.together([stays], "alone again", {stays.id: 2})
        self.together([stays, goes], "two", {stays.id: 1, goes.id: 1})
        self.together([changes, goes, stays], "three", {stays.id: 1, goes.id: 1, changes.id: 2})
        self.say(
            f"the group has begun anew: the consumer has {sorted(stays.partitions)}, another one "
            f"{sorted(goes.partitions)}, in epoch {stays.epoch}"
        )

    def late_in_a_segment(self) -> bool:
        """Whether what comes next is near the end of a segment, which is cleaned before a load that
        begins with it comes to that."""
        newest = max((self.brokers[OLD].folder / "data" / f"{OFFSETS_TOPIC}-0").glob("*.log"))
        return 0.86 < newest.stat().st_size / int(OFFSETS_CONFIG["segment.bytes"]) < 0.94

    def fill(self, count: int, alive: Member | None = None, *, quiet: bool = False) -> None:
        """Commits of another group; meanwhile a member may send heartbeats."""
        with ThreadPoolExecutor(CONNECTIONS) as aside:
            port, each = self.brokers[OLD].port, count // CONNECTIONS
            under_way = [aside.submit(commits, port, each) for _ in range(CONNECTIONS)]
            while not all(one.done() for one in under_way):
                if alive is not None:
                    alive.beat()
                time.sleep(0.05)
            for one in under_way:
                one.result()
        if not quiet:
            self.say(f"{count} commits of another group")

    def fail_over(self) -> bool:
        new, segment = self.brokers[NEW], f"{OFFSETS_TOPIC}-0"
        self.brokers[OLD].signal(signal.SIGTERM)
        self.say(f"SIGTERM to broker {OLD}, the coordinator")
        until("a load", 60, lambda: new.said(f"Scheduling loading of metadata from {segment} "))
        self.say(f"broker {NEW} begins to load")
        if self.cleaned:
            how = AlterConfigOpType.SET
            entry = ConfigEntry(LAG, "0", incremental_operation=how)
            resource = ConfigResource(
                ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=[entry]
            )
            self.admin.incremental_alter_configs([resource])[resource].result(60)
            self.say("the log may be cleaned")
        until(
            "the load to end", 120, lambda: new.said(rf"(Finished|Failed).* {segment} with epoch")
        )
        failed = new.said(f"Failed to load metadata from {segment} ")
        self.say("the load has failed" if failed else "the load is over")
        if failed:
            said = new.output.read_text(errors="replace")
            self.say(re.findall("Caused by: .*(Cannot set the epoch.*)", said)[-1])
            self.watch(new)
        return failed

    def watch(self, new: Node) -> None:
        """What another group's offset is asked for, time and again; then the broker restarts."""
        end, told = time.monotonic() + self.patience_s, Counter[str]()
        while time.monotonic() < end:
            told[self.fetch(new)] += 1
            time.sleep(0.5)
        self.say(f"asked for {self.patience_s:.0f} s, it answers {dict(told)}")
        with Client.connect(self.brokers[THIRD].port) as client:
            asked = {"key_type": 0, "coordinator_keys": [FILLER]}
            (found,) = client.ask("FindCoordinator", 4, asked)["coordinators"]
        self.say(f"and broker {THIRD} names {found['node_id']} as the coordinator")
        new.signal(signal.SIGTERM)
        new.wait()
        new.start()
        until("the offset", 120, lambda: listens(new) and self.fetch(new) == "offset 7")
        self.say(f"broker {NEW} has started again, and knows the offset")

    def fetch(self, broker: Node) -> str:
        """The answer of a broker to a request for the other group's offset."""
        asked = [{"name": TOPIC, "partition_indexes": [0]}]
        with Client.connect(broker.port) as client:
            group = {"group_id": FILLER, "topics": asked}
            (told,) = client.ask("OffsetFetch", 8, {"groups": [group]})["groups"]
        if told["error_code"] != "NONE":
            return str(told["error_code"])
        return f"offset {told['topics'][0]['partitions'][0]['committed_offset']}"

    def say(self, what: str) -> None:
        click.echo(f"{time.monotonic() - self.began:7.3f} s  {what}")


@click.command(help=__doc__)
@jars_option
@classes_option
@click.option("--not-cleaned", is_flag=True, help="The log is not cleaned during the load.")
@click.option("--patience", type=float, default=30, show_default=True, help="Seconds to wait.")
def main(
    jars: Path | None,
    classes: Path | None,
    not_cleaned: bool,
    patience: float,
) -> None:
    with playing(), ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        nodes = laid_out(folder / "cluster", class_path(jars, classes))
        for id, node in nodes.items():
            if id != CONTROLLER:
                node.settings = BROKERS
        brokers = running.enter_context(started(nodes))
        failed = Scenario(brokers, not not_cleaned, patience).play()
    click.echo("the load has failed" if failed else "the load has succeeded")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
