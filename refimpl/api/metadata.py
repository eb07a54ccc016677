"""Metadata: brokers, and who leads which partition.

No topics at all asks for every one in version 0, and a null list from 1 on; by id since version 12
(KIP-516). What clients may do is everything, for there is no authorizer (KIP-430). A topic that
does not exist is created where the client and `auto.create.topics.enable` allow it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from refimpl.api.authorization import Proceed, advanced, may, may_cluster
from refimpl.api.call import Call, Handling, Served, Values
from refimpl.api.errors import endpoint_of
from refimpl.api.groups import name_of
from refimpl.api.permissions import (
    CREATE,
    DESCRIBE,
    TOPIC,
    TOPIC_FAILED,
    with_cluster_operations,
    with_topic_operations,
)
from refimpl.messages.broker import MetadataRequest, MetadataResponse
from refimpl.messages.cluster import INTERNAL_TOPICS, PartitionRegistration, Topic

TOPIC_OPERATIONS, CLUSTER_OPERATIONS = 0b1101_1111_1000, 0b1_1111_1010_0000
"""Bits of the operations that topics and clusters have, by the numbers of AclOperation."""

UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"

_EMPTY_IS_ALL, _FIRST_BY_ID = 0, 12


def handle(call: Call) -> Handling:
    """The cluster as this broker knows it."""
    request, topics = call.request, call.broker.node.metadata.topics
    if call.version < _FIRST_BY_ID and any(map(_names_no_topic, request.topics or ())):
        return _refused(request.topics, "INVALID_REQUEST")
    answers: list[Values] = []
    if request.topics is None or (call.version == _EMPTY_IS_ALL and not request.topics):
        answers = [_topic(call, topic) for topic in topics.values()]
    else:
        wanted = _wanted_topics(request.topics)
        if any(one is None for one in wanted):
            return _refused(request.topics, "UNKNOWN_SERVER_ERROR")  # Kafka fails at it
        names = [one for one in wanted if isinstance(one, str)]
        allowed = getattr(request, "allow_auto_topic_creation", True)
        described: MetadataResponse = yield MetadataRequest(names, allowed, call.client_id)
        answers = [_wanted(call, one, described.errors) for one in wanted]
    return {**_cluster(call), "topics": answers}


def _names_no_topic(one: Any) -> bool:
    """Versions 10 and 11 have a field for the id, and do not know what to do with it."""
    return one.name is None or getattr(one, "topic_id", None) is not None


def _refused(topics: Sequence[Any], error: str) -> Values:
    """The answer to a request that is refused as a whole."""
    refused = [
        {"error_code": error, "name": one.name or "", "topic_id": getattr(one, "topic_id", None)}
        for one in topics
    ]
    return {"brokers": (), "controller_id": -1, "topics": refused, "error_code": error}


def _wanted_topics(topics: Sequence[Any]) -> Sequence[Any]:
    """Names, or ids if there is any; each once. None stands for a topic that has neither."""
    ids = [getattr(one, "topic_id", None) for one in topics]
    by_id = dict.fromkeys(one for one in ids if one is not None)
    return tuple(by_id) or tuple(dict.fromkeys(one.name for one in topics))


def _wanted(call: Call, one: Any, errors: Mapping[str, str]) -> Values:
    metadata = call.broker.node.metadata
    name = one if isinstance(one, str) else metadata.topic_names.get(one.bytes)
    topic = metadata.topics.get(name) if name else None
    if topic is not None:
        return _topic(call, topic)
    if not isinstance(one, str):
        return {"error_code": "UNKNOWN_TOPIC_ID", "name": None, "topic_id": one}
    error = errors.get(one, UNKNOWN)
    return {"error_code": error, "name": one, "is_internal": one in INTERNAL_TOPICS}


def _topic(call: Call, topic: Topic) -> Values:
    alive = alive_brokers(call.broker)
    operations = getattr(call.request, "include_topic_authorized_operations", False)
    found: dict[str, Any] = {
        "error_code": None,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [_partition(one, alive) for _, one in sorted(topic.partitions.items())],
    }
    if operations:
        found["topic_authorized_operations"] = TOPIC_OPERATIONS
    return found


def _partition(one: PartitionRegistration, alive: Collection[int]) -> Values:
    decision = one.decision
    leader = decision.leader
    return {
        "error_code": "LEADER_NOT_AVAILABLE" if leader is None else None,
        "partition_index": one.partition.partition,
        "leader_id": -1 if leader is None else leader,
        "leader_epoch": decision.leader_epoch,
        "replica_nodes": one.replicas,
        "isr_nodes": [replica for replica in one.replicas if replica in decision.isr],
        "offline_replicas": [replica for replica in one.replicas if replica not in alive],
    }


def _cluster(call: Call) -> Values:
    operations = getattr(call.request, "include_cluster_authorized_operations", False)
    found: dict[str, Any] = {
        "brokers": brokers(call.broker),
        "cluster_id": call.broker.cluster_id,
        "controller_id": controller_id(call.broker),
    }
    if operations:
        found["cluster_authorized_operations"] = CLUSTER_OPERATIONS
    return found


def alive_brokers(broker: Served) -> Collection[int]:
    """The ids of brokers that are registered and not fenced."""
    return {one.broker_id for one in broker.node.metadata.brokers.values() if not one.fenced}


def brokers(broker: Served) -> Sequence[Values]:
    """The endpoints of the brokers that are alive."""
    return [
        {
            "node_id": one.broker_id,
            "host": endpoint_of(broker, one).host,
            "port": endpoint_of(broker, one).port,
            "rack": one.rack,
        }
        for one in sorted(broker.node.metadata.brokers.values())
        if one.endpoints and not one.fenced
    ]


def controller_id(broker: Served) -> int:
    """A broker that takes requests for the controller: the controller, or any that forwards."""
    metadata, alive = broker.node.metadata, alive_brokers(broker)
    if metadata.controller_id in alive:
        return metadata.controller_id
    return min(alive, default=-1)


_WITH_IDS = 12


def _metadata(call: Call, proceed: Proceed) -> Handling:
    """DESCRIBE on each topic; CREATE on it, or on the cluster, to have it made."""
    request, asked = call.request, call.request.topics
    is_all = asked is None or (call.version == 0 and not asked)
    kept: list[Any] = []
    refused: list[Values] = []
    if not is_all:
        for one in asked or ():
            hidden = _hidden(call, one)
            if hidden is None:
                kept.append(one)
            else:
                refused.append(hidden)
        if refused and (kept or call.version > 0):  # none asks for all in version 0
            call.request = replace(request, topics=tuple(kept))
    answer = cast("Values", (yield from advanced(proceed(call))))
    topics: Iterable[Values] = answer["topics"] if kept or is_all else ()
    if is_all:
        topics = [one for one in topics if may(call, DESCRIBE, TOPIC, one["name"])]
    shown = [with_topic_operations(call, one) for one in topics]
    return with_cluster_operations(call, {**answer, "topics": [*shown, *refused]})


def _hidden(call: Call, one: Any) -> Values | None:
    """The answer to who may not describe a topic, or not have it made; None if all is well."""
    if call.version < _WITH_IDS:
        name, topic_id = one.name, None
    else:
        topic_id = one.topic_id
        name = one.name if topic_id is None else name_of(call, topic_id)
    if name is None or (may(call, DESCRIBE, TOPIC, name) and _may_have_it_made(call, name)):
        return None
    if topic_id is not None:
        return {"error_code": TOPIC_FAILED, "name": None, "topic_id": topic_id}
    return {"error_code": TOPIC_FAILED, "name": name, "is_internal": False}


def _may_have_it_made(call: Call, name: str) -> bool:
    """False if asking for a topic that is not there would make it, which the client may not."""
    node = call.broker.node
    makes = getattr(call.request, "allow_auto_topic_creation", True)
    if not makes or not node.auto_topics.config.auto_create_topics_enable:
        return True
    if name in node.metadata.topics or may_cluster(call, CREATE):
        return True
    return may(call, CREATE, TOPIC, name)


PERMISSIONS = (_metadata,)
