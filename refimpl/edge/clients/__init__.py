"""Clients on sockets: `AsyncProducer` for an event loop, `Producer` for threads.

The rules are those of the machines in `refimpl.clients`; here are connections, clocks and bytes.
"""

from refimpl.edge.clients.async_producer import AsyncProducer
from refimpl.edge.clients.blocking_producer import Producer
from refimpl.edge.clients.records import ProducerRecord, RecordMetadata, SendError

__all__ = ["AsyncProducer", "Producer", "ProducerRecord", "RecordMetadata", "SendError"]
