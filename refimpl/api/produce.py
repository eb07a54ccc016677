"""Produce (KIP-98, KIP-467 for messages, KIP-516 for ids, KIP-951 for leaders).

Batches are views of the frame and go to the node as they are.
"""

from collections.abc import Iterable, Sequence

from refimpl.api.authorization import Denied, Proceed, Result, may
from refimpl.api.call import Call, Handling
from refimpl.api.errors import MOVED, code, endpoints_of, leader_of
from refimpl.api.permissions import TRANSACTIONAL_FAILED, TRANSACTIONAL_ID, WRITE
from refimpl.controller.client_quotas import PRODUCE
from refimpl.errors import Refusal
from refimpl.messages.broker import ProducedPartition, ProduceRequest, TopicPartition
from refimpl.messages.cluster import INTERNAL_TOPICS
from refimpl.messages.transactions import ADD_PARTITION, DEFAULT_ERROR, GENERIC_ERROR
from refimpl.named import named
from refimpl.storage.format.batch import CODEC, FLAGS_AT, MAGIC, MAGIC_AT, TRANSACTIONAL
from refimpl.storage.format.compression import Codec
from refimpl.storage.format.produced import only_batch
from refimpl.wire import produce as wire
from refimpl.wire.framing import Buffer

read = wire.read_produce

ADMIN_CLIENT = "__admin_client"
"""The client id that may write what coordinators write, as in Kafka."""

UNNAMED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
"""The error of records of a transaction whose request does not name its id."""

NONE = 0
"""`acks` of who wants no answer."""


ZSTD = 7
"""The first version whose records may be compressed by zstd (KIP-110)."""

ABORTABLE, ADDS_PARTITION = 11, 12
"""The first versions with TRANSACTION_ABORTABLE, and of clients that leave it to leaders to add
their partitions to a transaction (KIP-890)."""


def handle(call: Call) -> Handling:
    """Have each batch appended.

    Records of a transaction without its id are refused, as by a broker that does not know who may
    write in it.
    """
    broker, request = call.broker, call.request
    names = broker.node.metadata.topic_names
    # Of a partition that is named twice the last batch counts, as in Kafka's broker.
    known: dict[TopicPartition, memoryview] = {}
    refused: dict[TopicPartition, ProducedPartition] = {}
    ids: dict[str, bytes] = {}
    for topic, number, records in request.data:
        if isinstance(topic, bytes):
            name = names.get(topic)
            ids[name or topic.hex()] = topic
        else:
            name = topic
        if name is None:  # its id stands in for the name, which nobody knows
            partition = TopicPartition(topic.hex(), number)
            refused[partition] = ProducedPartition(partition, "UNKNOWN_TOPIC_ID")
            continue
        partition = named(TopicPartition, (name, number))
        internal = name in INTERNAL_TOPICS and partition in broker.node.metadata.partitions
        if name in call.denied:
            refused[partition] = ProducedPartition(partition, "TOPIC_AUTHORIZATION_FAILED")
        elif internal and call.client_id != ADMIN_CLIENT:
            why = f"Cannot append to internal topic {name}"
            error = "INVALID_TOPIC_EXCEPTION"
            refused[partition] = ProducedPartition(partition, error, message=why)
        elif request.transactional_id is None and _is_transactional(records):
            refused[partition] = ProducedPartition(partition, UNNAMED)
        elif call.version < ZSTD and _is_zstd(records):
            error = "UNSUPPORTED_COMPRESSION_TYPE"
            refused[partition] = ProducedPartition(partition, error)
        else:
            try:
                is_there = partition in broker.node.metadata.partitions
                known[partition] = only_batch(records) if is_there else records
            except Refusal as refusal:
                told = refusal.kafka_error, -1, -1, -1, str(refusal)
                refused[partition] = ProducedPartition(partition, *told)
    quotas = broker.node.client_quotas
    call.throttle_ms = quotas.throttle_ms(
        PRODUCE, call.client_id, call.size, broker.now(), call.session.user
    )
    body = ProduceRequest(
        *(request.acks, request.timeout_ms, list(known.items())),
        *(request.transactional_id, _support(call.version)),
    )
    if request.acks == NONE:
        broker.tell(body)
        return None
    produced: Sequence[ProducedPartition] = ()
    if known:
        produced = (yield body).partitions
    call.count_request()
    return _answer(call, [*produced, *refused.values()], ids)


def _is_transactional(records: memoryview) -> bool:
    """True if the first batch is of a transaction."""
    return bool(_flags(records) & TRANSACTIONAL)


def _is_zstd(records: memoryview) -> bool:
    """True if the first batch is compressed by zstd."""
    return _flags(records) & CODEC == Codec.ZSTD


def _flags(records: memoryview) -> int:
    """The low byte of the first batch's attributes; 0 if there is no batch of today's format."""
    return records[FLAGS_AT] if len(records) > FLAGS_AT and records[MAGIC_AT] == MAGIC else 0


def _support(version: int) -> int:
    if version >= ADDS_PARTITION:
        return ADD_PARTITION
    return GENERIC_ERROR if version >= ABORTABLE else DEFAULT_ERROR


def _answer(
    call: Call, produced: Sequence[ProducedPartition], ids: dict[str, bytes]
) -> list[Buffer]:
    leaders: list[tuple[int, int]] = []
    topics: dict[str, list[wire.ProducedData]] = {}
    for partition, error, offset, time_ms, log_start, message, records in produced:
        leader = leader_of(call.broker, partition) if error in MOVED else None
        if leader is not None:
            leaders.append(leader)
        topic, number = partition
        told = number, code(error), offset, time_ms, log_start, message, records, leader
        topics.setdefault(topic, []).append(named(wire.ProducedData, told))
    by_topic = [(ids.get(name, name), many) for name, many in topics.items()]
    endpoints = endpoints_of(call.broker, leaders)
    throttle_ms = call.throttle_ms
    return [
        wire.write_produced(call.version, by_topic, throttle_ms=throttle_ms, endpoints=endpoints)
    ]


def _produced_topics(call: Call) -> Iterable[str]:
    names = call.broker.node.metadata.topic_names
    data = call.request.data
    if len(data) == 1 and isinstance(data[0][0], str):  # most requests, for which it has to be fast
        return (data[0][0],)
    topics = dict.fromkeys([topic for topic, _, _ in data])
    found = [names.get(one) if isinstance(one, bytes) else one for one in topics]
    return [one for one in found if one is not None]


def _produce_transaction(call: Call, proceed: Proceed) -> Result:
    """Records of a transaction need WRITE on its id, which must be named."""
    request = call.request
    for _, _, records in request.data:
        if len(records) > FLAGS_AT and records[FLAGS_AT] & TRANSACTIONAL:
            break
    else:
        return proceed(call)
    name = request.transactional_id
    if name is not None and may(call, WRITE, TRANSACTIONAL_ID, name):
        return proceed(call)
    if request.acks == 0:
        return None
    topics: dict[str | bytes, list[wire.ProducedData]] = {}
    for topic, number, _ in request.data:
        refused = wire.ProducedData(number, code(TRANSACTIONAL_FAILED), -1, -1, -1)
        topics.setdefault(topic, []).append(refused)
    return [wire.write_produced(call.version, list(topics.items()))]


PERMISSIONS = (_produce_transaction, Denied(_produced_topics, WRITE))
