"""Settings of share coordinators and of leaders of share partitions, by Kafka's names."""

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, fields_dict, frozen

from refimpl.configs import BROKER, Configs


def _broker(name: str) -> Any:
    return field(default=BROKER[name].default, metadata={"broker": name})


def _nothing(group_id: str) -> Mapping[str, str]:
    return {}


@frozen(kw_only=True)
class ShareConfig:
    """Times are in milliseconds."""

    # The share coordinator
    snapshot_updates: int = _broker("share.coordinator.snapshot.update.records.per.snapshot")
    load_buffer_size: int = _broker("share.coordinator.load.buffer.size")
    prune_interval_ms: int = _broker("share.coordinator.state.topic.prune.interval.ms")
    cold_interval_ms: int = _broker("share.coordinator.cold.partition.snapshot.interval.ms")
    write_timeout_ms: int = _broker("share.coordinator.write.timeout.ms")

    # Leaders
    share_delivery_count_limit: int = _broker("group.share.delivery.count.limit")
    share_min_delivery_count_limit: int = _broker("group.share.min.delivery.count.limit")
    share_max_delivery_count_limit: int = _broker("group.share.max.delivery.count.limit")
    share_partition_max_record_locks: int = _broker("group.share.partition.max.record.locks")
    share_min_partition_max_record_locks: int = _broker(
        "group.share.min.partition.max.record.locks"
    )
    share_max_partition_max_record_locks: int = _broker(
        "group.share.max.partition.max.record.locks"
    )
    share_record_lock_duration_ms: int = _broker("group.share.record.lock.duration.ms")
    share_min_record_lock_duration_ms: int = _broker("group.share.min.record.lock.duration.ms")
    share_max_record_lock_duration_ms: int = _broker("group.share.max.record.lock.duration.ms")
    max_share_sessions: int = _broker("group.share.max.share.sessions")

    #: The configurations of single groups, by Kafka's names
    of_group: Callable[[str], Mapping[str, str]] = field(default=_nothing)

    def own(self, group_id: str, name: str) -> int:
        """A group's own setting, or else every group's; within the broker's limits."""
        text = self.of_group(group_id).get(name.replace("_", "."))
        if text is None:
            return getattr(self, name)
        _, rest = name.split("_", 1)
        least, most = (getattr(self, f"share_{which}_{rest}") for which in ("min", "max"))
        return max(least, min(int(text), most))

    def text(self, group_id: str, name: str, default: str) -> str:
        """A group's own setting that only groups have."""
        return self.of_group(group_id).get(name, default)

    @classmethod
    def of(cls, configs: Configs) -> "ShareConfig":
        """The settings of a broker with these configurations."""
        fields = fields_dict(cls).values()
        names = {one.name: one.metadata["broker"] for one in fields if one.metadata}
        return cls(**{ours: configs[name] for ours, name in names.items()})
