"""A broker's checks of configuration changes before it asks the controller: pure functions.

Kafka's ConfigAdminManager: a broker checks its own settings, the controller those of topics and of
the cluster.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from refimpl.configs import BROKER as SETTINGS
from refimpl.configs import ConfigError, is_list, show, validate_broker
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import BROKER, ConfigResource
from refimpl.messages.controller import APPEND, DELETE, SET, SUBTRACT, ConfigAlteration


def check_incremental(
    broker_id: int,
    resource: ConfigResource,
    changes: Sequence[ConfigAlteration],
    configured: Mapping[str, str],
) -> None:
    """Refuse changes that a broker, or all of them, cannot apply; `configured` is the current
    state.
    """
    _check_names(change.name for change in changes)
    _check_values(one.name for one in changes if one.operation != DELETE and one.value is None)
    for one in changes:
        if one.operation not in (SET, DELETE, APPEND, SUBTRACT):
            raise ApiError("INVALID_REQUEST", f"Unknown operations type {one.operation}")
    if resource.type == BROKER:
        _check_id(broker_id, resource.name)
        _check_broker(resource, _changed(configured, changes))


def check_replacement(
    broker_id: int, resource: ConfigResource, values: Sequence[tuple[str, str | None]]
) -> None:
    """Refuse a replacement of all configurations of a resource, by the same rules."""
    _check_names(name for name, _ in values)
    _check_values(name for name, value in values if value is None)
    if resource.type == BROKER:
        _check_id(broker_id, resource.name)
        _check_broker(resource, {name: value for name, value in values if value is not None})


def _check_names(names: Iterable[str]) -> None:
    if any(times > 1 for times in Counter(names).values()):
        raise ApiError("INVALID_REQUEST", "Error due to duplicate config keys")


def _check_values(missing: Iterable[str]) -> None:
    if names := ", ".join(missing):
        raise ApiError("INVALID_REQUEST", f"Null value not supported for : {names}")


def expect_id(kind: str, expected: int, name: str, otherwise: str) -> None:
    """Refuse a name that is not the expected id: a kind of id that is no number, or `otherwise`."""
    try:
        number = int(name)
    except ValueError:
        message = f"{kind} id must be an integer, but it is: {name}"
        raise ApiError("INVALID_REQUEST", message) from None
    if number != expected:
        raise ApiError("INVALID_REQUEST", f"{otherwise} but received {name}")


def _check_id(broker_id: int, name: str) -> None:
    if name:
        expect_id("Node", broker_id, name, f"Unexpected broker id, expected {broker_id},")


def _check_broker(resource: ConfigResource, values: Mapping[str, str]) -> None:
    try:
        validate_broker(values, all_brokers=not resource.name)
    except ConfigError as error:
        raise ApiError("INVALID_REQUEST", str(error)) from None


def _changed(
    configured: Mapping[str, str], changes: Sequence[ConfigAlteration]
) -> Mapping[str, str]:
    values = dict(configured)
    for name, operation, value in changes:
        if operation == DELETE:
            values.pop(name, None)
            continue
        assert value is not None
        values[name] = value if operation == SET else _with_parts(name, operation, value, values)
    return values


def _with_parts(name: str, operation: int, value: str, values: Mapping[str, str]) -> str:
    if not is_list(SETTINGS, name):
        kind = "append" if operation == APPEND else "subtract"
        raise ApiError(
            "INVALID_CONFIG", f"Config value {kind} is not allowed for config key: {name}"
        )
    here = values[name] if name in values else show(SETTINGS[name].default) or ""
    parts = [part for part in here.split(",") if part]
    wanted = value.split(",")
    if operation == APPEND:
        return ",".join([*parts, *(one for one in wanted if one not in parts)])
    return ",".join(one for one in parts if one not in wanted)
