"""Whether a change of configurations is one that Kafka would take."""

from collections.abc import Iterable, Mapping

from refimpl.configs.definition import BROKER, PER_BROKER, QUOTA, TOPIC
from refimpl.configs.resolution import Configs
from refimpl.configs.values import ConfigError, Type

MAX_VALUE_LENGTH = 2**15 - 1


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


def is_list(topic: bool, name: str) -> bool:
    """Whether IncrementalAlterConfigs may append to it and subtract from it."""
    definition = (TOPIC if topic else BROKER).get(name)
    return definition is not None and definition.type is Type.LIST


def _refuse_any(names: Iterable[str], reason: str) -> None:
    if found := sorted(names):
        raise ConfigError(f"{reason}: [{', '.join(found)}]")
