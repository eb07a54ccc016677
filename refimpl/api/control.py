"""Functions of the handlers whose requests a broker forwards to the controller."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from refimpl.api.call import Call
from refimpl.configs import Configs
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigResource
from refimpl.messages.controller import ControlResponse, Mutator
from refimpl.wire.messages import milliseconds

R = TypeVar("R")

RESOURCES: Mapping[int, str] = {2: TOPIC, 4: BROKER, 16: CLIENT_METRICS, 32: GROUP}
"""Types of resources whose configurations the controller keeps, by their numbers."""

LOGGER = 8
"""The type of a broker's loggers, whose levels it keeps itself."""


def timeout_ms(call: Call) -> int:
    """The time in ms that the client waits."""
    return milliseconds(call.request.timeout)


def mutator(call: Call, strict_since: int) -> Mutator:
    """The client of the partition quota, and True if it refuses this version (KIP-599)."""
    return Mutator(call.client_id, call.version >= strict_since, call.session.user)


def refused(answer: Any) -> ControlResponse | None:
    """The controller's answer to the request as a whole, None if each of its parts has one."""
    return answer if isinstance(answer, ControlResponse) else None


def partitions(topics: Iterable[Any], topic: str, numbers: str) -> list[TopicPartition]:
    """Partitions that a request names topic by topic, in fields of these names."""
    return [
        TopicPartition(getattr(one, topic), number)
        for one in topics
        for number in getattr(one, numbers)
    ]


def by_topic(results: Iterable[tuple[TopicPartition, R]]) -> dict[str, list[R]]:
    """The results of partitions, grouped by topic."""
    found: dict[str, list[R]] = {}
    for name, result in results:
        found.setdefault(name.topic, []).append(result)
    return found


def as_asked(
    topics: Iterable[Any], topic: str, numbers: str, found: Mapping[TopicPartition, R]
) -> list[tuple[str, list[R]]]:
    """The results of partitions by the topics of a request: each as often as the request names it,
    also without partitions.
    """
    return [
        (name, [found[TopicPartition(name, _number(each))] for each in getattr(one, numbers)])
        for one in topics
        for name in (getattr(one, topic),)
    ]


def _number(partition: Any) -> int:
    return partition if isinstance(partition, int) else partition.partition_index


def configs_of(call: Call) -> Configs:
    """The configurations in force at this broker: from its file, and dynamic ones (KIP-226)."""
    node = call.broker.node
    return node.metadata.configs_of(node.id, call.broker.configs)


def overrides(call: Call, resource: ConfigResource) -> Mapping[str, str]:
    """The configurations set for this resource itself."""
    return call.broker.node.metadata.configs.get(resource, {})
