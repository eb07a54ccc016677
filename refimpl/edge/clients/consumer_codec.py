"""A consumer's requests as bytes and back: one version of each API, which Kafka has from 2.8 on.

A member by the consumer group protocol needs later ones, which every broker with that protocol has.
"""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple

from refimpl.messages import broker as b
from refimpl.messages import group as g
from refimpl.messages.broker import TopicPartition
from refimpl.records.schema import Uuid
from refimpl.storage.format.txn_index import AbortedTxn
from refimpl.wire.errors import error_names
from refimpl.wire.framing import Buffer
from refimpl.wire.messages import milliseconds, read_response, write_request
from refimpl.wire.reader import after_tagged_fields, compact_nullable_string, unsigned_varint

_HEADER = 5
_TOP, _PARTITION, _ABORTED, _INT32 = Struct(">ihi"), Struct(">ihqqq"), Struct(">qq"), Struct(">i")


class ClientApi(NamedTuple):
    """An API: key, version, the fields of a request, and the answer to a request."""

    key: int
    version: int
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Any, Any], Any]


class NodeAddress(NamedTuple):
    """The address of a node."""

    node: int
    host: str
    port: int


def error_of(code: Any) -> str | None:
    """Kafka's name of an error."""
    number = code if isinstance(code, int) else code.value
    return error_names().get(int(number), "UNKNOWN_SERVER_ERROR") if int(number) else None


def encode(api: ClientApi, body: Any) -> tuple[int, int, bytes]:
    """Key, version and body of a request."""
    return api.key, api.version, write_request(api.key, api.version, api.write(body))


def decode(api: ClientApi, body: Any, frame: Buffer) -> tuple[Any, list[NodeAddress]]:
    """The answer to a request, and the node that it names."""
    if isinstance(body, b.FetchRequest):
        return _fetched(frame), []
    answer = read_response(api.key, api.version, frame, _HEADER)
    found = [NodeAddress(answer.node_id, answer.host, answer.port)] if api.key == _FIND else []
    return api.read(body, answer), found if found and found[0].node >= 0 else []


def api_of(body: Any) -> ClientApi | None:
    """The API of a request, None for one that is no consumer's."""
    if isinstance(body, g.OffsetFetchRequest) and body.member_id is not None:
        return _OFFSET_FETCH_9
    if isinstance(body, g.OffsetCommitRequest) and body.knows_member_epochs:
        return _OFFSET_COMMIT_9
    return _APIS.get(body.__class__)


def by_topic(
    rows: Iterable[tuple[TopicPartition, Mapping[str, Any]]], key: str = "name"
) -> list[Mapping[str, Any]]:
    """Fields of partitions, topic by topic."""
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for partition, fields in rows:
        topics.setdefault(partition.topic, []).append(fields)
    return [{key: topic, "partitions": found} for topic, found in topics.items()]


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    """Numbers of partitions, topic by topic."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


# Fetch


def _fetch(body: b.FetchRequest) -> Mapping[str, Any]:
    rows = [
        (
            one.partition,
            {
                "partition": one.partition.partition,
                "current_leader_epoch": one.current_leader_epoch,
                "fetch_offset": one.fetch_offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": one.max_bytes,
            },
        )
        for one in body.partitions
    ]
    forgotten = numbers_by_topic(body.forgotten)
    return {
        "replica_id": -1,
        "max_wait": body.max_wait_ms,
        "min_bytes": body.min_bytes,
        "max_bytes": body.max_bytes,
        "isolation_level": body.isolation_level,
        "session_id": body.session_id,
        "session_epoch": body.session_epoch,
        "topics": by_topic(rows, "topic"),
        "forgotten_topics_data": [
            {"topic": topic, "partitions": numbers} for topic, numbers in forgotten.items()
        ],
        "rack_id": body.rack_id or "",
    }


def _fetched(frame: Buffer) -> b.FetchResponse:
    """Records stay where they are in the answer."""
    view = memoryview(frame)
    _, code, session = _TOP.unpack_from(view, _HEADER)
    found: list[b.FetchedPartition] = []
    topics, at = unsigned_varint(view, _HEADER + _TOP.size)
    for _ in range(topics - 1):
        topic, at = compact_nullable_string(view, at)
        count, at = unsigned_varint(view, at)
        for _ in range(count - 1):
            number, error, high, stable, start = _PARTITION.unpack_from(view, at)
            aborted, at = _aborted(view, at + _PARTITION.size)
            (replica,) = _INT32.unpack_from(view, at)
            size, at = unsigned_varint(view, at + _INT32.size)
            records = view[at : at + max(size - 1, 0)]
            at = after_tagged_fields(view, at + len(records))
            name = TopicPartition(topic or "", number)
            found.append(
                b.FetchedPartition(
                    *(name, error_of(error), high, stable, start, aborted, records),
                    preferred_read_replica=replica,
                )
            )
        at = after_tagged_fields(view, at)
    return b.FetchResponse(found, session, error_of(code))


def _aborted(view: memoryview, at: int) -> tuple[list[AbortedTxn], int]:
    count, at = unsigned_varint(view, at)
    found: list[AbortedTxn] = []
    for _ in range(count - 1):
        producer_id, first = _ABORTED.unpack_from(view, at)
        found.append(AbortedTxn(first, -1, producer_id, -1))
        at = after_tagged_fields(view, at + _ABORTED.size)
    return found, at


# Offsets of logs


def _list(body: b.ListOffsetsRequest) -> Mapping[str, Any]:
    rows = [
        (
            one.partition,
            {
                "partition_index": one.partition.partition,
                "current_leader_epoch": one.current_leader_epoch,
                "timestamp": one.timestamp,
            },
        )
        for one in body.partitions
    ]
    return {
        "replica_id": -1,
        "isolation_level": body.isolation_level,
        "topics": by_topic(rows),
    }


def _listed(body: Any, answer: Any) -> b.ListOffsetsResponse:
    return b.ListOffsetsResponse(
        [
            b.ListedOffset(
                TopicPartition(topic.name, one.partition_index),
                error_of(one.error_code),
                one.offset,
                one.timestamp,
                one.leader_epoch,
            )
            for topic in answer.topics
            for one in topic.partitions
        ]
    )


def _epoch_ends(body: b.OffsetForLeaderEpochRequest) -> Mapping[str, Any]:
    rows = [
        (
            name,
            {"partition": name.partition, "current_leader_epoch": current, "leader_epoch": epoch},
        )
        for name, current, epoch in body.partitions
    ]
    return {"replica_id": -1, "topics": by_topic(rows, "topic")}


def _epochs_ended(body: Any, answer: Any) -> b.OffsetForLeaderEpochResponse:
    return b.OffsetForLeaderEpochResponse(
        [
            (
                TopicPartition(topic.topic, one.partition),
                error_of(one.error_code),
                one.leader_epoch,
                one.end_offset,
            )
            for topic in answer.topics
            for one in topic.partitions
        ]
    )


# Groups


def _found(body: g.FindCoordinatorRequest, answer: Any) -> g.FindCoordinatorResponse:
    error = error_of(answer.error_code)
    one = g.FoundCoordinator(body.keys[0], error, answer.node_id, answer.error_message)
    return g.FindCoordinatorResponse([one])


def committed(partitions: Iterable[g.CommittedPartition]) -> list[Mapping[str, Any]]:
    """Offsets to commit, topic by topic."""
    rows = [
        (
            one.partition,
            {
                "partition_index": one.partition.partition,
                "committed_offset": one.offset,
                "committed_leader_epoch": one.leader_epoch,
                "committed_metadata": one.metadata,
            },
        )
        for one in partitions
    ]
    return by_topic(rows)


def committed_errors(answer: Any) -> list[tuple[TopicPartition, str | None]]:
    """The result of each committed offset: its error, None for none."""
    return [
        (TopicPartition(topic.name, one.partition_index), error_of(one.error_code))
        for topic in answer.topics
        for one in topic.partitions
    ]


def _commit(body: g.OffsetCommitRequest) -> Mapping[str, Any]:
    return {
        "group_id": body.group_id,
        "generation_id_or_member_epoch": body.generation_id,
        "generation_id": body.generation_id,
        "member_id": body.member_id,
        "group_instance_id": body.group_instance_id,
        "topics": committed(body.partitions),
    }


def _committed(body: Any, answer: Any) -> g.OffsetCommitResponse:
    return g.OffsetCommitResponse(committed_errors(answer))


def _wanted(body: g.OffsetFetchRequest) -> list[Mapping[str, Any]]:
    numbers = numbers_by_topic(name for name, _ in body.partitions or ())
    return [{"name": topic, "partition_indexes": found} for topic, found in numbers.items()]


def _offsets(body: g.OffsetFetchRequest) -> Mapping[str, Any]:
    return {
        "group_id": body.group_id,
        "topics": _wanted(body),
        "require_stable": body.require_stable,
    }


def _offsets_of_member(body: g.OffsetFetchRequest) -> Mapping[str, Any]:
    group = {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "member_epoch": body.member_epoch,
        "topics": _wanted(body),
    }
    return {"groups": [group], "require_stable": body.require_stable}


def _fetched_offsets(body: g.OffsetFetchRequest, answer: Any) -> g.OffsetFetchResponse:
    found = [
        g.FetchedOffset(
            TopicPartition(topic.name, one.partition_index),
            error_of(one.error_code),
            one.committed_offset,
            one.committed_leader_epoch,
            one.metadata or "",
        )
        for topic in answer.topics
        for one in topic.partitions
    ]
    return g.OffsetFetchResponse(body.group_id, error_of(answer.error_code), found)


def _join(body: g.JoinGroupRequest) -> Mapping[str, Any]:
    return {
        "group_id": body.group_id,
        "session_timeout": body.session_timeout_ms,
        "rebalance_timeout": body.rebalance_timeout_ms,
        "member_id": body.member_id,
        "group_instance_id": body.group_instance_id,
        "protocol_type": body.protocol_type,
        "protocols": [{"name": name, "metadata": data} for name, data in body.protocols],
    }


def _joined(body: Any, answer: Any) -> g.JoinGroupResponse:
    return g.JoinGroupResponse(
        error_of(answer.error_code),
        answer.member_id,
        answer.generation_id,
        answer.protocol_type,
        answer.protocol_name,
        answer.leader,
        False,
        [
            g.JoinGroupMember(one.member_id, one.group_instance_id, bytes(one.metadata))
            for one in answer.members
        ],
    )


def _sync(body: g.SyncGroupRequest) -> Mapping[str, Any]:
    return {
        "group_id": body.group_id,
        "generation_id": body.generation_id,
        "member_id": body.member_id,
        "group_instance_id": body.group_instance_id,
        "protocol_type": body.protocol_type,
        "protocol_name": body.protocol_name,
        "assignments": [
            {"member_id": member, "assignment": data} for member, data in body.assignments
        ],
    }


def _synced(body: Any, answer: Any) -> g.SyncGroupResponse:
    return g.SyncGroupResponse(error_of(answer.error_code), bytes(answer.assignment))


def _heartbeat(body: g.HeartbeatRequest) -> Mapping[str, Any]:
    return body._asdict()


def _leave(body: g.LeaveGroupRequest) -> Mapping[str, Any]:
    members = [
        {"member_id": one.member_id, "group_instance_id": one.group_instance_id}
        for one in body.members
    ]
    return {"group_id": body.group_id, "members": members}


def _reconcile(body: g.ConsumerGroupHeartbeatRequest) -> Mapping[str, Any]:
    owned = body.topic_partitions
    return {
        "group_id": body.group_id,
        "member_id": body.member_id,
        "member_epoch": body.member_epoch,
        "instance_id": body.instance_id,
        "rack_id": body.rack_id,
        "rebalance_timeout": body.rebalance_timeout_ms,
        "subscribed_topic_names": body.subscribed_topic_names,
        "server_assignor": body.server_assignor,
        "topic_partitions": None if owned is None else [one._asdict() for one in owned],
    }


def _reconciled(body: Any, answer: Any) -> g.ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.assignment is not None:
        assignment = tuple(
            g.TopicIdPartitions(Uuid(one.topic_id.bytes), tuple(one.partitions))
            for one in answer.assignment.topic_partitions
        )
    return g.ConsumerGroupHeartbeatResponse(
        error_of(answer.error_code),
        answer.error_message,
        answer.member_id,
        answer.member_epoch,
        milliseconds(answer.heartbeat_interval),
        assignment,
    )


def _find(body: g.FindCoordinatorRequest) -> Mapping[str, Any]:
    return {"key": body.keys[0], "key_type": body.key_type}


def _beaten(body: Any, answer: Any) -> g.HeartbeatResponse:
    return g.HeartbeatResponse(error_of(answer.error_code))


def _left(body: Any, answer: Any) -> g.LeaveGroupResponse:
    return g.LeaveGroupResponse(error_of(answer.error_code))


def _offsets_of_group(body: g.OffsetFetchRequest, answer: Any) -> g.OffsetFetchResponse:
    return _fetched_offsets(body, answer.groups[0])


def _nothing(body: Any, answer: Any) -> None:
    """Fetches are read by hand."""


_FIND = 10
_OFFSET_FETCH_9 = ClientApi(9, 9, _offsets_of_member, _offsets_of_group)
_OFFSET_COMMIT_9 = ClientApi(8, 9, _commit, _committed)
_APIS: Mapping[type, ClientApi] = {
    b.FetchRequest: ClientApi(1, 12, _fetch, _nothing),
    b.ListOffsetsRequest: ClientApi(2, 6, _list, _listed),
    b.OffsetForLeaderEpochRequest: ClientApi(23, 4, _epoch_ends, _epochs_ended),
    g.FindCoordinatorRequest: ClientApi(_FIND, 3, _find, _found),
    g.OffsetCommitRequest: ClientApi(8, 8, _commit, _committed),
    g.OffsetFetchRequest: ClientApi(9, 7, _offsets, _fetched_offsets),
    g.JoinGroupRequest: ClientApi(11, 7, _join, _joined),
    g.SyncGroupRequest: ClientApi(14, 5, _sync, _synced),
    g.HeartbeatRequest: ClientApi(12, 4, _heartbeat, _beaten),
    g.LeaveGroupRequest: ClientApi(13, 4, _leave, _left),
    g.ConsumerGroupHeartbeatRequest: ClientApi(68, 0, _reconcile, _reconciled),
}
