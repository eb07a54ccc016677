"""Metadata: brokers, and who leads which partition.

No topics at all asks for every one before version 1, and a null list from then on; by id since
version 12 (KIP-516). A topic that does not exist is created where the client and
`auto.create.topics.enable` allow it.
"""

from collections.abc import Iterable

from refimpl.api.call import Call, Values
from refimpl.broker.control_messages import PartitionState
from refimpl.broker.messages import TopicPartition
from refimpl.machines.messages import LeaderAndIsr

_EMPTY_IS_ALL = 0


def handle(call: Call) -> Values:
    """The cluster as this broker knows it."""
    broker, request = call.broker, call.request
    states = broker.node.metadata.states
    topics: dict[str, list[PartitionState]] = {}
    for state in states.values():
        topics.setdefault(state.partition.topic, []).append(state)
    if request.topics is None or (call.version == _EMPTY_IS_ALL and not request.topics):
        wanted: Iterable[str] = sorted(topics)
    else:
        wanted = [one.name for one in request.topics]
    return {
        "brokers": [
            {"node_id": one.id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in broker.endpoints
        ],
        "cluster_id": broker.cluster_id,
        "controller_id": min(one.id for one in broker.endpoints),
        "topics": [_topic(name, topics.get(name)) for name in wanted],
    }


def _topic(name: str, states: list[PartitionState] | None) -> Values:
    if states is None:
        return {"error_code": "UNKNOWN_TOPIC_OR_PARTITION", "name": name}
    return {
        "error_code": None,
        "name": name,
        "partitions": [_partition(*state) for state in sorted(states)],
    }


def _partition(name: TopicPartition, decision: LeaderAndIsr) -> Values:
    leader = decision.leader
    return {
        "error_code": "LEADER_NOT_AVAILABLE" if leader is None else None,
        "partition_index": name.partition,
        "leader_id": -1 if leader is None else leader,
        "leader_epoch": decision.leader_epoch,
        "replica_nodes": sorted(decision.isr),
        "isr_nodes": sorted(decision.isr),
    }
