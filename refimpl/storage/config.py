"""How a log behaves, by Kafka's names and defaults (4.x).

A field is the topic's name with underscores; the broker's name for the same thing stands beside it.
"""

from attrs import frozen

from refimpl.storage.batch import TimestampType
from refimpl.storage.compression import Codec

_HOUR_MS = 60 * 60 * 1000
NO_LIMIT = -1
_LONG_MAX = 2**63 - 1


@frozen(kw_only=True)
class LogConfig:
    """One topic's settings."""

    #: segment.bytes, log.segment.bytes
    segment_bytes: int = 1 << 30
    #: segment.ms, log.roll.ms over log.roll.hours
    segment_ms: int = 7 * 24 * _HOUR_MS
    #: segment.jitter.ms, log.roll.jitter.ms over .hours: by so much less at most, so that segments
    #: that began together do not end together
    segment_jitter_ms: int = 0
    #: segment.index.bytes, log.index.size.max.bytes
    segment_index_bytes: int = 10 << 20
    #: index.interval.bytes, log.index.interval.bytes
    index_interval_bytes: int = 4096
    #: max.message.bytes, message.max.bytes
    max_message_bytes: int = 1048588
    #: compression.type; None is "producer": as it came
    compression_type: Codec | None = None
    #: message.timestamp.type, log.message.timestamp.type
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    #: message.timestamp.before.max.ms, with log. before it (KIP-937)
    message_timestamp_before_max_ms: int = _LONG_MAX
    #: message.timestamp.after.max.ms, with log. before it; an hour since 4.0 (KIP-1030)
    message_timestamp_after_max_ms: int = _HOUR_MS
    #: cleanup.policy, log.cleanup.policy
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    #: retention.ms, log.retention.ms over .minutes over .hours; -1 is for ever
    retention_ms: int = 7 * 24 * _HOUR_MS
    #: retention.bytes, log.retention.bytes; -1 is without limit
    retention_bytes: int = NO_LIMIT
    #: delete.retention.ms, log.cleaner.delete.retention.ms
    delete_retention_ms: int = 24 * _HOUR_MS
    #: min.cleanable.dirty.ratio, log.cleaner.min.cleanable.ratio
    min_cleanable_dirty_ratio: float = 0.5
    #: min.compaction.lag.ms, log.cleaner.min.compaction.lag.ms (KIP-58)
    min_compaction_lag_ms: int = 0
    #: max.compaction.lag.ms, log.cleaner.max.compaction.lag.ms (KIP-354)
    max_compaction_lag_ms: int = _LONG_MAX
    #: file.delete.delay.ms, log.segment.delete.delay.ms
    file_delete_delay_ms: int = 60_000
    #: flush.messages, log.flush.interval.messages
    flush_messages: int = _LONG_MAX
    #: flush.ms, log.flush.interval.ms
    flush_ms: int = _LONG_MAX
    #: producer.id.expiration.ms, of the broker only
    producer_id_expiration_ms: int = 24 * _HOUR_MS

    @property
    def max_segment_ms(self) -> int:
        """How long a segment may grow; only closed ones are compacted (KIP-354)."""
        if self.compacts and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deletes(self) -> bool:
        """Whether age and size delete segments."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether older values of a key are cleaned away."""
        return "compact" in self.cleanup_policy
