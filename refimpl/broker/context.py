"""The state that the parts of a node share: its identity, its partitions, and its outputs."""

from collections.abc import Container
from typing import Any

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.errors import NotLeaderOrFollower, PartitionOffline, UnknownTopicOrPartition
from refimpl.broker.partition import Partition
from refimpl.errors import Refusal, StorageOffline
from refimpl.messages.broker import Request, Response, TopicPartition
from refimpl.messages.controller import CONTROLLER
from refimpl.messages.observations import Refused
from refimpl.named import named

_PROCESS_BITS = 20


@define(eq=False, repr=False)
class Context:
    """One broker process."""

    id: int
    config: BrokerConfig
    #: Counts the processes of this broker
    incarnation_id: int
    partitions: dict[TopicPartition, Partition] = field(factory=dict[TopicPartition, Partition])
    #: The partitions of the cluster, as far as this broker knows
    known: Container[TopicPartition] = ()
    #: Partitions whose log failed, and the reason; they stay so until the process starts again
    offline: dict[TopicPartition, str] = field(factory=dict[TopicPartition, str])
    #: True if a log has failed since the last check
    storage_failed: bool = False
    #: The broker epoch of this process; -1 until it is registered
    broker_epoch: int = -1
    #: The controller, as far as we know
    controller: int = CONTROLLER
    outputs: list[Any] = field(factory=list[Any])
    requests: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Choose request numbers that differ from those of earlier processes; 31 bits fit on the
        wire.
        """
        self.requests = (self.incarnation_id % 2048) << _PROCESS_BITS

    def partition(self, name: TopicPartition) -> Partition:
        """The partition of this name; raises a refusal if it does not exist here, or is offline.

        A partition of other brokers is refused in another way than one that nobody knows: a client
        that came to the wrong broker has to look for the leader again.
        """
        partition = self.partitions.get(name)
        if partition is not None:
            return partition
        if name in self.offline:
            raise PartitionOffline(self.id, name, self.offline[name])
        if name in self.known:
            raise NotLeaderOrFollower(self.id, name)
        raise UnknownTopicOrPartition(self.id, name)

    def refused(self, what: str, refusal: Refusal) -> None:
        """Report a refusal; one by a failed disk is handled after this input."""
        self.outputs.append(Refused(what, refusal.kafka_error))
        if isinstance(refusal, StorageOffline):
            self.storage_failed = True

    def is_ours(self, response: Response) -> bool:
        """True if a response answers this process, not an earlier one."""
        return response.correlation_id >> _PROCESS_BITS == self.requests >> _PROCESS_BITS

    def request(self, target: int, body: Any) -> int:
        """Send a request, if the target is known; return its correlation id."""
        self.requests += 1
        if target >= 0:
            self.outputs.append(named(Request, (self.id, target, self.requests, body)))
        return self.requests

    def respond(self, request: Request, body: Any) -> None:
        """Answer a request."""
        source, target, correlation_id, _ = request
        self.outputs.append(named(Response, (target, source, correlation_id, body)))
