"""A consumer's settings: Kafka's names, its defaults of 4.3, and how one limits another."""

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from refimpl.clients.assignors import ASSIGNORS, Assignor
from refimpl.clients.config import read
from refimpl.configs import CONSUMER, ConfigError
from refimpl.messages.broker import READ_COMMITTED, READ_UNCOMMITTED

_CLASSES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
#: Settings of the classic protocol alone, which a broker decides in the other one (KIP-848)
_CLASSIC_ALONE = (
    *("heartbeat.interval.ms", "partition.assignment.strategy", "session.timeout.ms"),
)


@frozen
class ConsumerConfig:
    """The settings that decide something in the machine, under Kafka's names."""

    allow_auto_create_topics: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    client_id: str
    client_rack: str
    default_api_timeout_ms: int
    enable_auto_commit: bool
    exclude_internal_topics: bool
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    group_id: str | None
    group_instance_id: str | None
    is_classic: bool
    group_remote_assignor: str | None
    heartbeat_interval_ms: int
    isolation_level: int
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    metadata_max_age_ms: int
    rebootstrap_trigger_ms: int
    rebootstraps: bool
    assignors: tuple[Assignor, ...]
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    session_timeout_ms: int

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "ConsumerConfig":
        """Read settings. Raises ConfigError with one sentence."""
        values = read(given, CONSUMER, "consumer")
        classic = values["group.protocol"].lower() == "classic"
        _check_group(given, values, classic)
        committed = values["isolation.level"] == "read_committed"
        return cls(
            allow_auto_create_topics=values["allow.auto.create.topics"],
            auto_commit_interval_ms=values["auto.commit.interval.ms"],
            auto_offset_reset=values["auto.offset.reset"],
            client_id=values["client.id"],
            client_rack=values["client.rack"],
            default_api_timeout_ms=values["default.api.timeout.ms"],
            enable_auto_commit=values["enable.auto.commit"] and values["group.id"] is not None,
            exclude_internal_topics=values["exclude.internal.topics"],
            fetch_max_bytes=values["fetch.max.bytes"],
            fetch_max_wait_ms=values["fetch.max.wait.ms"],
            fetch_min_bytes=values["fetch.min.bytes"],
            group_id=values["group.id"],
            group_instance_id=values["group.instance.id"],
            is_classic=classic,
            group_remote_assignor=values["group.remote.assignor"],
            heartbeat_interval_ms=values["heartbeat.interval.ms"],
            isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
            max_partition_fetch_bytes=values["max.partition.fetch.bytes"],
            max_poll_interval_ms=values["max.poll.interval.ms"],
            max_poll_records=values["max.poll.records"],
            metadata_max_age_ms=values["metadata.max.age.ms"],
            rebootstrap_trigger_ms=values["metadata.recovery.rebootstrap.trigger.ms"],
            rebootstraps=values["metadata.recovery.strategy"].lower() == "rebootstrap",
            assignors=tuple(map(_assignor, values["partition.assignment.strategy"])),
            reconnect_backoff_ms=values["reconnect.backoff.ms"],
            reconnect_backoff_max_ms=values["reconnect.backoff.max.ms"],
            request_timeout_ms=values["request.timeout.ms"],
            retry_backoff_ms=values["retry.backoff.ms"],
            retry_backoff_max_ms=values["retry.backoff.max.ms"],
            session_timeout_ms=values["session.timeout.ms"],
        )


def _check_group(given: Mapping[str, Any], values: Mapping[str, Any], classic: bool) -> None:
    if values["group.id"] is None and given.get("enable.auto.commit"):
        raise ConfigError("enable.auto.commit is true, and needs a group.id")
    for name in ("group.id", "group.instance.id"):
        if values[name] == "":
            raise ConfigError(f"{name} is empty: give a name, or leave it out")
    if not classic:
        for name in _CLASSIC_ALONE:
            if name in given:
                raise ConfigError(f"{name} is of group.protocol=classic alone")
        return
    if values["group.remote.assignor"] is not None:
        raise ConfigError("group.remote.assignor is of group.protocol=consumer alone")
    if not values["partition.assignment.strategy"]:
        raise ConfigError("partition.assignment.strategy names no assignor")
    heartbeat, session = values["heartbeat.interval.ms"], values["session.timeout.ms"]
    if heartbeat >= session:
        raise ConfigError(
            f"heartbeat.interval.ms is {heartbeat}, and must be less than session.timeout.ms, "
            f"which is {session}"
        )


def _assignor(name: Any) -> Assignor:
    if isinstance(name, Assignor):
        return name
    short = _CLASSES.get(str(name).rpartition(".")[2], name)
    if short not in ASSIGNORS:
        raise ConfigError(
            f"partition.assignment.strategy: {name!r} is none of {', '.join(ASSIGNORS)}"
        )
    return ASSIGNORS[short]
