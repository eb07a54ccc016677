"""The observations that members of a share group make of their own steps."""

from collections.abc import Mapping
from typing import NamedTuple

from refimpl.messages.broker import TopicPartition


class SharesAcknowledged(NamedTuple):
    """A member has sent acknowledgements: a type for each offset."""

    member_id: str
    broker: int
    partition: TopicPartition
    types: Mapping[int, int]


class SharesAnswered(NamedTuple):
    """A member is told that its acknowledgements count, or the error."""

    member_id: str
    broker: int
    partition: TopicPartition
    types: Mapping[int, int]
    error: str | None


class ShareSessionOver(NamedTuple):
    """A member ends its session at a broker, or its connection is gone."""

    member_id: str
    broker: int
    connection: int
