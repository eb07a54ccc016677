"""All operations: what fills the catalogue."""

from tests.kafka.everyday import alone, brokers, groups, topics, transactions
from tests.kafka.everyday.catalogue import OPERATIONS

__all__ = ["OPERATIONS", "alone", "brokers", "groups", "topics", "transactions"]
