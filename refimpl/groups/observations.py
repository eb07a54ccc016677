"""Observations of group coordinators: loaded, an operation done or refused, unloaded."""

from typing import NamedTuple

from refimpl.groups.operation import Performed
from refimpl.groups.store import GroupStore
from refimpl.messages.broker import TopicPartition


class GroupsLoaded(NamedTuple):
    """A broker coordinates the groups of a partition, which it has read up to here: the groups and
    offsets that it found."""

    partition: TopicPartition
    end: int
    store: GroupStore


class GroupOperation(NamedTuple):
    """A coordinator has done what a request or a timer asked for, or refused it."""

    partition: TopicPartition
    performed: Performed


class GroupsUnloaded(NamedTuple):
    """A broker coordinates the groups of a partition no more."""

    partition: TopicPartition
