"""A group coordinator's settings, by Kafka's names with underscores for dots."""

from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


@frozen(kw_only=True)
class GroupConfig:
    """Times are in milliseconds, where the name does not say otherwise."""

    # Classic groups
    min_session_timeout_ms: int = _broker("group.min.session.timeout.ms")
    max_session_timeout_ms: int = _broker("group.max.session.timeout.ms")
    initial_rebalance_delay_ms: int = _broker("group.initial.rebalance.delay.ms")
    max_size: int = _broker("group.max.size")

    # Consumer groups (KIP-848)
    rebalance_protocols: tuple[str, ...] = _broker("group.coordinator.rebalance.protocols")
    consumer_session_timeout_ms: int = _broker("group.consumer.session.timeout.ms")
    consumer_heartbeat_interval_ms: int = _broker("group.consumer.heartbeat.interval.ms")
    consumer_assignment_interval_ms: int = _broker("group.consumer.assignment.interval.ms")
    consumer_max_size: int = _broker("group.consumer.max.size")
    consumer_assignors: tuple[str, ...] = _broker("group.consumer.assignors")
    consumer_migration_policy: str = _broker("group.consumer.migration.policy")
    consumer_regex_refresh_interval_ms: int = _broker("group.consumer.regex.refresh.interval.ms")

    # Offsets
    offset_metadata_max_bytes: int = _broker("offset.metadata.max.bytes")
    offsets_commit_timeout_ms: int = _broker("offsets.commit.timeout.ms")
    offsets_load_buffer_size: int = _broker("offsets.load.buffer.size")
    offsets_retention_check_interval_ms: int = _broker("offsets.retention.check.interval.ms")
    offsets_retention_minutes: int = _broker("offsets.retention.minutes")

    @classmethod
    def of(cls, configs: Configs) -> "GroupConfig":
        """What these configurations say."""
        names = {one.name: one.metadata["broker"] for one in fields_dict(cls).values()}
        return cls(**{ours: configs[name] for ours, name in names.items()})
