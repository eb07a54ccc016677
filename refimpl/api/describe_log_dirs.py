"""DescribeLogDirs: what is in the log directory, and how much room is left (KIP-113, KIP-827)."""

from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions
from refimpl.messages.broker import DescribeLogDirsRequest, DescribeLogDirsResponse


def handle(call: Call) -> Handling:
    """The one directory of this broker."""
    asked = call.request.topics
    wanted = None
    if asked is not None:
        wanted = list(dict.fromkeys(partitions(asked, "topic", "partitions")))
    answer: DescribeLogDirsResponse = yield DescribeLogDirsRequest(wanted)
    topics: dict[str, list[Values]] = by_topic(
        (
            one.partition,
            {
                "partition_index": one.partition.partition,
                "partition_size": one.size,
                "offset_lag": one.offset_lag,
            },
        )
        for one in answer.logs
    )
    total, usable = call.broker.disk_space()
    directory: Values = {
        "error_code": answer.error,
        "log_dir": call.broker.log_dir,
        "topics": [{"name": name, "partitions": of} for name, of in topics.items()],
        "total_bytes": total,
        "usable_bytes": usable,
    }
    return {"error_code": None, "results": [directory]}
