"""A client's requests as bytes and back: one version of each API, which Kafka has from 2.8 on."""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

from attrs import frozen

from refimpl.edge.clients import consumer_codec, transaction_codec
from refimpl.edge.clients.consumer_codec import NodeAddress, error_of
from refimpl.messages.broker import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    ProducedPartition,
    ProduceRequest,
    ProduceResponse,
    TopicPartition,
)
from refimpl.messages.controller import InitProducerIdRequest, InitProducerIdResponse
from refimpl.records.schema import Uuid
from refimpl.wire.framing import Buffer
from refimpl.wire.messages import read_response, write_request
from refimpl.wire.reader import after_tagged_fields, compact_nullable_string, unsigned_varint
from refimpl.wire.writer import NO_TAGS, string_of
from refimpl.wire.writer import unsigned_varint as varint

PRODUCE, METADATA, INIT_PRODUCER_ID = 0, 3, 22
VERSIONS = {PRODUCE: 9, METADATA: 10, INIT_PRODUCER_ID: 4}
SASL_HANDSHAKE, SASL_AUTHENTICATE = (17, 1), (36, 2)
LONGEST = 2**31 - 1

_HEAD, _ACKS, _INT32 = Struct(">ihhi"), Struct(">hi"), Struct(">i")
_PARTITION = Struct(">ihqqq")
_HEADER = 5
"""Of a response: the correlation id, and no tagged fields."""


@frozen
class SaslAnswer:
    """A broker's answer to a step of a login."""

    error: str | None
    message: str = ""
    auth_bytes: bytes = b""
    #: For how long the login is good, 0 for ever
    session_lifetime_ms: int = 0


def handshake(mechanism: str, correlation_id: int, client_id: str) -> list[Buffer]:
    """A SaslHandshake as a frame: its header has no tagged fields."""
    body = write_request(*SASL_HANDSHAKE, {"mechanism": mechanism})
    return _frame(*SASL_HANDSHAKE, correlation_id, client_id, [body], b"")


def handshaken(frame: Buffer) -> SaslAnswer:
    """The answer to a SaslHandshake. Raises WireError."""
    answer = read_response(*SASL_HANDSHAKE, frame, _INT32.size)
    error = error_of(answer.error_code)
    known = f"the broker has {', '.join(answer.mechanisms) or 'none'}"
    return SaslAnswer(error, known if error else "")


def authenticate(auth_bytes: bytes, correlation_id: int, client_id: str) -> list[Buffer]:
    """A SaslAuthenticate as a frame."""
    body = write_request(*SASL_AUTHENTICATE, {"auth_bytes": auth_bytes})
    return _frame(*SASL_AUTHENTICATE, correlation_id, client_id, [body])


def authenticated(frame: Buffer) -> SaslAnswer:
    """The answer to a SaslAuthenticate. Raises WireError."""
    answer = read_response(*SASL_AUTHENTICATE, frame, _HEADER)
    error, lifetime_s = error_of(answer.error_code), answer.session_lifetime.total_seconds()
    message = answer.error_message or ""
    return SaslAnswer(error, message, answer.auth_bytes, round(lifetime_s * 1000))


def encode(body: Any, correlation_id: int, client_id: str) -> list[Buffer]:
    """A request as a frame, in parts."""
    parts: list[Buffer]
    match body:
        case ProduceRequest():
            key, version, parts = PRODUCE, VERSIONS[PRODUCE], _produce(body)
        case MetadataRequest(topics, create):
            topics = None if topics is None else [{"topic_id": None, "name": one} for one in topics]
            values: Mapping[str, Any] = {"topics": topics, "allow_auto_topic_creation": create}
            key, version = METADATA, VERSIONS[METADATA]
            parts = [write_request(key, version, values)]
        case InitProducerIdRequest(producer_id, epoch):
            values = {
                "transactional_id": None,
                "transaction_timeout": LONGEST,
                "producer_id": producer_id,
                "producer_epoch": epoch,
            }
            key, version = INIT_PRODUCER_ID, VERSIONS[INIT_PRODUCER_ID]
            parts = [write_request(key, version, values)]
        case _:
            key, version, content = consumer_codec.encode(_api(body), body)
            parts = [content]
    return _frame(key, version, correlation_id, client_id, parts)


def _frame(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str,
    parts: list[Buffer],
    tags: bytes = NO_TAGS,
) -> list[Buffer]:
    name = client_id.encode()
    size = _HEAD.size - 4 + 2 + len(name) + len(tags) + sum(map(len, parts))
    head = _HEAD.pack(size, key, version, correlation_id)
    return [head + len(name).to_bytes(2) + name + tags, *parts]


def _produce(body: ProduceRequest) -> list[Buffer]:
    topics: dict[str, list[tuple[int, Any]]] = {}
    for partition, batch in body.batches:
        topics.setdefault(partition.topic, []).append((partition.partition, batch))
    name = body.transactional_id
    within = b"\0" if name is None else string_of(name, flexible=True)
    parts: list[Buffer] = [
        within + _ACKS.pack(body.acks, body.timeout_ms) + varint(len(topics) + 1)
    ]
    for topic, batches in topics.items():
        parts.append(string_of(topic, flexible=True) + varint(len(batches) + 1))
        for number, batch in batches:
            parts += (_INT32.pack(number) + varint(len(batch) + 1), batch, NO_TAGS)
        parts.append(NO_TAGS)
    parts.append(NO_TAGS)
    return parts


def correlation_of(frame: Buffer) -> int:
    """The request that a response belongs to."""
    return _INT32.unpack_from(frame)[0]


def decode(body: Any, frame: Buffer) -> tuple[Any, Sequence[NodeAddress]]:
    """The answer to a request, and the brokers that it tells of."""
    match body:
        case ProduceRequest():
            return _produced(frame), []
        case MetadataRequest():
            answer = read_response(METADATA, VERSIONS[METADATA], frame, _HEADER)
            brokers = [NodeAddress(one.node_id, one.host, one.port) for one in answer.brokers]
            return _metadata(answer), brokers
        case InitProducerIdRequest():
            answer = read_response(INIT_PRODUCER_ID, VERSIONS[INIT_PRODUCER_ID], frame, _HEADER)
            error = error_of(answer.error_code)
            return InitProducerIdResponse(error, answer.producer_id, answer.producer_epoch), []
        case _:
            return consumer_codec.decode(_api(body), body, frame)


def _api(body: Any) -> consumer_codec.ClientApi:
    """The API of a request. Raises KeyError for one that no client sends."""
    return consumer_codec.api_of(body) or transaction_codec.APIS[type(body)]


def _metadata(answer: Any) -> MetadataResponse:
    found: list[PartitionMetadata] = []
    errors: dict[str, str] = {}
    for topic in answer.topics:
        if (error := error_of(topic.error_code)) is not None:
            errors[topic.name] = error
        for one in topic.partitions:
            partition = TopicPartition(topic.name, one.partition_index)
            isr = frozenset(one.isr_nodes)
            error = error_of(one.error_code)
            found.append(PartitionMetadata(partition, error, one.leader_id, one.leader_epoch, isr))
    ids = {one.name: Uuid(one.topic_id.bytes) for one in answer.topics if one.topic_id is not None}
    return MetadataResponse(found, errors, ids)


def _produced(frame: Buffer) -> ProduceResponse:
    found: list[ProducedPartition] = []
    topics, at = unsigned_varint(frame, _HEADER)
    for _ in range(topics - 1):
        topic, at = compact_nullable_string(frame, at)
        count, at = unsigned_varint(frame, at)
        for _ in range(count - 1):
            number, code, offset, time, start = _PARTITION.unpack_from(frame, at)
            records, message, at = _reasons(frame, at + _PARTITION.size)
            partition = TopicPartition(topic or "", number)
            found.append(
                ProducedPartition(partition, error_of(code), offset, time, start, message, records)
            )
        at = after_tagged_fields(frame, at)
    return ProduceResponse(found)


def _reasons(frame: Buffer, at: int) -> tuple[list[tuple[int, str]], str | None, int]:
    """The records that caused a refusal, and its message (KIP-467)."""
    count, at = unsigned_varint(frame, at)
    records: list[tuple[int, str]] = []
    for _ in range(count - 1):
        (index,) = _INT32.unpack_from(frame, at)
        why, at = compact_nullable_string(frame, at + _INT32.size)
        records.append((index, why or ""))
        at = after_tagged_fields(frame, at)
    message, at = compact_nullable_string(frame, at)
    return records, message, after_tagged_fields(frame, at)
