"""The observations that transactional clients make of their own steps."""

from collections.abc import Sequence
from typing import NamedTuple

from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.transactional import Writer

BASE, STRIDE = 5_000_000_000, 1_000
"""The values of a transaction: `BASE` + its number * `STRIDE`, and counting on."""


def number_of(value: int) -> int:
    """The number of the transaction that a value was written in."""
    return (value - BASE) // STRIDE


class InstanceBegan(NamedTuple):
    """An instance of a transactional id asks for its first epoch."""

    transactional_id: str
    client: int


class Initialised(NamedTuple):
    """An instance has an epoch; it had one before if it asked for it by its epoch (KIP-360)."""

    transactional_id: str
    client: int
    at: Writer
    again: bool


class TransactionBegan(NamedTuple):
    """A client begins a transaction; an application has taken these records of its input."""

    number: int
    transactional_id: str
    at: Writer
    inputs: Sequence[tuple[TopicPartition, int, int]]
    """Partition, offset, and the value that is written for it."""


class WriteAcknowledged(NamedTuple):
    """A leader acknowledged values of a transaction."""

    number: int
    partition: TopicPartition
    values: Sequence[int]


class OffsetsAcknowledged(NamedTuple):
    """The group's coordinator took the offsets of a transaction."""

    number: int


class EndAsked(NamedTuple):
    """A client asks for the end of its transaction."""

    number: int
    committed: bool


class EndTold(NamedTuple):
    """A client is told that its transaction has ended as it asked."""

    number: int
    committed: bool


class InstanceFenced(NamedTuple):
    """An instance may not go on; if it has a transaction, it does not know how that one ends."""

    transactional_id: str
    client: int
    number: int
    error: str


class CommittedRead(NamedTuple):
    """A reader of committed records was handed this value."""

    partition: TopicPartition
    offset: int
    value: int
