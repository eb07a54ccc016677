"""Functions that the handlers of share group APIs share."""

from collections.abc import Iterable, Mapping
from typing import Any

from refimpl.api.call import Call, Values
from refimpl.api.errors import MOVED, endpoints_of, leader_of
from refimpl.api.groups import name_of
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import AlterShareOffsetsResponse, DeleteShareOffsetsResponse
from refimpl.messages.share import AcknowledgementBatch, is_no_member_id

INVALID_ID = "INVALID_GROUP_ID"
UNKNOWN_ID = "UNKNOWN_TOPIC_ID"
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
NO_PARTITION = "This server does not host this topic-partition."
NO_LEADER = {"leader_id": 0, "leader_epoch": 0}
"""Zeros where no leader is told, as Kafka has it."""
REFUSED: Values = {
    "error_code": "INVALID_REQUEST",
    "error_message": None,
    "acquisition_lock_timeout": 0,
    "responses": [],
    "node_endpoints": [],
}
"""The answer to a request that cannot be meant."""


def refusal_of(answer: AlterShareOffsetsResponse | DeleteShareOffsetsResponse) -> str | None:
    """The message of a request that is refused as a whole."""
    return "The group id is invalid." if answer.error == INVALID_ID else answer.error_message


def is_nameless(request: Any) -> bool:
    """True if a request lacks the name of its group, or an id that its member may have."""
    return (
        request.group_id is None or request.member_id is None or is_no_member_id(request.member_id)
    )


def named(call: Call, topics: Iterable[Any]) -> tuple[dict[TopicPartition, Any], list[Any]]:
    """The partitions that a request names by topic ids, with what it says of each; and the ids of
    topics that do not exist, each with a partition.
    """
    found: dict[TopicPartition, Any] = {}
    unknown: list[Any] = []
    for topic in topics:
        name = name_of(call, topic.topic_id)
        for one in topic.partitions:
            number = one if isinstance(one, int) else one.partition_index
            if name is None:
                unknown.append((topic.topic_id, number))
            else:
                found[TopicPartition(name, number)] = one
    return found, unknown


def acknowledgements(
    partitions: Mapping[TopicPartition, Any],
) -> dict[TopicPartition, tuple[AcknowledgementBatch, ...]]:
    """The acknowledgements of those partitions that have any."""
    return {
        name: tuple(
            AcknowledgementBatch(one.first_offset, one.last_offset, tuple(one.acknowledge_types))
            for one in said.acknowledgement_batches
        )
        for name, said in partitions.items()
        if said.acknowledgement_batches
    }


def leader(call: Call, name: TopicPartition, error: str | None) -> Values:
    """The leader, for a client that asked another broker."""
    known = leader_of(call.broker, name) if error in MOVED else None
    if known is None:
        return NO_LEADER
    return {"leader_id": known[0], "leader_epoch": known[1]}


def endpoints(call: Call, moved: Iterable[TopicPartition]) -> list[Values]:
    """The endpoints of the leaders of these partitions."""
    leaders = [leader_of(call.broker, one) for one in moved]
    return [
        {"node_id": one[0], "host": one[1], "port": one[2], "rack": one[3]}
        for one in endpoints_of(call.broker, leaders)
    ]


def by_topic_id(call: Call, partitions: Iterable[tuple[TopicPartition, Values]]) -> list[Values]:
    """Results of partitions, by the ids of their topics."""
    topics = call.broker.node.metadata.topics
    found: dict[bytes, list[Values]] = {}
    for name, values in partitions:
        topic = topics.get(name.topic)
        found.setdefault(bytes(16) if topic is None else topic.topic_id, []).append(values)
    return [{"topic_id": one, "partitions": many} for one, many in found.items()]
