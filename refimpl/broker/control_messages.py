"""What brokers, operators and the controller say to each other, under Kafka's names.

Named tuples, as in `refimpl.broker.messages`; an error is the name that Kafka's clients know, or
None.
"""

from collections.abc import Sequence
from typing import NamedTuple

from refimpl.broker.messages import TopicPartition
from refimpl.machines import messages as machines
from refimpl.machines.messages import LeaderAndIsr


class BrokerRegistrationRequest(NamedTuple):
    """A broker process has started (KIP-631).

    `incarnation_id` grows with each start; `previous_broker_epoch` is that of the last process if
    it ended in a controlled shutdown, else -1 (KIP-966).
    """

    broker_id: int
    incarnation_id: int
    previous_broker_epoch: int


class BrokerRegistrationResponse(NamedTuple):
    """The broker epoch under which everything else is said."""

    error: str | None
    broker_epoch: int


class BrokerHeartbeatRequest(NamedTuple):
    """A broker lives, and knows the metadata up to this version."""

    broker_id: int
    broker_epoch: int
    metadata_version: int
    want_shut_down: bool


class BrokerHeartbeatResponse(NamedTuple):
    """Whether the broker may end: it leads nothing any more."""

    error: str | None
    should_shut_down: bool


class AlterPartitionRequest(NamedTuple):
    """A leader asks for another ISR (KIP-497)."""

    partition: TopicPartition
    change: machines.AlterPartitionRequest


class AlterPartitionResponse(NamedTuple):
    """What is in force now, and why that is not what was asked for, if it is not."""

    partition: TopicPartition
    outcome: machines.AlterPartitionResponse


class PartitionState(NamedTuple):
    """A decision of the controller about one partition."""

    partition: TopicPartition
    decision: LeaderAndIsr


class LeaderAndIsrRequest(NamedTuple):
    """News of the metadata for the broker of this epoch: everything, or what changed last."""

    broker_epoch: int
    metadata_version: int
    partitions: Sequence[PartitionState]
    is_full: bool


class ElectLeadersRequest(NamedTuple):
    """An operator wants this broker to lead (KIP-460)."""

    partition: TopicPartition
    broker_id: int


class Stopped(NamedTuple):
    """As an output: the controlled shutdown is over, and the process may end."""
