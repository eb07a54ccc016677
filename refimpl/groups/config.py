"""A group coordinator's settings, by Kafka's names with underscores for dots."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


def _nothing(group_id: str) -> Mapping[str, str]:
    return {}


@frozen(kw_only=True)
class GroupConfig:
    """Times are in milliseconds, unless the name has another unit."""

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
    consumer_min_session_timeout_ms: int = _broker("group.consumer.min.session.timeout.ms")
    consumer_max_session_timeout_ms: int = _broker("group.consumer.max.session.timeout.ms")
    consumer_min_heartbeat_interval_ms: int = _broker("group.consumer.min.heartbeat.interval.ms")
    consumer_max_heartbeat_interval_ms: int = _broker("group.consumer.max.heartbeat.interval.ms")
    consumer_min_assignment_interval_ms: int = _broker("group.consumer.min.assignment.interval.ms")
    consumer_max_assignment_interval_ms: int = _broker("group.consumer.max.assignment.interval.ms")
    consumer_migration_policy: str = _broker("group.consumer.migration.policy")
    consumer_max_size: int = _broker("group.consumer.max.size")
    consumer_assignors: tuple[str, ...] = _broker("group.consumer.assignors")
    consumer_regex_refresh_interval_ms: int = _broker("group.consumer.regex.refresh.interval.ms")

    # Share groups (KIP-932)
    share_session_timeout_ms: int = _broker("group.share.session.timeout.ms")
    share_min_session_timeout_ms: int = _broker("group.share.min.session.timeout.ms")
    share_max_session_timeout_ms: int = _broker("group.share.max.session.timeout.ms")
    share_heartbeat_interval_ms: int = _broker("group.share.heartbeat.interval.ms")
    share_min_heartbeat_interval_ms: int = _broker("group.share.min.heartbeat.interval.ms")
    share_max_heartbeat_interval_ms: int = _broker("group.share.max.heartbeat.interval.ms")
    share_assignment_interval_ms: int = _broker("group.share.assignment.interval.ms")
    share_min_assignment_interval_ms: int = _broker("group.share.min.assignment.interval.ms")
    share_max_assignment_interval_ms: int = _broker("group.share.max.assignment.interval.ms")
    share_max_size: int = _broker("group.share.max.size")

    # Offsets
    offset_metadata_max_bytes: int = _broker("offset.metadata.max.bytes")
    offsets_commit_timeout_ms: int = _broker("offsets.commit.timeout.ms")
    offsets_load_buffer_size: int = _broker("offsets.load.buffer.size")
    offsets_retention_check_interval_ms: int = _broker("offsets.retention.check.interval.ms")
    offsets_retention_minutes: int = _broker("offsets.retention.minutes")

    #: The configurations of single groups, by Kafka's names
    of_group: Callable[[str], Mapping[str, str]] = field(default=_nothing)

    def own(self, group_id: str, name: str) -> int:
        """A group's own setting, such as consumer_session_timeout_ms, or else every group's.

        It is kept within the broker's limits, which may have become narrower since it was set.
        """
        text = self.of_group(group_id).get(name.replace("_", "."))
        if text is None:
            return getattr(self, name)
        kind, rest = name.split("_", 1)
        least, most = (getattr(self, f"{kind}_{which}_{rest}") for which in ("min", "max"))
        return max(least, min(int(text), most))

    @classmethod
    def of(cls, configs: Configs) -> "GroupConfig":
        """The settings of a coordinator with these configurations."""
        fields = fields_dict(cls).values()
        names = {one.name: one.metadata["broker"] for one in fields if one.metadata}
        return cls(**{ours: configs[name] for ours, name in names.items()})
