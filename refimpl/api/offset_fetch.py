"""OffsetFetch: stable offsets (KIP-447), many groups (KIP-709), member epochs and topic ids
(KIP-848)."""

from collections.abc import Generator, Iterable
from typing import Any

from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import id_of, name_of
from refimpl.messages.broker import TopicPartition
from refimpl.messages.group import FetchedOffset, OffsetFetchRequest, OffsetFetchResponse
from refimpl.records.schema import NO_ID, Uuid

GROUP_ERROR, BATCHED, TOPIC_IDS = 2, 8, 10


def handle(call: Call) -> Handling:
    """The committed offsets of each group."""
    request = call.request
    stable = getattr(request, "require_stable", False)
    if call.version >= BATCHED:
        groups: list[Values] = []
        for group in request.groups:
            groups.append((yield from _group(call, group, stable=stable)))
        return {"groups": groups}
    return (yield from _group(call, request, stable=stable))


def _group(call: Call, group: Any, *, stable: bool) -> Generator[Any, Any, Values]:
    wanted, unknown = None, list[FetchedOffset]()
    if group.topics is not None:
        wanted = list[tuple[TopicPartition, Uuid]]()
        for topic in group.topics:
            name, topic_id = _topic(call, topic)
            for index in topic.partition_indexes:
                if name is None:
                    where = TopicPartition("", index)
                    unknown.append(FetchedOffset(where, "UNKNOWN_TOPIC_ID", topic_id=topic_id))
                else:
                    wanted.append((TopicPartition(name, index), topic_id))
    member_id, member_epoch = getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
    answer: OffsetFetchResponse = yield OffsetFetchRequest(
        group.group_id, wanted, member_id, member_epoch, stable
    )
    fetched: Iterable[FetchedOffset] = (*answer.partitions, *unknown)
    if answer.error is not None:
        fetched = ()
        if call.version < GROUP_ERROR and wanted is not None:
            fetched = [FetchedOffset(name, answer.error) for name, _ in wanted]
    return {
        "group_id": group.group_id,
        "error_code": answer.error,
        "topics": _topics(call, fetched),
    }


def _topic(call: Call, topic: Any) -> tuple[str | None, Uuid]:
    if call.version < TOPIC_IDS:
        return topic.name, id_of(call, topic.name)
    topic_id = NO_ID if topic.topic_id is None else Uuid(topic.topic_id.bytes)
    return name_of(call, topic.topic_id), topic_id


def _topics(call: Call, fetched: Iterable[FetchedOffset]) -> list[Values]:
    topics: dict[tuple[str, bytes], list[Values]] = {}
    for one in fetched:
        topic_id = one.topic_id
        if call.version >= TOPIC_IDS and topic_id == NO_ID:
            topic_id = id_of(call, one.partition.topic)
            if topic_id == NO_ID:
                continue  # it cannot be named
        topics.setdefault((one.partition.topic, topic_id), []).append(_fetched(one))
    return [
        {"name": name, "topic_id": topic_id, "partitions": partitions}
        for (name, topic_id), partitions in topics.items()
    ]


def _fetched(one: FetchedOffset) -> Values:
    return {
        "partition_index": one.partition.partition,
        "committed_offset": one.offset,
        "committed_leader_epoch": one.leader_epoch,
        "metadata": one.metadata,
        "error_code": one.error,
    }
