"""DescribeShareGroupOffsets: the starts of share partitions, and their lag (KIP-932, KIP-1226)."""

from typing import Any

from refimpl.api.authorization import Changed, Each, Resource, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import partitions
from refimpl.api.permissions import (
    DESCRIBE,
    GROUP,
    TOPIC,
    refused_element,
    refused_offsets_of_shares,
)
from refimpl.messages.group import DescribeShareOffsetsRequest, DescribeShareOffsetsResponse


def handle(call: Call) -> Handling:
    """Describe each group."""
    groups: list[Values] = []
    for group in call.request.groups:
        wanted = None
        if group.topics is not None:
            wanted = tuple(dict.fromkeys(partitions(group.topics, "topic_name", "partitions")))
        answer: DescribeShareOffsetsResponse = yield DescribeShareOffsetsRequest(
            group.group_id, wanted
        )
        topics: dict[tuple[str, bytes], list[Values]] = {}
        for one in answer.partitions:
            topics.setdefault((one.partition.topic, one.topic_id), []).append(
                {
                    "partition_index": one.partition.partition,
                    "start_offset": one.start_offset,
                    "leader_epoch": one.leader_epoch,
                    "lag": one.lag,
                    "error_code": one.error,
                    "error_message": None,
                }
            )
        groups.append(
            {
                "group_id": group.group_id,
                "error_code": answer.error,
                "error_message": answer.error_message,
                "topics": [
                    {"topic_name": name, "topic_id": topic_id, "partitions": of}
                    for (name, topic_id), of in topics.items()
                ],
            }
        )
    return {"groups": groups}


def _group_of(call: Call, element: Any) -> Resource:
    return GROUP, element.group_id


def _share_offsets(call: Call, answer: Values) -> Values:
    """The offsets of topics that the client may describe; others that it named are refused."""
    named = {one.group_id: one.topics for one in call.request.groups}

    def shown(group: Values) -> Values:
        topics = group.get("topics", ())
        seen = [one for one in topics if may(call, DESCRIBE, TOPIC, one["topic_name"])]
        wanted = () if group.get("error_code") else named[group["group_id"]] or ()
        refused = [
            refused_offsets_of_shares(call, one, "TOPIC_AUTHORIZATION_FAILED")
            for one in wanted
            if not may(call, DESCRIBE, TOPIC, one.topic_name)
        ]
        return {**group, "topics": [*seen, *refused]}

    return {**answer, "groups": [shown(one) for one in answer["groups"]]}


PERMISSIONS = (
    Each("groups", DESCRIBE, _group_of, refused_element("group_id", named=True), "groups"),
    Changed(_share_offsets),
)
