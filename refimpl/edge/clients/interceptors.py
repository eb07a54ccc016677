"""Interceptors of a producer (KIP-42): objects with some of Kafka's methods.

`configure(config)`, `on_send(record)` which returns a record, `on_acknowledgement(metadata, error)`
and `close()`. One that raises is logged and passed over, as in Kafka.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from refimpl.edge.clients.records import ProducerRecord, RecordMetadata, SendError

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

    def close(self) -> None:
        """Tell each that the client has ended."""
        for one in self._with("close"):
            try:
                one.close()
            except Exception:
                log.warning("close of %r failed", one, exc_info=True)

    def _with(self, method: str) -> Sequence[Any]:
        return [one for one in self.objects if hasattr(one, method)]
