"""A log's settings, by Kafka's names with underscores for dots.

The names, defaults and valid values are those of `refimpl.configs`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, TOPIC, Value
from refimpl.storage.format.batch import TimestampType
from refimpl.storage.format.compression import Codec

NO_LIMIT = -1


def _topic(name: str) -> Any:
    return field(default=_PARSED.get(name, _same)(TOPIC[name].default), metadata={"topic": name})


def _codec(name: str) -> Codec | None:
    """The codec of a `compression.type`; None for "producer", which keeps the producer's."""
    names = {"producer": None, "uncompressed": Codec.NONE}
    return names[name] if name in names else Codec[name.upper()]


def _timestamp_type(name: str) -> TimestampType:
    return TimestampType.CREATE_TIME if name == "CreateTime" else TimestampType.LOG_APPEND_TIME


def _same(value: Value) -> Value:
    return value


_PARSED: dict[str, Callable[[Any], Any]] = {
    "compression.type": _codec,
    "message.timestamp.type": _timestamp_type,
    "cleanup.policy": frozenset[str],
}


@frozen(kw_only=True)
class LogConfig:
    """One topic's settings."""

    segment_bytes: int = _topic("segment.bytes")
    segment_ms: int = _topic("segment.ms")
    segment_jitter_ms: int = _topic("segment.jitter.ms")
    segment_index_bytes: int = _topic("segment.index.bytes")
    index_interval_bytes: int = _topic("index.interval.bytes")
    max_message_bytes: int = _topic("max.message.bytes")
    compression_type: Codec | None = _topic("compression.type")  # noqa: RUF009
    message_timestamp_type: TimestampType = _topic("message.timestamp.type")  # noqa: RUF009
    message_timestamp_before_max_ms: int = _topic("message.timestamp.before.max.ms")
    message_timestamp_after_max_ms: int = _topic("message.timestamp.after.max.ms")
    cleanup_policy: frozenset[str] = _topic("cleanup.policy")
    retention_ms: int = _topic("retention.ms")
    retention_bytes: int = _topic("retention.bytes")
    delete_retention_ms: int = _topic("delete.retention.ms")
    min_cleanable_dirty_ratio: float = _topic("min.cleanable.dirty.ratio")
    min_compaction_lag_ms: int = _topic("min.compaction.lag.ms")
    max_compaction_lag_ms: int = _topic("max.compaction.lag.ms")
    file_delete_delay_ms: int = _topic("file.delete.delay.ms")
    flush_messages: int = _topic("flush.messages")
    flush_ms: int = _topic("flush.ms")
    #: A setting of the broker only
    producer_id_expiration_ms: int = BROKER["producer.id.expiration.ms"].default

    @classmethod
    def of(cls, topic: Mapping[str, Value], producer_id_expiration_ms: int) -> "LogConfig":
        """The settings that `Configs.topic` resolved, by Kafka's names."""
        names = {one.name: one.metadata.get("topic") for one in fields_dict(cls).values()}
        values: dict[str, Any] = {
            ours: _PARSED.get(name, _same)(topic[name]) for ours, name in names.items() if name
        }
        return cls(**values, producer_id_expiration_ms=producer_id_expiration_ms)

    @property
    def max_segment_ms(self) -> int:
        """The time for which a segment may grow; only closed ones are compacted (KIP-354)."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes(self) -> bool:
        """True if segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """True if older values of a key are removed by compaction."""
        return "compact" in self.cleanup_policy
