"""OffsetForLeaderEpoch: where a leader epoch ends (KIP-101, KIP-320)."""

from itertools import islice

from refimpl.api.call import Call, Handling, Values
from refimpl.messages.broker import OffsetForLeaderEpochRequest, TopicPartition


def handle(call: Call) -> Handling:
    """Have each epoch's end looked up."""
    wanted = [
        (
            TopicPartition(topic.topic, one.partition),
            getattr(one, "current_leader_epoch", -1),
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
