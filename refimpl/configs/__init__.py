"""Configurations: Kafka's names, types, defaults and valid values, and which value counts where."""

from refimpl.configs.definition import (
    AUTHORIZER,
    BROKER,
    CLIENT_METRICS,
    CONSUMER,
    GROUP,
    PRODUCER,
    QUOTA,
    TOPIC,
    Definition,
    has_effect,
)
from refimpl.configs.resolution import Configs, Entry, Source, Synonym
from refimpl.configs.synonyms import BROKER_NAME, GROUP_NAME
from refimpl.configs.validation import (
    group_limits,
    is_list,
    validate_broker,
    validate_group,
    validate_quota,
    validate_topic,
)
from refimpl.configs.values import ConfigError, Type, Value, duration_ms, show

__all__ = [
    "AUTHORIZER",
    "BROKER",
    "BROKER_NAME",
    "CLIENT_METRICS",
    "CONSUMER",
    "GROUP",
    "GROUP_NAME",
    "PRODUCER",
    "QUOTA",
    "TOPIC",
    "ConfigError",
    "Configs",
    "Definition",
    "Entry",
    "Source",
    "Synonym",
    "Type",
    "Value",
    "duration_ms",
    "group_limits",
    "has_effect",
    "is_list",
    "show",
    "validate_broker",
    "validate_group",
    "validate_quota",
    "validate_topic",
]
