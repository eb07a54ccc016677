"""OffsetForLeaderEpoch: where a leader epoch ends (KIP-101, KIP-320)."""

from itertools import islice
from typing import Any

from refimpl.api.authorization import Each, Resource
from refimpl.api.call import Call, Handling, Values
from refimpl.api.permissions import CLUSTER_ACTION, DESCRIBE, TOPIC, refused_partitions
from refimpl.messages.broker import OffsetForLeaderEpochRequest, TopicPartition


def handle(call: Call) -> Handling:
    """Have each epoch's end looked up."""
    wanted = [
        (
            TopicPartition(topic.topic, one.partition),
            one.current_leader_epoch,
            one.leader_epoch,
        )
        for topic in call.request.topics
        for one in topic.partitions
    ]
    response = yield OffsetForLeaderEpochRequest(wanted)
    results = (
        {
            "partition": name.partition,
            "error_code": error,
            "leader_epoch": epoch,
            "end_offset": end,
        }
        for name, error, epoch, end in response.partitions
    )
    found: list[Values] = [
        {"topic": topic.topic, "partitions": list(islice(results, len(topic.partitions)))}
        for topic in call.request.topics
    ]
    return {"topics": found}


def _topic_of_epochs(call: Call, element: Any) -> Resource:
    return TOPIC, element.topic


PERMISSIONS = (
    Each(
        "topics",
        DESCRIBE,
        _topic_of_epochs,
        refused_partitions(index="partition", leader_epoch=-1, end_offset=-1),
        "topics",
        or_cluster=CLUSTER_ACTION,
    ),
)
