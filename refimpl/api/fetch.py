"""Fetch (KIP-74, KIP-227 for sessions, KIP-320, KIP-392, KIP-516 for ids, KIP-951 for leaders).

The records of an answer are what the log has read, as bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from refimpl.api.authorization import Denied, Proceed, Result, may_cluster
from refimpl.api.call import Call, Handling
from refimpl.api.errors import MOVED, code, endpoints_of, leader_of
from refimpl.api.permissions import CLUSTER_ACTION, READ
from refimpl.controller.client_quotas import FETCH
from refimpl.messages.broker import (
    CONSUMER,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    SESSIONLESS,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    TopicPartition,
)
from refimpl.storage.replica.memory_records import MemoryRecords
from refimpl.wire import fetch as wire
from refimpl.wire.framing import Buffer
from refimpl.wire.messages import milliseconds
from refimpl.wire.reader import UUID_SIZE

UNKNOWN = ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID")
"""With these Kafka names no aborted transactions; with other errors it does not speak of them."""


def handle(call: Call) -> Handling:
    """Read records, or wait for them.

    Of a partition that is named twice the last one counts, as in Kafka's broker.
    """
    request, version = call.request, call.version
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _failed(call, "UNKNOWN_SERVER_ERROR")
    names = call.broker.node.metadata.topic_names
    wanted: dict[TopicPartition, FetchPartition] = {}
    unknown: dict[tuple[bytes, int], None] = {}
    for topic in request.topics:
        name = fetched_topic(topic, version, names)
        for one in topic.partitions:
            if name is None:
                topic_id = bytes(UUID_SIZE) if topic.topic_id is None else topic.topic_id.bytes
                unknown[topic_id, one.partition] = None
                continue
            partition = TopicPartition(name, one.partition)
            wanted[partition] = FetchPartition(
                partition,
                one.fetch_offset,
                max(getattr(one, "current_leader_epoch", -1), -1),
                max(getattr(one, "last_fetched_epoch", -1), -1),
                0,
                one.partition_max_bytes,
                getattr(one, "log_start_offset", -1),
            )
    replica_id, replica_epoch = _replica(request)
    response: FetchResponse = yield FetchRequest(
        tuple(wanted.values()),
        0 if unknown else milliseconds(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        replica_id,
        replica_epoch,
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", SESSIONLESS),
        _forgotten(request, version, names),
        getattr(request, "rack_id", None) if replica_id < 0 else None,
        call.denied,
    )
    return _answer(call, response, tuple(unknown))


def fetched_topic(topic: Any, version: int, names: Mapping[bytes, str]) -> str | None:
    """The name of a topic that may be asked for by its id."""
    if version < wire.FIRST_WITH_IDS:
        return topic.topic
    return None if topic.topic_id is None else names.get(topic.topic_id.bytes)


def _replica(request: Any) -> tuple[int, int]:
    """The replica that fetches, and its epoch; both moved to a tagged field (KIP-903)."""
    state = getattr(request, "replica_state", None)
    if state is not None:
        return state.replica_id, state.replica_epoch
    return getattr(request, "replica_id", CONSUMER), -1


def _forgotten(request: Any, version: int, names: dict[bytes, str]) -> Sequence[TopicPartition]:
    """The partitions that the client removes from its session."""
    found: list[TopicPartition] = []
    for topic in getattr(request, "forgotten_topics_data", ()):
        name = fetched_topic(topic, version, names)
        if name is not None:
            found += [TopicPartition(name, number) for number in topic.partitions]
    return found


def _answer(
    call: Call, response: FetchResponse, unknown: Sequence[tuple[bytes, int]]
) -> list[Buffer]:
    broker, version = call.broker, call.version
    topics: dict[str | bytes, list[wire.FetchedData]] = {}
    known = broker.node.metadata.topics
    leaders: list[tuple[int, int] | None] = []
    committed = call.request.isolation_level == READ_COMMITTED
    for one in response.partitions:
        name: str | bytes = one.partition.topic
        if version >= wire.FIRST_WITH_IDS:
            topic = known.get(one.partition.topic)
            name = bytes(16) if topic is None else topic.topic_id
        leader = None
        if one.error in MOVED:
            leader = leader_of(broker, one.partition)
            leaders.append(leader)
        topics.setdefault(name, []).append(_data(one, leader, committed=committed))
    by_consumer = _replica(call.request)[0] < 0
    if by_consumer:
        call.throttle_ms = broker.node.client_quotas.throttle_ms(
            FETCH, call.client_id, _size(topics), broker.now(), call.session.user
        )
        call.count_request()
    for topic_id, number in unknown:
        topics.setdefault(topic_id, []).append(_without_data(number, "UNKNOWN_TOPIC_ID"))
    return wire.write_fetch(
        version,
        list(topics.items()),
        throttle_ms=call.throttle_ms,
        error_code=code(response.error),
        session_id=response.session_id,
        endpoints=endpoints_of(broker, leaders) if by_consumer else (),
    )


def _failed(call: Call, error: str) -> list[Buffer]:
    """The answer to a request that fails as a whole; versions with ids name no topic then."""
    topics: list[tuple[str, list[wire.FetchedData]]] = []
    if call.version < wire.FIRST_WITH_IDS:
        for topic in call.request.topics:
            failed = [_without_data(one.partition, error) for one in topic.partitions]
            topics.append((topic.topic, failed))
    return wire.write_fetch(
        call.version,
        topics,
        error_code=code(error),
        session_id=getattr(call.request, "session_id", 0),
    )


def _size(topics: Mapping[str | bytes, Sequence[wire.FetchedData]]) -> int:
    """The bytes of all records of an answer."""
    return sum(len(one.records) for many in topics.values() for one in many)


def _data(
    one: FetchedPartition, leader: tuple[int, int] | None, *, committed: bool
) -> wire.FetchedData:
    records = one.records
    aborted: list[tuple[int, int]] | None = None
    if one.error in UNKNOWN or (committed and one.error is None):
        aborted = [(each.producer_id, each.first_offset) for each in one.aborted_transactions]
    return wire.FetchedData(
        one.partition.partition,
        code(one.error),
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        aborted,
        one.preferred_read_replica,
        records.data if isinstance(records, MemoryRecords) else b"",
        one.diverging and (one.diverging.epoch, one.diverging.end),
        leader,
    )


def _without_data(number: int, error: str) -> wire.FetchedData:
    return wire.FetchedData(number, code(error), -1, -1, -1, (), -1, b"")


def _fetched_topics(call: Call) -> Iterable[str]:
    """The topics that a fetch asks for, those of its session among them."""
    request, node = call.request, call.broker.node
    by_id = node.metadata.topic_names
    names: dict[str | None, None] = {}
    for topic in request.topics:
        names[fetched_topic(topic, call.version, by_id)] = None
    session = node.fetches.sessions.sessions.get(getattr(request, "session_id", 0))
    if session is not None:
        names |= dict.fromkeys(one.topic for one in session.partitions)
    return [one for one in names if one is not None]


_FETCHED_BY_CONSUMER = Denied(_fetched_topics, READ)


def _fetch(call: Call, proceed: Proceed) -> Result:
    """Followers need CLUSTER_ACTION, consumers READ on each topic."""
    state = getattr(call.request, "replica_state", None)
    replica = getattr(call.request, "replica_id", CONSUMER) if state is None else state.replica_id
    if replica <= CONSUMER:
        return _FETCHED_BY_CONSUMER(call, proceed)
    if not may_cluster(call, CLUSTER_ACTION):
        call.denied = frozenset(_fetched_topics(call))
    return proceed(call)


PERMISSIONS = (_fetch,)
