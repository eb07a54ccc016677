"""TxnOffsetCommit: offsets that count with a transaction (KIP-98, KIP-447, KIP-890)."""

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import as_asked
from refimpl.api.groups import UNKNOWN, exists, id_of
from refimpl.api.permissions import (
    READ,
    named_topic,
    on_group,
    on_transaction,
    refused_partitions,
    refused_topics,
)
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import (
    CommittedPartition,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from refimpl.messages.transactions import ADD_PARTITION, DEFAULT_ERROR, GENERIC_ERROR

LOADING, ABORTABLE, ADDS_PARTITION = 2, 4, 5
"""The first versions with COORDINATOR_LOAD_IN_PROGRESS, with TRANSACTION_ABORTABLE, and of clients
that leave it to the coordinator to add the partition."""


def handle(call: Call) -> Handling:
    """Have offsets of partitions that exist written within a transaction."""
    request, known = call.request, list[CommittedPartition]()
    results: list[tuple[TopicPartition, str | None]] = []
    for topic in request.topics:
        for one in topic.partitions:
            name = TopicPartition(topic.name, one.partition_index)
            if not exists(call, name):
                results.append((name, UNKNOWN))
                continue
            leader_epoch = getattr(one, "committed_leader_epoch", -1)
            metadata, topic_id = one.committed_metadata, id_of(call, name.topic)
            known.append(
                CommittedPartition(name, one.committed_offset, leader_epoch, metadata, topic_id)
            )
    if known:
        answer: TxnOffsetCommitResponse = yield _request(call, known)
        results += [(name, _named(call, error)) for name, error in answer.partitions]
    told: dict[TopicPartition, Values] = {
        name: {"partition_index": name.partition, "error_code": error} for name, error in results
    }
    found = as_asked(request.topics, "name", "partitions", told)
    return {"topics": [{"name": topic, "partitions": of} for topic, of in found if of]}


def _named(call: Call, error: str | None) -> str | None:
    if error == "COORDINATOR_LOAD_IN_PROGRESS" and call.version < LOADING:
        return "COORDINATOR_NOT_AVAILABLE"
    return error


def _request(call: Call, partitions: list[CommittedPartition]) -> TxnOffsetCommitRequest:
    request, support = call.request, DEFAULT_ERROR
    if call.version >= ABORTABLE:
        support = ADD_PARTITION if call.version >= ADDS_PARTITION else GENERIC_ERROR
    return TxnOffsetCommitRequest(
        request.group_id,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        partitions,
        getattr(request, "member_id", ""),
        getattr(request, "generation_id", -1),
        getattr(request, "group_instance_id", None),
        support,
    )


PERMISSIONS = (
    on_transaction(refused_topics),
    on_group(READ, refused_topics),
    Each("topics", READ, named_topic, refused_partitions(), "topics"),
)
