"""OffsetCommit, by topic id since version 10 (KIP-848)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import UNKNOWN, exists, id_of, name_of
from refimpl.api.permissions import READ, on_group, refused_partitions, refused_topics, topic_by_id
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import CommittedPartition, OffsetCommitRequest
from refimpl.wire.messages import milliseconds

MEMBER_EPOCHS, TOPIC_IDS = 9, 10


def handle(call: Call) -> Handling:
    """Have offsets of partitions that exist committed."""
    request, known = call.request, list[CommittedPartition]()
    results: dict[TopicPartition, Values] = {}
    topics: list[tuple[Values, list[TopicPartition]]] = []
    for topic in request.topics:
        if call.version >= TOPIC_IDS:
            name = name_of(call, topic.topic_id)
            key = f"{topic.topic_id}" if name is None else name
            shown: Values = {"topic_id": topic.topic_id}
        else:
            key = name = topic.name
            shown = {"name": name}
        named = [TopicPartition(key, one.partition_index) for one in topic.partitions]
        topics.append((shown, named))
        missing = "UNKNOWN_TOPIC_ID" if name is None else UNKNOWN
        for one in topic.partitions:
            partition = TopicPartition(key, one.partition_index)
            if name is None or not exists(call, partition):
                results[partition] = _result(one.partition_index, missing)
                continue
            leader_epoch = getattr(one, "committed_leader_epoch", -1)
            metadata, topic_id = one.committed_metadata, id_of(call, name)
            known.append(
                CommittedPartition(
                    partition, one.committed_offset, leader_epoch, metadata, topic_id
                )
            )
    if known:
        answer = yield _request(call, known)
        for partition, error in answer.partitions:
            results[partition] = _result(partition.partition, error)
    return {
        "topics": [
            {**shown, "partitions": [results[one] for one in named]}
            for shown, named in topics
            if named
        ]
    }


def _result(index: int, error: str | None) -> Values:
    return {"partition_index": index, "error_code": error}


def _request(call: Call, partitions: list[CommittedPartition]) -> OffsetCommitRequest:
    request = call.request
    retention = getattr(request, "retention_time", None)
    return OffsetCommitRequest(
        request.group_id,
        request.member_id,
        request.generation_id_or_member_epoch,
        getattr(request, "group_instance_id", None),
        partitions,
        -1 if retention is None else milliseconds(retention),
        knows_member_epochs=call.version >= MEMBER_EPOCHS,
    )


PERMISSIONS = (
    on_group(READ, refused_topics),
    Each("topics", READ, topic_by_id, refused_partitions(), "topics"),
)
