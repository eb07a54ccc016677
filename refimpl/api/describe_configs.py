"""DescribeConfigs: what is configured of topics, groups and brokers, and where it is from.

KIP-133; since version 1 with synonyms (KIP-226), since 3 with types and documentation (KIP-569).
"""

from collections.abc import Iterable
from typing import Any

from refimpl.api.call import Call, Values
from refimpl.api.control import LOGGER, RESOURCES, configs_of, overrides
from refimpl.api.errors import MALFORMED
from refimpl.api.loggers import levels
from refimpl.api.permissions import DESCRIBE_CONFIGS, on_configs
from refimpl.configs import Entry, Source
from refimpl.controller.config_changes import expect_id
from refimpl.controller.errors import ApiError
from refimpl.controller.topics import check_name
from refimpl.messages.cluster import CLIENT_METRICS, GROUP, TOPIC, ConfigResource

LOGGERS = Source.DYNAMIC_BROKER_LOGGER_CONFIG


def handle(call: Call) -> Values:
    """Answer from this broker's metadata; only another broker itself knows its configurations."""
    return {"results": [_result(call, one) for one in call.request.resources]}


def _result(call: Call, resource: Any) -> Values:
    error, message, entries = None, "", list[Entry]()
    try:
        entries = list(_entries(call, resource))
    except ApiError as refusal:
        error, message = refusal.error, refusal.message or ""
    keys, asked = resource.configuration_keys or None, call.request  # no keys mean all of them
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [_entry(one, asked) for one in entries if keys is None or one.name in keys],
    }


def _entries(call: Call, resource: Any) -> Iterable[Entry]:
    name, kind = resource.resource_name, RESOURCES.get(resource.resource_type)
    if resource.resource_type == LOGGER:
        return _loggers(call, name)
    if kind is None:
        raise ApiError("INVALID_REQUEST", MALFORMED)
    configs = configs_of(call)
    if kind == TOPIC:
        check_name(name)
        if name not in call.broker.node.metadata.topics:
            raise ApiError("UNKNOWN_TOPIC_OR_PARTITION", "")
        return configs.describe_topic(overrides(call, ConfigResource(TOPIC, name)))
    if kind == GROUP:
        if not name:
            raise ApiError("INVALID_REQUEST", "Group name must not be empty")
        return configs.describe_group(overrides(call, ConfigResource(GROUP, name)))
    if kind == CLIENT_METRICS:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise ApiError("INVALID_REQUEST", message)
        own = overrides(call, ConfigResource(CLIENT_METRICS, name))
        return configs.describe_subscription(own)
    if not name:
        return configs.describe_all_brokers()
    _expect_this_broker(call, name, " or empty string,")
    return configs.describe_broker()


def _loggers(call: Call, name: str) -> Iterable[Entry]:
    """The levels of loggers, which have neither types nor synonyms."""
    if not name:
        raise ApiError("INVALID_REQUEST", "Broker id must not be empty")
    _expect_this_broker(call, name, "")
    return [Entry(one, at, LOGGERS, False, False, None, (), "") for one, at in levels().items()]


def _expect_this_broker(call: Call, name: str, or_empty: str) -> None:
    """A broker answers for itself alone; ApiError."""
    here = call.broker.node.id
    expect_id("Broker", here, name, f"Unexpected broker id, expected {here}{or_empty}")


def _entry(one: Entry, asked: Any) -> Values:
    synonyms = one.synonyms if getattr(asked, "include_synonyms", False) else ()
    documented = getattr(asked, "include_documentation", False)
    return {
        "name": one.name,
        "value": one.value,
        "read_only": one.read_only,
        "config_source": one.source,
        "is_sensitive": one.sensitive,
        "synonyms": [
            {"name": other.name, "value": other.value, "source": other.source} for other in synonyms
        ],
        "config_type": one.type.value if one.type else 0,
        # With loggers Kafka has no documentation, and says so whether it is asked or not.
        "documentation": one.documentation if documented or one.source == LOGGERS else None,
    }


PERMISSIONS = (on_configs(DESCRIBE_CONFIGS, "results"),)
