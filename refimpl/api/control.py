"""What the handlers share whose requests a broker passes on to the controller."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from refimpl.api.call import Call
from refimpl.configs import Configs
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import BROKER, GROUP, TOPIC, ConfigResource
from refimpl.messages.controller import ControlResponse, Mutator
from refimpl.wire.messages import milliseconds

R = TypeVar("R")

RESOURCES: Mapping[int, str] = {2: TOPIC, 4: BROKER, 32: GROUP}
"""Types of resources by their numbers; of others there are no configurations here."""


def timeout_ms(call: Call) -> int:
    """How long the client waits."""
    return milliseconds(call.request.timeout)


def mutator(call: Call, strict_since: int) -> Mutator:
    """Whose quota of partitions counts, and whether this version is refused above it (KIP-599)."""
    return Mutator(call.client_id, call.version >= strict_since)


def refused(answer: Any) -> ControlResponse | None:
    """What the whole request got instead of an answer for each of its parts."""
    return answer if isinstance(answer, ControlResponse) else None


def partitions(topics: Iterable[Any], topic: str, numbers: str) -> list[TopicPartition]:
    """Partitions that a request names topic by topic, in fields of these names."""
    return [
        TopicPartition(getattr(one, topic), number)
        for one in topics
        for number in getattr(one, numbers)
    ]


def by_topic(results: Iterable[tuple[TopicPartition, R]]) -> dict[str, list[R]]:
    """What became of partitions, topic by topic."""
    found: dict[str, list[R]] = {}
    for name, result in results:
        found.setdefault(name.topic, []).append(result)
    return found


def configs_of(call: Call) -> Configs:
    """What holds at this broker: of its file, and what was changed since (KIP-226)."""
    node = call.broker.node
    return node.metadata.configs_of(node.id, call.broker.configs)


def overrides(call: Call, resource: ConfigResource) -> Mapping[str, str]:
    """What is configured of a resource alone."""
    return call.broker.node.metadata.configs.get(resource, {})
