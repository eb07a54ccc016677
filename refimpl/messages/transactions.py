"""Messages between a transaction coordinator and the leaders of partitions: markers (KIP-98).

Named tuples, as in `refimpl.messages.broker`. An error is Kafka's name of it, or None.
"""

from collections.abc import Mapping
from typing import NamedTuple

from refimpl.messages.broker import TopicPartition

DEFAULT_ERROR, GENERIC_ERROR, ADD_PARTITION = 0, 1, 2
"""The support of KIP-890 in the version of a client's Produce or TxnOffsetCommit: none; it knows
TRANSACTION_ABORTABLE; it leaves it to the leader to add partitions (transaction.version 2).
"""


class TxnMarker(NamedTuple):
    """The end of a producer's transaction in these partitions, as its coordinator decided it.

    `transaction_version` is the finalized feature under which it was decided: since 2 the epoch of
    a marker is a new one (KIP-890, KIP-1228). Version 1 of the request does not name it: 0.
    """

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    transaction_version: int = 0


class WriteTxnMarkersRequest(NamedTuple):
    """Write these markers; a coordinator sends it to each leader, an operator to abort."""

    markers: tuple[TxnMarker, ...]


class WriteTxnMarkersResponse(NamedTuple):
    """The result for each partition of each producer id, once it is below the high watermark."""

    errors: Mapping[int, Mapping[TopicPartition, str | None]]
