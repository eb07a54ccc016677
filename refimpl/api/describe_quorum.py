"""DescribeQuorum: who leads the metadata, and how far they are (KIP-595, KIP-642).

The metadata are kept as with ZooKeeper, or by one process: there is no quorum whose voters copy a
log. The one honest answer is a quorum of one voter, the controller that this broker hears; offsets
are versions of the metadata, of which a broker knows its own.
"""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Values
from refimpl.api.permissions import DESCRIBE, with_error
from refimpl.controller.errors import unknown_topic_or_partition

TOPIC, PARTITION = "__cluster_metadata", 0


def handle(call: Call) -> Values:
    """The metadata as this broker has them; no other topic has a quorum."""
    request = call.request
    asked = [
        (one.topic_name, [each.partition_index for each in one.partitions])
        for one in request.topics
    ]
    if asked != [(TOPIC, [PARTITION])]:
        return {
            "error_code": None,
            "error_message": "",
            "topics": [_unknown(*one) for one in asked],
        }
    node = call.broker.node
    version = node.metadata.metadata_version
    leader = node.metadata.controller_id
    partition = {
        "partition_index": PARTITION,
        "error_code": None,
        "error_message": "",
        "leader_id": leader,
        "leader_epoch": node.fence.controller_epoch,
        "high_watermark": version,
        "current_voters": [{"replica_id": leader, "log_end_offset": version}],
        "observers": []
        if node.id == leader
        else [{"replica_id": node.id, "log_end_offset": version}],
    }
    return {
        "error_code": None,
        "error_message": "",
        "topics": [{"topic_name": TOPIC, "partitions": [partition]}],
        "nodes": [{"node_id": leader, "listeners": []}],
    }


def _unknown(name: str, partitions: Any) -> Values:
    refusal = unknown_topic_or_partition()
    error = {"error_code": refusal.error, "error_message": refusal.message}
    return {
        "topic_name": name,
        "partitions": [{"partition_index": one, **error} for one in partitions],
    }


PERMISSIONS = (OnCluster((DESCRIBE,), with_error),)
