"""Interceptors of a client (KIP-42): objects with some of Kafka's methods.

`configure(config)` and `close()`; for a producer `on_send(record)` which returns a record, and
`on_acknowledgement(metadata, error)`; for a consumer `on_consume(records)` which returns records,
and `on_commit(offsets)`. One that raises is logged and passed over, as in Kafka.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from refimpl.edge.clients.fetched import ConsumerRecord
from refimpl.edge.clients.records import ProducerRecord, RecordMetadata, SendError
from refimpl.messages.broker import TopicPartition

log = logging.getLogger(__name__)


@frozen
class Interceptors:
    """All of them, in their order."""

    objects: Sequence[Any]

    def configure(self, config: Mapping[str, Any]) -> None:
        """Tell each the settings; what it raises ends the client's start."""
        for one in self._with("configure"):
            one.configure(config)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record after all of them, each of which sees what the one before has returned."""
        for one in self._with("on_send"):
            try:
                changed = one.on_send(record)
            except Exception:
                log.warning("on_send of %r failed, and is passed over", one, exc_info=True)
            else:
                record = changed if isinstance(changed, ProducerRecord) else record
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: SendError | None) -> None:
        """Tell each what became of a record."""
        for one in self._with("on_acknowledgement"):
            try:
                one.on_acknowledgement(metadata, error)
            except Exception:
                log.warning("on_acknowledgement of %r failed", one, exc_info=True)

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """The records after all of them, as for `on_send`."""
        for one in self._with("on_consume"):
            try:
                records = [*one.on_consume(records)]
            except Exception:
                log.warning("on_consume of %r failed, and is passed over", one, exc_info=True)
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell each what is committed."""
        for one in self._with("on_commit"):
            try:
                one.on_commit(offsets)
            except Exception:
                log.warning("on_commit of %r failed", one, exc_info=True)

    def close(self) -> None:
        """Tell each that the client has ended."""
        for one in self._with("close"):
            try:
                one.close()
            except Exception:
                log.warning("close of %r failed", one, exc_info=True)

    def _with(self, method: str) -> Sequence[Any]:
        return [one for one in self.objects if hasattr(one, method)]
