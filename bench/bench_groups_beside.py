"""Groups on our broker beside real Kafka: the same members, the same requests, as ratios.

    python bench/bench_groups_beside.py [--systems ours,kafka] [--groups 50]

Members speak the protocol and nothing else: no records are read. What is told is the processor
time of the broker alone. Needs Maven and a JDK for Kafka. A ratio is Kafka's time to ours: above 1
we are better.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from attrs import define, field
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from bench_beside import System, kafka, ours  # noqa: E402

from refimpl.records.consumer_protocol import Subscription  # noqa: E402
from refimpl.records.schema import INT16, write  # noqa: E402
from tests.wire.client import Client  # noqa: E402

SYSTEMS: dict[str, Callable[[int], Any]] = {"ours": ours, "kafka": kafka}
TOPIC, PARTITIONS, SIZE, TOGETHER, COMMITS, COMMITTERS = "groups", 12, 10, 100, 4000, 8
SUBSCRIPTION = INT16.packing.pack(0) + write(Subscription(topics=(TOPIC,)), 0)
SESSION_MS, PAUSE_S, PATIENCE_S = 45_000, 0.3, 300
RETRIABLE = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
_names = count()


@define(eq=False)
class Group:
    """One group that settles: how far each of its members is."""

    port: int
    size: int
    id: str = field(factory=lambda: f"bench-{next(_names)}-{uuid4()}")
    at: dict[int, tuple[int, int]] = field(factory=dict[int, tuple[int, int]])
    lock: threading.Lock = field(factory=threading.Lock)
    ends: float = field(factory=lambda: time.monotonic() + PATIENCE_S)

    def says(self, member: int, epoch: int, partitions: int = 0) -> bool:
        """A member is in this epoch, with so many partitions; whether all are, with all of them."""
        assert time.monotonic() < self.ends, f"{self.id} does not settle: {self.at}"
        with self.lock:
            self.at[member] = epoch, partitions
            same = len({epoch for epoch, _ in self.at.values()}) == 1
            return len(self.at) == self.size and same

    def is_whole(self, partitions: int) -> bool:
        """True if members have so many partitions together."""
        return sum(one for _, one in self.at.values()) == partitions


def classic(group: Group, member: int) -> None:
    """Join, take the assignment, and live until all are in one generation."""
    with Client.connect(group.port) as client:
        id, protocols = "", [{"name": "range", "metadata": SUBSCRIPTION}]
        times = {"session_timeout": SESSION_MS, "rebalance_timeout": SESSION_MS}
        about: dict[str, Any] = {"group_id": group.id}
        while True:
            asked = {**about, **times, "protocol_type": "consumer", "protocols": protocols}
            joined = client.ask("JoinGroup", 9, {**asked, "member_id": id})
            id = joined["member_id"] or id
            if joined["error_code"] != "NONE":
                assert joined["error_code"] in (*RETRIABLE, "MEMBER_ID_REQUIRED"), joined
                if joined["error_code"] in RETRIABLE:
                    time.sleep(PAUSE_S)
                continue
            who = {**about, "member_id": id, "generation_id": joined["generation_id"]}
            given = [
                {"member_id": one["member_id"], "assignment": b"assigned"}
                for one in joined["members"]
            ]
            named = {"protocol_type": "consumer", "protocol_name": joined["protocol_name"]}
            synced = client.ask("SyncGroup", 5, {**who, **named, "assignments": given})
            alive = synced["error_code"]
            assert alive in ("NONE", "REBALANCE_IN_PROGRESS", *RETRIABLE), synced
            while alive == "NONE":
                if group.says(member, joined["generation_id"]):
                    return
                time.sleep(PAUSE_S)
                alive = client.ask("Heartbeat", 4, who)["error_code"]


def consumer(group: Group, member: int) -> None:
    """Join, acknowledge what is assigned, and live until all have their target (KIP-848)."""
    with Client.connect(group.port) as client:
        about: dict[str, Any] = {"group_id": group.id, "member_id": str(uuid4())}
        epoch, has = 0, 0
        owned: list[dict[str, Any]] = []
        while True:
            body = {**about, "member_epoch": epoch, "topic_partitions": owned}
            if epoch == 0:
                body |= {"rebalance_timeout": SESSION_MS, "subscribed_topic_names": [TOPIC]}
            told = client.ask("ConsumerGroupHeartbeat", 1, body)
            if told["error_code"] == "NONE":
                epoch = told["member_epoch"]
                if told["assignment"] is not None:
                    parts: list[dict[str, Any]] = told["assignment"]["topic_partitions"]
                    has = sum(len(one["partitions"]) for one in parts)
                    owned = [one | {"topic_id": UUID(one["topic_id"])} for one in parts]
            settled = group.says(member, epoch, has) and group.is_whole(PARTITIONS)
            if settled and epoch:
                return
            time.sleep(PAUSE_S)


def _port(system: System) -> int:
    return int(system.bootstrap.rpartition(":")[2])


def settle(system: System, members: Callable[[Group, int], None], groups: int, size: int) -> float:
    """CPU-seconds of the broker until so many groups of this size are settled."""
    port = _port(system)
    all_groups = [Group(port, size) for _ in range(groups)]
    with Client.connect(port) as client:
        for group in all_groups:
            _find(client, group.id)
    before = system.cpu()
    with ThreadPoolExecutor(groups * size) as pool:
        jobs = [pool.submit(members, group, n) for group in all_groups for n in range(size)]
        for job in jobs:
            job.result()
    return system.cpu() - before


def _find(client: Client, group: str) -> None:
    """Until the group has a coordinator: the topic is made on the way."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        asked = {"key_type": 0, "coordinator_keys": [group]}
        (found,) = client.ask("FindCoordinator", 4, asked)["coordinators"]
        if found["error_code"] == "NONE":
            return
        time.sleep(PAUSE_S)
    raise TimeoutError(f"{group} has no coordinator")


def commit(system: System) -> float:
    """CPU-seconds of the broker for so many commits, one after the other on each connection."""
    port = _port(system)

    def commits(number: int) -> None:
        with Client.connect(port) as client:
            group = f"commits-{number}"
            _find(client, group)
            for offset in range(COMMITS // COMMITTERS):
                part = {"partition_index": 0, "committed_offset": offset}
                part |= {"committed_leader_epoch": -1, "committed_metadata": ""}
                topics = [{"name": TOPIC, "partitions": [part]}]
                who = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
                answer = client.ask("OffsetCommit", 9, {**who, "topics": topics})
                (done,) = answer["topics"][0]["partitions"]
                assert done["error_code"] in ("NONE", *RETRIABLE), done

    commits(0)
    before = system.cpu()
    with ThreadPoolExecutor(COMMITTERS) as pool:
        list(pool.map(commits, range(COMMITTERS)))
    return system.cpu() - before


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure each row on all systems in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default="ours,kafka")
    parser.add_argument("--groups", type=int, default=50)
    given = parser.parse_args(arguments)
    rows: dict[str, Callable[[System], float]] = {
        f"{given.groups} classic groups of {SIZE} settle": lambda system: settle(
            system, classic, given.groups, SIZE
        ),
        f"{TOGETHER} members join one classic group": lambda system: settle(
            system, classic, 1, TOGETHER
        ),
        f"{given.groups} consumer groups of {SIZE} settle": lambda system: settle(
            system, consumer, given.groups, SIZE
        ),
        f"{TOGETHER} members join one consumer group": lambda system: settle(
            system, consumer, 1, TOGETHER
        ),
        f"{COMMITS} commits": commit,
    }
    with ExitStack() as stack:
        systems = [stack.enter_context(SYSTEMS[name](1)) for name in given.systems.split(",")]
        table = Table("broker's CPU-s", *(one.name for one in systems), "ratio")
        for system in systems:
            with Client.connect(_port(system)) as client:
                topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1}
                client.ask("CreateTopics", 7, {"topics": [topic], "timeout": 60_000})
        for name, measure in rows.items():
            took = [measure(system) for system in systems]
            table.add_row(name, *(f"{one:.2f}" for one in took), f"{took[-1] / took[0]:.2f}")
            print(name, took, flush=True)
        Console().print(table)


if __name__ == "__main__":
    main()
