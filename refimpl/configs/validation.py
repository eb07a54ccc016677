"""The validation of configuration changes, by Kafka's rules."""

from collections.abc import Iterable, Mapping

from refimpl.configs.definition import BROKER, GROUP, PER_BROKER, QUOTA, TOPIC, Definition
from refimpl.configs.resolution import Configs
from refimpl.configs.values import ConfigError, Type, Value


def validate_topic(overrides: Mapping[str, str], broker: Configs) -> None:
    """A topic's own configurations, together with what it takes from its broker; ConfigError."""
    for name in overrides:
        if name not in TOPIC:
            raise ConfigError(f"Unknown topic config name: {name}")
    values = broker.topic(overrides)
    low, high = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if low > high:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > "
            f"max.compaction.lag.ms ({high})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


#: Settings of groups that brokers limit, and for each kind of groups two of which one is longer
_LIMITED = (
    *("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
    *("consumer.assignment.interval.ms", "share.heartbeat.interval.ms", "share.session.timeout.ms"),
    *("share.record.lock.duration.ms", "share.delivery.count.limit"),
    *("share.partition.max.record.locks", "share.assignment.interval.ms"),
    *("streams.heartbeat.interval.ms", "streams.session.timeout.ms"),
    *("streams.num.standby.replicas", "streams.assignment.interval.ms"),
)
_GREATEST: Mapping[str, str] = {
    "streams.num.standby.replicas": "group.streams.max.standby.replicas"
}


def validate_group(overrides: Mapping[str, str], broker: Configs) -> None:
    """A group's own configurations, within its broker's limits; ConfigError."""
    for name in overrides:
        if name not in GROUP:
            raise ConfigError(f"Unknown group config name: {name}")
    values = {name: broker.group_value(name, overrides) for name in GROUP}
    for name in _LIMITED:
        # What all groups have, nobody asked whether one may.
        if not name.endswith("assignment.interval.ms") or name in overrides:
            _check_limits(name, values[name], broker)
    for kind in ("consumer", "share", "streams"):
        session, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[interval]:
            raise ConfigError(f"{session} must be greater than {interval}")


def group_limits(name: str) -> tuple[str, str]:
    """The broker's settings that hold the least and the greatest value of a group's setting; ""
    where there is no such limit."""
    kind, rest = name.split(".", 1)
    least, most = (f"group.{kind}.{which}.{rest}" for which in ("min", "max"))
    most = _GREATEST.get(name, most)
    return least if least in BROKER else "", most if most in BROKER else ""


def _check_limits(name: str, value: Value, broker: Configs) -> None:
    least, most = group_limits(name)
    if least and value < broker[least]:
        raise ConfigError(f"{name} must be greater than or equal to {least}")
    if most and value > broker[most]:
        raise ConfigError(f"{name} must be less than or equal to {most}")


def validate_broker(changes: Mapping[str, str], *, all_brokers: bool) -> None:
    """Dynamic configurations of one broker, or of all of them; ConfigError.

    Names that Kafka does not define are taken, as Kafka does: plug-ins may know them.
    """
    _refuse_any(
        (name for name in changes if name in BROKER and BROKER[name].read_only),
        "Cannot update these configs dynamically",
    )
    for name, text in changes.items():
        if name in BROKER:
            BROKER[name].value(text)
    if all_brokers:
        _refuse_any(
            (name for name in changes if name in BROKER and BROKER[name].update == PER_BROKER),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def validate_quota(name: str, value: float, *, of_address: bool) -> None:
    """A quota's key and value; ConfigError."""
    if name not in QUOTA or (name == "connection_creation_rate") != of_address:
        raise ConfigError(f"Invalid configuration key {name}")
    if value <= 0:
        raise ConfigError(f"Quota {name} must be greater than 0")
    kind = QUOTA[name].type
    if kind is Type.DOUBLE:
        return
    if value > (2**31 - 1 if kind is Type.INT else 2**63 - 1):
        article = "an" if kind is Type.INT else "a"
        raise ConfigError(f"Proposed value for {name} is too large for {article} {kind.name}.")
    if value % 1 > 1e-6:
        raise ConfigError(f"{name} cannot be a fractional value.")


def is_list(table: Mapping[str, Definition], name: str) -> bool:
    """True if IncrementalAlterConfigs may append to a setting of this table, and subtract."""
    definition = table.get(name)
    return definition is not None and definition.type is Type.LIST


def _refuse_any(names: Iterable[str], reason: str) -> None:
    if found := sorted(names):
        raise ConfigError(f"{reason}: [{', '.join(found)}]")
