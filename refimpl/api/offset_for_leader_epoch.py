"""OffsetForLeaderEpoch: where a leader epoch ends (KIP-101, KIP-320)."""

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
    topics: dict[str, list[Values]] = {}
    for name, error, epoch, end in response.partitions:
        topics.setdefault(name.topic, []).append(
            {
                "partition": name.partition,
                "error_code": error,
                "leader_epoch": epoch,
                "end_offset": end,
            }
        )
    return {"topics": [{"topic": name, "partitions": many} for name, many in topics.items()]}
