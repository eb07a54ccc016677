"""The plans for requests to change configurations: pure functions.

Messages are those of Kafka 4.3's ConfigurationControlManager. A `ConfigSchema` knows the keys,
their types and their values.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import (
    BROKER,
    CLUSTER_DEFAULT,
    TOPIC,
    ClusterMetadata,
    ConfigResource,
)
from refimpl.messages.controller import APPEND, DELETE, SET, SUBTRACT, ConfigAlteration

MIN_ISR = "min.insync.replicas"
UNCLEAN_ELECTION = "unclean.leader.election.enable"
LONGEST_VALUE = 2**15 - 1

_OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class ConfigSchema(Protocol):
    """The keys of each resource type, with their types and defaults."""

    def is_list(self, resource_type: str, key: str) -> bool:
        """True if values of this key are lists, separated by commas."""
        ...

    def default(self, resource_type: str, key: str) -> str | None:
        """The value of a key that is not set."""
        ...

    def validate(
        self, resource: ConfigResource, values: Mapping[str, str], existing: Mapping[str, str]
    ) -> None:
        """Raise ApiError INVALID_CONFIG if these cannot be the configuration of a resource."""
        ...


def plan_incremental(
    resource: ConfigResource,
    alterations: Sequence[ConfigAlteration],
    metadata: ClusterMetadata,
    schema: ConfigSchema,
    *,
    elr_enabled: bool = False,
    is_new: bool = False,
) -> Mapping[str, str]:
    """All configurations of a resource after single changes (KIP-339)."""
    existing = metadata.configs.get(resource, {})
    values = dict(existing)
    for key, operation, value in alterations:
        if operation == SET and value is not None:
            values[key] = value
        elif operation in (SET, DELETE):
            values.pop(key, None)
        else:
            values[key] = _with_parts(resource, values.get(key), key, operation, value, schema)
    changed = {alteration.name for alteration in alterations}
    _check(resource, values, changed, metadata, schema, elr_enabled=elr_enabled, is_new=is_new)
    return values


def plan_replacement(
    resource: ConfigResource,
    wanted: Mapping[str, str | None],
    metadata: ClusterMetadata,
    schema: ConfigSchema,
    *,
    elr_enabled: bool = False,
) -> Mapping[str, str]:
    """All configurations of a resource after a full replacement (KIP-133)."""
    existing = metadata.configs.get(resource, {})
    values = {key: value for key, value in wanted.items() if value is not None}
    changed = set(wanted) | set(existing)
    _check(resource, values, changed, metadata, schema, elr_enabled=elr_enabled, is_new=False)
    return values


def _with_parts(
    resource: ConfigResource,
    here: str | None,
    key: str,
    operation: int,
    value: str | None,
    schema: ConfigSchema,
) -> str:
    """A list with values appended or subtracted."""
    if not schema.is_list(resource.type, key):
        raise ApiError(
            "INVALID_CONFIG",
            f"Can't {_OPERATIONS[operation]} to key {key} because its type is not LIST.",
        )
    if here is None:
        here = schema.default(resource.type, key)
    parts = [part for part in (here or "").split(",") if part]
    for one in (value or "").split(","):
        if operation == APPEND and one not in parts:
            parts.append(one)
        elif operation == SUBTRACT and one in parts:
            parts.remove(one)
    return ",".join(parts)


def _check(
    resource: ConfigResource,
    values: Mapping[str, str],
    changed: set[str],
    metadata: ClusterMetadata,
    schema: ConfigSchema,
    *,
    elr_enabled: bool,
    is_new: bool,
) -> None:
    if elr_enabled and resource.type == BROKER and MIN_ISR in changed:
        if resource.name != CLUSTER_DEFAULT:
            raise ApiError(
                "INVALID_CONFIG", f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."
            )
        if MIN_ISR not in values:
            raise ApiError(
                "INVALID_CONFIG",
                f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled.",
            )
    if any(len(values.get(key, "")) > LONGEST_VALUE for key in changed):
        raise ApiError(
            "INVALID_CONFIG",
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{LONGEST_VALUE} bytes.",
        )
    schema.validate(resource, values, metadata.configs.get(resource, {}))
    if not is_new:
        check_exists(resource, metadata)


def check_exists(resource: ConfigResource, metadata: ClusterMetadata) -> None:
    """Refuse to configure a topic or a broker that does not exist."""
    if resource.type == TOPIC and resource.name not in metadata.topics:
        raise ApiError("UNKNOWN_TOPIC_OR_PARTITION", f"The topic '{resource.name}' does not exist.")
    if resource.type == BROKER and resource.name != CLUSTER_DEFAULT:
        if not resource.name.isdecimal():
            raise ApiError("INVALID_REQUEST", f"Invalid broker name {resource.name}")
        if int(resource.name) not in metadata.brokers:
            raise ApiError("BROKER_ID_NOT_REGISTERED", f"No node with id {resource.name} found.")


def flag(metadata: ClusterMetadata, topic: str, key: str, otherwise: bool) -> bool:
    """A boolean of a topic's configuration, or `otherwise` if it is not set."""
    value = metadata.topic_config(topic, key)
    return otherwise if value is None else value.lower() == "true"


def number(metadata: ClusterMetadata, topic: str, key: str, otherwise: int) -> int:
    """An integer of a topic's configuration, or `otherwise` if it is not set."""
    value = metadata.topic_config(topic, key)
    return otherwise if value is None else int(value)
