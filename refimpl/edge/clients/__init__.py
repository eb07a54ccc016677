"""Clients on sockets: `AsyncProducer` and `AsyncConsumer` for event loops, the others for threads.

The rules are those of the machines in `refimpl.clients`; here are connections, clocks and bytes.
"""

from refimpl.clients.producer.messages import GroupMetadata
from refimpl.edge.clients.async_consumer import AsyncConsumer
from refimpl.edge.clients.async_producer import AsyncProducer
from refimpl.edge.clients.blocking_consumer import Consumer
from refimpl.edge.clients.blocking_producer import Producer
from refimpl.edge.clients.consuming import ConsumerError
from refimpl.edge.clients.fetched import ConsumerRecord
from refimpl.edge.clients.records import (
    ProducerRecord,
    RecordMetadata,
    SendError,
    TransactionError,
)

__all__ = [
    "AsyncConsumer",
    "AsyncProducer",
    "Consumer",
    "ConsumerError",
    "ConsumerRecord",
    "GroupMetadata",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "SendError",
    "TransactionError",
]
