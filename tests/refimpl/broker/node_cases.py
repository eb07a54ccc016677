"""A node that leads orders-0 with two followers, and what is said to it."""

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.file_logs import FileLogs
from refimpl.broker.node import Node
from refimpl.broker.partition import Partition
from refimpl.configs import Configs
from refimpl.machines.messages import LeaderAndIsr
from refimpl.messages import broker as m
from refimpl.messages.cluster import (
    BrokerRegistration,
    Change,
    PartitionRegistration,
    TopicCreated,
)
from refimpl.messages.controller import (
    CONTROLLER,
    BrokerRegistrationResponse,
    UpdateMetadataRequest,
)
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.interface import Disk, MemoryDisk
from refimpl.storage.format.batch import Record, encode_batch
from tests.refimpl.storage.verified import guard_for

ORDERS = m.TopicPartition("orders", 0)
TOPIC_ID = b"orders".ljust(16, b"-")
CLIENT, EPOCH = 100, 7


def batch_of(*values: bytes, at_ms: int = 0, **of: Any) -> bytes:
    """A batch of records of one time."""
    return encode_batch([Record(n, at_ms, None, value) for n, value in enumerate(values)], **of)


@define
class FailingDisk(MemoryDisk):
    """A disk that fails from some moment on."""

    broken: bool = False

    def append(self, path: str, *parts: bytes | bytearray | memoryview) -> None:
        if self.broken:
            raise OSError(5, "Input/output error")
        super().append(path, *parts)

    def rename(self, old: str, new: str) -> None:
        if self.broken:
            raise OSError(5, "Input/output error")
        super().rename(old, new)


@define
class Cluster:
    """One node, its clock, and who talks to it."""

    config: BrokerConfig = field(factory=BrokerConfig)
    logs: LogConfig = field(factory=LogConfig)
    disk: Disk = field(factory=MemoryDisk)
    min_isr: int = 1
    #: What the node finds when it starts
    here: Sequence[m.TopicPartition] = ()
    configs: Configs | None = None
    now: int = 1_000
    number: int = 0
    numbers: dict[int, int] = field(factory=dict[int, int])
    versions: int = 0
    node: Node = field(init=False)
    told: list[Any] = field(factory=list[Any])

    def __attrs_post_init__(self) -> None:
        """Start the node, and let it be registered."""
        ids = {ORDERS.topic: TOPIC_ID}
        logs = FileLogs(self.disk, lambda: self.now, self.logs, topic_ids=ids)
        self.node = Node(1, self.config, logs, {"orders": self.min_isr}, 1, configs=self.configs)
        started = self.node.start(self.now, self.here)
        (asked,) = [one for one in started if isinstance(one, m.Request)]
        answer = BrokerRegistrationResponse(None, EPOCH)
        self.node.handle(self.now, m.Response(CONTROLLER, 1, asked.correlation_id, answer))

    @property
    def partition(self) -> Partition:
        return self.node.partitions[ORDERS]

    def decide(
        self,
        leader: int,
        epoch: int,
        isr: Sequence[int] = (1, 2, 3),
        topic_id: bytes = TOPIC_ID,
        fenced: Sequence[int] = (),
        racks: Mapping[int, str] | None = None,
        replicas: tuple[int, ...] = (1, 2, 3),
        partitions: Sequence[m.TopicPartition] = (ORDERS,),
        *,
        full: bool = True,
    ) -> list[Any]:
        """News of the controller: the same decision for each of these partitions, and all else
        where it is `full`."""
        decision = LeaderAndIsr(epoch, leader, frozenset(isr), self.versions + 1)
        brokers = [
            BrokerRegistration(
                one, EPOCH, 1, fenced=one in fenced, rack=racks.get(one) if racks else None
            )
            for one in (1, 2, 3)
        ]
        ids = {one.topic: one.topic.encode().ljust(16, b"-") for one in partitions}
        ids[ORDERS.topic] = topic_id
        topics = [TopicCreated(name, id) for name, id in ids.items()]
        decided = [
            PartitionRegistration(one, ids[one.topic], decision, replicas) for one in partitions
        ]
        changes = (*brokers, *topics, *decided) if full else tuple(decided)
        return self.news(*changes, full=full)

    def news(self, *changes: Change, full: bool = False) -> list[Any]:
        """Send the controller's next metadata update."""
        self.versions += 1
        return self.ask(UpdateMetadataRequest(EPOCH, self.versions, changes, full), CONTROLLER)

    def ask(self, body: Any, source: int = CLIENT) -> list[Any]:
        """Handle a request, and return the messages that follow."""
        self.number += 1
        outputs = list(self.node.handle(self.now, m.Request(source, 1, self.number, body)))
        self.told += outputs
        return [one.body for one in outputs if isinstance(one, m.Request | m.Response)]

    def produce(self, *batches: bytes, acks: int = 1, timeout_ms: int = 100) -> list[Any]:
        body = m.ProduceRequest(acks, timeout_ms, [(ORDERS, b"".join(batches))])
        return self.ask(body)

    def begin(self, batch: bytes) -> None:
        """A transaction begins, as if its coordinator had verified it."""
        guard = guard_for(self.partition.log, batch, self.now)
        self.partition.replica.write(batch, acks_all=False, guard=guard)

    def follow(self, follower: int, end: int, epoch: int = 1, **of: Any) -> list[Any]:
        """A follower fetches from its end."""
        number = self.numbers[follower] = self.numbers.get(follower, 0) + 1
        last = self.partition.log.epoch_at(end - 1) if end else -1
        asked = m.FetchPartition(ORDERS, end, epoch, last, number, **of)
        body = m.FetchRequest((asked,), 0, replica_id=follower, replica_epoch=follower)
        return self.ask(body, follower)

    def catch_up(self) -> list[m.Response]:
        """Both followers have everything; answers what that answers."""
        known = len(self.told)
        for follower in (2, 3):
            self.follow(follower, self.partition.log.end)
        return [one for one in self.told[known:] if isinstance(one, m.Response)]

    def fetch(self, offset: int, **of: Any) -> list[Any]:
        per = {name: of.pop(name) for name in ("max_bytes",) if name in of}
        of.setdefault("max_wait_ms", 0)
        return self.ask(m.FetchRequest((m.FetchPartition(ORDERS, offset, **per),), **of))

    def later(self, ms: int) -> list[Any]:
        """Time passes, and the timers that were set go off."""
        self.now += ms
        due = [one for one in self.told if isinstance(one, m.Timer) and one.at_ms <= self.now]
        self.told = [one for one in self.told if one not in due]
        found: list[Any] = []
        for timer in due:
            outputs = self.node.handle(self.now, timer)
            self.told += outputs
            found += [one.body for one in outputs if isinstance(one, m.Response)]
        return found


def leading(**of: Any) -> Cluster:
    """A node that leads in epoch 1."""
    cluster = Cluster(**of)
    cluster.decide(1, 1)
    return cluster


def following(
    *, partitions: Sequence[m.TopicPartition] = (ORDERS,), **of: Any
) -> tuple[Cluster, m.Request]:
    """A node that follows 2 and waits for its answer."""
    cluster = Cluster(**of)
    cluster.decide(2, 1, partitions=partitions)
    (asked,) = [one for one in cluster.told if isinstance(one, m.Request) and one.target == 2]
    return cluster, asked


def answer(cluster: Cluster, asked: m.Request, *fetched: m.FetchedPartition) -> list[m.Request]:
    outputs = answer_outputs(cluster, asked, *fetched)
    return [one for one in outputs if isinstance(one, m.Request)]


def answer_outputs(
    cluster: Cluster, asked: m.Request, *fetched: m.FetchedPartition
) -> Sequence[Any]:
    response = m.Response(2, 1, asked.correlation_id, m.FetchResponse(fetched, 1))
    return cluster.node.handle(cluster.now, response)
