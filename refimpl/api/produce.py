"""Produce (KIP-98, KIP-467 for messages, KIP-516 for ids, KIP-951 for leaders).

Batches are views of the frame and go to the node as they are.
"""

from collections.abc import Sequence

from refimpl.api.call import Call, Handling
from refimpl.api.errors import MOVED, code, endpoints_of, leader_of
from refimpl.broker.client_quotas import PRODUCE
from refimpl.broker.cluster import INTERNAL_TOPICS
from refimpl.broker.messages import ProducedPartition, ProduceRequest, TopicPartition
from refimpl.wire import produce as wire
from refimpl.wire.framing import Buffer

read = wire.read_produce

ADMIN_CLIENT = "__admin_client"
"""The client id that may write what coordinators write, as in Kafka."""

NONE = 0
"""`acks` of who wants no answer."""


def handle(call: Call) -> Handling:
    """Have each batch appended."""
    broker, request = call.broker, call.request
    names = broker.node.metadata.topic_names
    # Of a partition that is named twice the last batch counts, as in Kafka's broker.
    known: dict[TopicPartition, memoryview] = {}
    unknown: list[ProducedPartition] = []
    ids: dict[str, bytes] = {}
    for topic, number, records in request.data:
        if isinstance(topic, bytes):
            name = names.get(topic)
            if name is None:
                # An id stands in for the name, which nobody knows.
                name = topic.hex()
                unknown.append(ProducedPartition(TopicPartition(name, number), "UNKNOWN_TOPIC_ID"))
            else:
                known[TopicPartition(name, number)] = records
            ids[name] = topic
        else:
            known[TopicPartition(topic, number)] = records
    for partition in [one for one in known if one.topic in INTERNAL_TOPICS]:
        if call.client_id != ADMIN_CLIENT:
            del known[partition]
            why = f"Cannot append to internal topic {partition.topic}"
            unknown.append(ProducedPartition(partition, "INVALID_TOPIC_EXCEPTION", message=why))
    call.throttle_ms = broker.node.client_quotas.throttle_ms(
        PRODUCE, call.client_id, call.size, broker.now()
    )
    body = ProduceRequest(request.acks, request.timeout_ms, list(known.items()))
    if request.acks == NONE:
        broker.tell(body)
        return None
    produced: Sequence[ProducedPartition] = ()
    if known:
        produced = (yield body).partitions
    call.count_request()
    return _answer(call, [*produced, *unknown], ids)


def _answer(
    call: Call, produced: Sequence[ProducedPartition], ids: dict[str, bytes]
) -> list[Buffer]:
    leaders: list[tuple[int, int] | None] = []
    topics: dict[str, list[wire.ProducedData]] = {}
    for one in produced:
        leader = leader_of(call.broker, one.partition) if one.error in MOVED else None
        leaders.append(leader)
        topics.setdefault(one.partition.topic, []).append(
            wire.ProducedData(
                one.partition.partition,
                code(one.error),
                one.base_offset,
                one.log_append_time_ms,
                one.log_start_offset,
                one.message,
                leader,
            )
        )
    named = [(ids.get(name, name), many) for name, many in topics.items()]
    endpoints = endpoints_of(call.broker, leaders) if any(leaders) else ()
    throttle_ms = call.throttle_ms
    return [wire.write_produced(call.version, named, throttle_ms=throttle_ms, endpoints=endpoints)]
