"""A node's observations of its coordinators."""

from typing import Any, NamedTuple

from refimpl.coordinator.operation import Performed
from refimpl.messages.broker import TopicPartition


class CoordinatorLoaded(NamedTuple):
    """A broker coordinates a partition, and has replayed its log up to `end` into `shard`."""

    partition: TopicPartition
    end: int
    shard: Any


class CoordinatorOperation(NamedTuple):
    """A coordinator has carried out a request or a timer, or refused it."""

    partition: TopicPartition
    performed: Performed


class CoordinatorUnloaded(NamedTuple):
    """A broker no longer coordinates a partition."""

    partition: TopicPartition


class LogPruned(NamedTuple):
    """A coordinator has deleted the records of its log below `start`: no load needs them."""

    partition: TopicPartition
    start: int
