"""OffsetFetch: stable offsets (KIP-447), many groups (KIP-709), member epochs and topic ids
(KIP-848)."""

from collections.abc import Generator, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, cast

from refimpl.api.authorization import FAILED, Proceed, advanced, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.groups import id_of, name_of
from refimpl.api.permissions import (
    DESCRIBE,
    GROUP,
    TOPIC,
    TOPIC_FAILED,
    refused_partitions,
    topic_by_id,
)
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
    """The offsets of one group, topic by topic as they were asked for; unknown ids come last."""
    named = [(topic, *_topic(call, topic)) for topic in group.topics or ()]
    known = [one for one in named if one[1] is not None]
    wanted: list[tuple[TopicPartition, Uuid]] | None = None
    if group.topics is not None:
        wanted = [
            (TopicPartition(name or "", index), topic_id)
            for topic, name, topic_id in known
            for index in topic.partition_indexes
        ]
    member_id, member_epoch = getattr(group, "member_id", None), getattr(group, "member_epoch", -1)
    answer: OffsetFetchResponse = yield OffsetFetchRequest(
        group.group_id, wanted, member_id, member_epoch, stable
    )
    fetched = answer.partitions
    if answer.error is not None:
        old = call.version < GROUP_ERROR and wanted is not None
        fetched = [FetchedOffset(name, answer.error) for name, _ in wanted or ()] if old else ()
        known, named = (known, named) if old else ([], [])
    if wanted is None:
        topics = _all_topics(call, fetched)
    else:
        rest = iter(fetched)
        topics = [
            _of_topic(name, topic_id, islice(rest, len(topic.partition_indexes)))
            for topic, name, topic_id in known
        ]
        topics += [
            _of_topic("", topic_id, map(_unknown, topic.partition_indexes))
            for topic, name, topic_id in named
            if name is None
        ]
    return {"group_id": group.group_id, "error_code": answer.error, "topics": topics}


def _topic(call: Call, topic: Any) -> tuple[str | None, Uuid]:
    if call.version < TOPIC_IDS:
        return topic.name, id_of(call, topic.name)
    topic_id = NO_ID if topic.topic_id is None else Uuid(topic.topic_id.bytes)
    return name_of(call, topic.topic_id), topic_id


def _all_topics(call: Call, fetched: Iterable[FetchedOffset]) -> list[Values]:
    """Every offset that the group has, by topic."""
    topics: dict[tuple[str, Uuid], list[FetchedOffset]] = {}
    for one in fetched:
        topic_id = one.topic_id
        if call.version >= TOPIC_IDS and topic_id == NO_ID:
            topic_id = id_of(call, one.partition.topic)
            if topic_id == NO_ID:
                continue  # it cannot be named
        topics.setdefault((one.partition.topic, topic_id), []).append(one)
    return [_of_topic(name, topic_id, of) for (name, topic_id), of in topics.items()]


def _of_topic(name: str | None, topic_id: Uuid, fetched: Iterable[FetchedOffset]) -> Values:
    return {"name": name, "topic_id": topic_id, "partitions": [_fetched(one) for one in fetched]}


def _unknown(index: int) -> FetchedOffset:
    return FetchedOffset(TopicPartition("", index), "UNKNOWN_TOPIC_ID")


def _fetched(one: FetchedOffset) -> Values:
    return {
        "partition_index": one.partition.partition,
        "committed_offset": one.offset,
        "committed_leader_epoch": one.leader_epoch,
        "metadata": one.metadata,
        "error_code": one.error,
    }


def _offset_fetch(call: Call, proceed: Proceed) -> Handling:
    """DESCRIBE on each group, and on each topic."""
    request, is_batched = call.request, call.version >= BATCHED
    answers: list[Values] = []
    wanted: list[tuple[int, Any, list[Values]]] = []  # place, group, and what it may not see
    for place, group in enumerate(request.groups if is_batched else (request,)):
        answers.append({})
        if may(call, DESCRIBE, GROUP, group.group_id):
            wanted.append((place, *_without_unseen(call, group)))
        else:
            answers[place] = _refused_group(call, group)
    if wanted:
        groups = tuple(group for _, group, _ in wanted)
        call.request = replace(request, groups=groups) if is_batched else groups[0]
        answer = cast("Values", (yield from advanced(proceed(call))))
        shown = answer["groups"] if is_batched else (answer,)
        for (place, group, unseen), one in zip(wanted, shown, strict=True):
            answers[place] = _shown(call, group, one, unseen)
    return {"groups": answers} if is_batched else answers[0]


def _without_unseen(call: Call, group: Any) -> tuple[Any, list[Values]]:
    """A group with the topics alone that the client may describe, and answers for the others."""
    seen: list[Any] = []
    unseen: list[Values] = []
    for one in group.topics or ():
        resource = topic_by_id(call, one)
        if resource is None or may(call, DESCRIBE, *resource):
            seen.append(one)
        else:
            unseen.append(_unseen(call, one, TOPIC_FAILED))
    return (replace(group, topics=tuple(seen)) if unseen else group), unseen


_unseen = refused_partitions("partition_indexes", committed_offset=-1, metadata="")


def _refused_group(call: Call, group: Any) -> Values:
    error = FAILED[GROUP]
    answer: Values = {"group_id": group.group_id, "error_code": error}
    if call.version >= GROUP_ERROR or group.topics is None:
        return answer
    return {**answer, "topics": [_unseen(call, one, error) for one in group.topics]}


def _shown(call: Call, group: Any, answer: Values, unseen: list[Values]) -> Values:
    """A group's answer with the topics that the client may see, and errors for the others."""
    if answer.get("error_code") is not None:
        return answer
    topics = answer["topics"]
    if group.topics is None:
        topics = [one for one in topics if may(call, DESCRIBE, TOPIC, one["name"])]
    return {**answer, "topics": [*topics, *unseen]}


PERMISSIONS = (_offset_fetch,)
