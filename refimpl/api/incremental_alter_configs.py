"""IncrementalAlterConfigs: configurations are set, removed, or changed as lists (KIP-339)."""

from typing import Any

from refimpl.api.alter_configs import AlterConfigsPlan, altered
from refimpl.api.call import Call, Handling
from refimpl.api.loggers import alter
from refimpl.api.permissions import ALTER_CONFIGS, on_configs
from refimpl.controller.config_changes import check_incremental
from refimpl.messages.cluster import ConfigResource
from refimpl.messages.controller import ConfigAlteration, IncrementalAlterConfigsRequest


def handle(call: Call) -> Handling:
    """Check what concerns this broker, and pass the rest on to the controller."""
    node = call.broker.node

    def plan(resource: ConfigResource, configs: Any) -> list[ConfigAlteration]:
        changes = [ConfigAlteration(one.name, one.config_operation, one.value) for one in configs]
        check_incremental(node.id, resource, changes, node.metadata.configs.get(resource, {}))
        return changes

    def loggers(one: Any) -> None:
        plan(ConfigResource("", one.resource_name), one.configs)
        alter(node.id, one.resource_name, one.configs, validate_only=call.request.validate_only)

    return altered(call, AlterConfigsPlan(plan, IncrementalAlterConfigsRequest, loggers))


PERMISSIONS = (on_configs(ALTER_CONFIGS, "responses"),)
