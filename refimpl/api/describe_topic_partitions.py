"""DescribeTopicPartitions: topics page by page, with eligible leaders outside the ISR (KIP-966)."""

from collections.abc import Iterator
from typing import Any

from refimpl.api.authorization import Changed, Each, Proceed, Result, may
from refimpl.api.call import Call, Values
from refimpl.api.control import configs_of
from refimpl.api.metadata import TOPIC_OPERATIONS, alive_brokers
from refimpl.api.permissions import (
    DESCRIBE,
    TOPIC,
    named_topic,
    refused_element,
    with_topic_operations,
)
from refimpl.controller.errors import ApiError
from refimpl.controller.topics import check_name
from refimpl.messages.cluster import PartitionRegistration

ABSENT = "UNKNOWN_TOPIC_OR_PARTITION"


def handle(call: Call) -> Values:
    """A page of topics in the order of their names, from the cursor on."""
    request, known = call.request, call.broker.node.metadata.topics
    cursor = request.cursor
    first = cursor.topic_name if cursor else ""
    asked = [one.name for one in request.topics]
    names = sorted({name for name in asked or known if name >= first and name not in call.denied})
    if cursor and (cursor.partition_index < 0 or (asked and first not in names)):
        return {"topics": [{"name": name, "error_code": "INVALID_REQUEST"} for name in asked]}
    most = configs_of(call)["max.request.partition.size.limit"]
    return _page(call, names, max(1, min(most, request.response_partition_limit)))


def _page(call: Call, names: list[str], room: int) -> Values:
    topics: list[Values] = []
    cursor = call.request.cursor
    for name in names:
        first = cursor.partition_index if cursor and name == cursor.topic_name else 0
        topic = call.broker.node.metadata.topics.get(name)
        if topic is None:
            if call.request.topics:
                topics.append(_absent(name))
            continue
        if room == 0:
            return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": 0}}
        numbers = sorted(number for number in topic.partitions if number >= first)
        page, rest = numbers[:room], numbers[room:]
        topics.append(
            {
                "error_code": None,
                "name": name,
                "topic_id": topic.topic_id,
                "is_internal": topic.is_internal,
                "partitions": list(_partitions(call, [topic.partitions[n] for n in page])),
                "topic_authorized_operations": TOPIC_OPERATIONS,
            }
        )
        room -= len(page)
        if rest:
            next_cursor = {"topic_name": name, "partition_index": rest[0]}
            return {"topics": topics, "next_cursor": next_cursor}
    return {"topics": topics, "next_cursor": None}


def _absent(name: str) -> Values:
    error = ABSENT
    try:
        check_name(name)
    except ApiError as refusal:
        error = refusal.error
    return {"error_code": error, "name": name, "topic_authorized_operations": TOPIC_OPERATIONS}


def _partitions(call: Call, of: list[PartitionRegistration]) -> Iterator[Any]:
    alive = alive_brokers(call.broker)
    for one in of:
        decision, leader = one.decision, one.decision.leader
        last = one.last_known_leader
        yield {
            "error_code": "LEADER_NOT_AVAILABLE" if leader is None else None,
            "partition_index": one.partition.partition,
            "leader_id": -1 if leader is None else leader,
            "leader_epoch": decision.leader_epoch,
            "replica_nodes": one.replicas,
            "isr_nodes": [replica for replica in one.replicas if replica in decision.isr],
            "eligible_leader_replicas": sorted(one.elr),
            "last_known_elr": [] if last is None or leader is not None else [last],
            "offline_replicas": [replica for replica in one.replicas if replica not in alive],
        }


def _described_pages(call: Call, proceed: Proceed) -> Result:
    """Of all topics those alone that the client may describe, so that no cursor names another."""
    if not call.request.topics:
        known = call.broker.node.metadata.topics
        call.denied = frozenset(one for one in known if not may(call, DESCRIBE, TOPIC, one))
    return proceed(call)


def _topic_operations(call: Call, answer: Values) -> Values:
    return {**answer, "topics": [with_topic_operations(call, one) for one in answer["topics"]]}


PERMISSIONS = (
    Each("topics", DESCRIBE, named_topic, refused_element("name"), "topics"),
    _described_pages,
    Changed(_topic_operations),
)
