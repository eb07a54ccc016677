"""AlterConfigs: all configurations of a resource are replaced (KIP-133)."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from refimpl.api.call import Call, Handling
from refimpl.api.control import LOGGER, RESOURCES, refused
from refimpl.api.permissions import ALTER_CONFIGS, on_configs
from refimpl.controller.config_changes import check_replacement
from refimpl.controller.errors import ApiError
from refimpl.messages.cluster import ConfigResource
from refimpl.messages.controller import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    ResourceResult,
)

TWICE = "Each resource must appear at most once."


@frozen
class AlterConfigsPlan:
    """The checks of a resource's configurations, and the request to the controller."""

    check: Callable[[ConfigResource, Any], Any]
    request: Callable[[Any, bool], Any]
    #: The changes of loggers, which this broker makes itself; None where none may be made
    loggers: Callable[[Any], None] | None = None


def handle(call: Call) -> Handling:
    """Check what concerns this broker, and pass the rest on to the controller."""
    node = call.broker.node

    def plan(resource: ConfigResource, configs: Any) -> Mapping[str, str | None]:
        values = [(one.name, one.value) for one in configs]
        check_replacement(node.id, resource, values)
        return dict(values)

    return altered(call, AlterConfigsPlan(plan, AlterConfigsRequest))


def altered(call: Call, plan: AlterConfigsPlan) -> Handling:
    """Alter the configurations, and answer for each resource in the order of the request."""
    keys = [(one.resource_type, one.resource_name) for one in call.request.resources]
    times = Counter(keys)
    results: dict[tuple[int, str], ResourceResult] = {}
    wanted: list[tuple[ConfigResource, Any]] = []
    for key, one in zip(keys, call.request.resources, strict=True):
        resource = ConfigResource(RESOURCES.get(key[0], ""), key[1])
        try:
            if times[key] > 1:
                raise ApiError("INVALID_REQUEST", TWICE)
            if key[0] == LOGGER and plan.loggers is not None:
                plan.loggers(one)
                results[key] = ResourceResult(resource, None)
                continue
            if not resource.type:
                raise ApiError("INVALID_REQUEST", f"Unknown resource type {key[0]}")
            wanted.append((resource, plan.check(resource, one.configs)))
        except ApiError as error:
            results[key] = ResourceResult(resource, error.error, error.message)
    if wanted:
        answer: Any = yield plan.request(wanted, call.request.validate_only)
        if failure := refused(answer):
            answer = AlterConfigsResponse([ResourceResult(one, *failure) for one, _ in wanted])
        numbers = {name: number for number, name in RESOURCES.items()}
        for one in answer.resources:
            results[numbers[one.resource.type], one.resource.name] = one
    return {
        "responses": [
            {
                "error_code": results[key].error,
                "error_message": results[key].message,
                "resource_type": key[0],
                "resource_name": key[1],
            }
            for key in keys
        ]
    }


PERMISSIONS = (on_configs(ALTER_CONFIGS, "responses"),)
