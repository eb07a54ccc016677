"""A coordinator's records within a transaction, and the transaction's end (KIP-447)."""

from typing import NamedTuple, TypeAlias

from refimpl.records.coordinators import CoordinatorRecord


class InTransaction(NamedTuple):
    """A record that counts once this producer's transaction is committed."""

    record: CoordinatorRecord
    producer_id: int


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer_id: int
    committed: bool


Entry: TypeAlias = CoordinatorRecord | InTransaction | TransactionEnd
"""An entry of a coordinator's log."""
