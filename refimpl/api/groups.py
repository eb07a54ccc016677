"""Functions that the handlers of group APIs share."""

from typing import Any

from refimpl.api.call import Call
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import TopicIdPartitions
from refimpl.records.schema import NO_ID, Uuid

OPERATIONS = 0b1101_0100_1000
"""Bits of the operations that groups have, by the numbers of AclOperation (KIP-430)."""

NOT_ASKED = -(2**31)

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"


def client(call: Call) -> dict[str, str]:
    """The client's id and host, as Kafka's tools show them."""
    return {"client_id": call.client_id or "", "client_host": f"/{call.session.host}"}


def operations(call: Call, error: str | None) -> int:
    """The operations that a client may do on a group: all, for there is no authorizer."""
    wanted = getattr(call.request, "include_authorized_operations", False)
    return OPERATIONS if wanted and error is None else NOT_ASKED


def id_of(call: Call, topic: str) -> Uuid:
    """A topic's id, NO_ID for one that is not there."""
    known = call.broker.node.metadata.topics.get(topic)
    return NO_ID if known is None else Uuid(known.topic_id)


def name_of(call: Call, topic_id: Any | None) -> str | None:
    """A topic's name, if there is one of this id."""
    if topic_id is None:
        return None
    return call.broker.node.metadata.topic_names.get(topic_id.bytes)


def exists(call: Call, name: TopicPartition) -> bool:
    """True if the partition exists."""
    return name in call.broker.node.metadata.partitions


def by_id(topics: Any) -> tuple[TopicIdPartitions, ...] | None:
    """Partitions that a request names by the ids of their topics."""
    if topics is None:
        return None
    return tuple(
        TopicIdPartitions(
            NO_ID if one.topic_id is None else Uuid(one.topic_id.bytes), tuple(one.partitions)
        )
        for one in topics
    )
