"""A transactional producer's requests as bytes and back, of versions that Kafka has from 2.8 on."""

from collections.abc import Mapping
from typing import Any

from refimpl.edge.clients.consumer_codec import (
    ClientApi,
    committed,
    committed_errors,
    error_of,
    numbers_by_topic,
)
from refimpl.messages import group as g
from refimpl.messages import transaction_coordination as t
from refimpl.messages.broker import TopicPartition
from refimpl.messages.controller import InitProducerIdResponse


def _identity(body: Any) -> Mapping[str, Any]:
    return {
        "transactional_id": body.transactional_id,
        "producer_id": body.producer_id,
        "producer_epoch": body.producer_epoch,
    }


def _initialize(body: t.InitTransactionalIdRequest) -> Mapping[str, Any]:
    return {**_identity(body), "transaction_timeout": body.timeout_ms}


def _initialized(body: Any, answer: Any) -> InitProducerIdResponse:
    error = error_of(answer.error_code)
    return InitProducerIdResponse(error, answer.producer_id, answer.producer_epoch)


def _add_partitions(body: t.AddPartitionsToTxnRequest) -> Mapping[str, Any]:
    topics = numbers_by_topic(body.partitions)
    found = [{"name": topic, "partitions": numbers} for topic, numbers in topics.items()]
    named = {f"v3_and_below_{name}": value for name, value in _identity(body).items()}
    return {**named, "v3_and_below_topics": found}


def _added_partitions(body: Any, answer: Any) -> t.AddPartitionsToTxnResponse:
    return t.AddPartitionsToTxnResponse(
        [
            (TopicPartition(topic.name, one.partition_index), error_of(one.partition_error_code))
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
    )


def _add_offsets(body: t.AddOffsetsToTxnRequest) -> Mapping[str, Any]:
    return {**_identity(body), "group_id": body.group_id}


def _added_offsets(body: Any, answer: Any) -> t.AddOffsetsToTxnResponse:
    return t.AddOffsetsToTxnResponse(error_of(answer.error_code))


def _commit_offsets(body: g.TxnOffsetCommitRequest) -> Mapping[str, Any]:
    return {
        **_identity(body),
        "group_id": body.group_id,
        "generation_id": body.generation_id,
        "member_id": body.member_id,
        "group_instance_id": body.group_instance_id,
        "topics": committed(body.partitions),
    }


def _committed_offsets(body: Any, answer: Any) -> g.TxnOffsetCommitResponse:
    return g.TxnOffsetCommitResponse(committed_errors(answer))


def _end(body: t.EndTxnRequest) -> Mapping[str, Any]:
    return {**_identity(body), "committed": body.committed}


def _ended(body: Any, answer: Any) -> t.EndTxnResponse:
    return t.EndTxnResponse(error_of(answer.error_code))


APIS: Mapping[type, ClientApi] = {
    t.InitTransactionalIdRequest: ClientApi(22, 4, _initialize, _initialized),
    t.AddPartitionsToTxnRequest: ClientApi(24, 3, _add_partitions, _added_partitions),
    t.AddOffsetsToTxnRequest: ClientApi(25, 3, _add_offsets, _added_offsets),
    t.EndTxnRequest: ClientApi(26, 3, _end, _ended),
    g.TxnOffsetCommitRequest: ClientApi(28, 3, _commit_offsets, _committed_offsets),
}
