"""What the parts of a node share: who they are, their partitions, and where outputs go."""

from typing import Any

from attrs import define, field

from refimpl.broker.config import BrokerConfig
from refimpl.broker.messages import Request, Response, TopicPartition
from refimpl.broker.partition import Partition

CONTROLLER = 0
"""The node id under which the controller is reached."""

_PROCESS_BITS = 20


@define(eq=False)
class Context:
    """One broker process."""

    id: int
    config: BrokerConfig
    #: Counts the processes of this broker
    incarnation_id: int
    partitions: dict[TopicPartition, Partition] = field(factory=dict[TopicPartition, Partition])
    #: What the controller calls this process; -1 until it is registered
    broker_epoch: int = -1
    outputs: list[Any] = field(factory=list[Any])
    requests: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Number our requests unlike those of earlier processes; 31 bits fit on the wire."""
        self.requests = (self.incarnation_id % 2048) << _PROCESS_BITS

    def is_ours(self, response: Response) -> bool:
        """Whether a response answers this process, and not one before it."""
        return response.correlation_id >> _PROCESS_BITS == self.requests >> _PROCESS_BITS

    def request(self, target: int, body: Any) -> int:
        """Send a request; answers its correlation id."""
        self.requests += 1
        self.outputs.append(Request(self.id, target, self.requests, body))
        return self.requests

    def respond(self, request: Request, body: Any) -> None:
        """Answer a request."""
        source, target, correlation_id, _ = request
        self.outputs.append(Response(target, source, correlation_id, body))
