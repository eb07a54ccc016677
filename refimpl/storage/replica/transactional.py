"""The producer of transactional batches, as the logs in files and in memory name it."""

from typing import NamedTuple


class Writer(NamedTuple):
    """A producer in one epoch."""

    producer_id: int
    producer_epoch: int


class TransactionalBatch(NamedTuple):
    """The claims of a batch that is part of a transaction."""

    producer_id: int
    producer_epoch: int
    base_sequence: int
