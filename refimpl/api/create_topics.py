"""CreateTopics (KIP-4), which tells what was made of the defaults since version 5 (KIP-525)."""

from typing import Any

from refimpl.api.authorization import Changed, Each, Resource, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import configs_of, mutator, refused, timeout_ms
from refimpl.api.errors import code
from refimpl.api.permissions import CREATE, DESCRIBE_CONFIGS, TOPIC, TOPIC_FAILED, refused_element
from refimpl.messages.controller import (
    CreatableTopic,
    CreatedTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

_STRICT = 6
"""Since this version clients are refused that are above controller_mutation_rate (KIP-599)."""


def handle(call: Call) -> Handling:
    """Have topics made by the controller."""
    request = call.request
    wanted = tuple(map(_wanted, request.topics))
    answer: Any = yield CreateTopicsRequest(
        wanted, request.validate_only, timeout_ms(call), mutator(call, _STRICT)
    )
    if failure := refused(answer):
        answer = CreateTopicsResponse([CreatedTopic(one.name, *failure) for one in wanted])
    call.throttle_ms = answer.throttle_ms
    return {"topics": [_created(call, one) for one in answer.topics]}


def _wanted(topic: Any) -> CreatableTopic:
    return CreatableTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
        tuple((one.name, one.value) for one in topic.configs),
    )


def _created(call: Call, topic: CreatedTopic) -> Values:
    configs = configs_of(call)
    described = () if topic.error else tuple(configs.describe_topic(topic.configs))
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "error_code": topic.error,
        "error_message": topic.message,
        "num_partitions": topic.num_partitions,
        "replication_factor": topic.replication_factor,
        "configs": [
            {
                "name": one.name,
                "value": topic.configs.get(one.name, one.value),  # as it was given
                "read_only": one.read_only,
                "config_source": one.source,
                "is_sensitive": one.sensitive,
            }
            for one in described
        ],
    }


def _creatable(call: Call, element: Any) -> Resource | None:
    names = [one.name for one in call.request.topics]
    return None if names.count(element.name) > 1 else (TOPIC, element.name)


def _made_configs(call: Call, answer: Values) -> Values:
    """Hide the resolved defaults from clients that may not describe configurations (KIP-525)."""

    def shown(topic: Values) -> Values:
        if topic["error_code"] or may(call, DESCRIBE_CONFIGS, TOPIC, topic["name"]):
            return topic
        return {
            **{one: topic[one] for one in ("name", "topic_id", "error_code", "error_message")},
            "topic_config_error_code": code(TOPIC_FAILED),
        }

    return {**answer, "topics": [shown(one) for one in answer["topics"]]}


PERMISSIONS = (
    Each(
        "topics",
        CREATE,
        _creatable,
        refused_element("name", message="Authorization failed."),
        "topics",
        or_cluster=CREATE,
    ),
    Changed(_made_configs),
)
