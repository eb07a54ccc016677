"""DescribeShareGroupOffsets: the starts of share partitions, and their lag (KIP-932, KIP-1226)."""

from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import partitions
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
