"""DescribeLogDirs: the log directories, their logs, and the room left (KIP-113, KIP-827)."""

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions
from refimpl.api.permissions import DESCRIBE, with_error
from refimpl.messages.broker import DescribeLogDirsRequest, DescribeLogDirsResponse


def handle(call: Call) -> Handling:
    """Each directory of this broker; one that has failed has an error, and nothing else."""
    asked = call.request.topics
    wanted = None
    if asked is not None:
        wanted = list(dict.fromkeys(partitions(asked, "topic", "partitions")))
    answer: DescribeLogDirsResponse = yield DescribeLogDirsRequest(wanted)
    several = len(call.broker.log_dirs()) > 1
    results: list[Values] = []
    for number, (path, total, usable) in enumerate(call.broker.log_dirs()):
        error = answer.error
        if several:
            error = "KAFKA_STORAGE_ERROR" if number in answer.offline else None
        topics: dict[str, list[Values]] = by_topic(
            (
                one.partition,
                {
                    "partition_index": one.partition.partition,
                    "partition_size": one.size,
                    "offset_lag": one.offset_lag,
                    "is_future_key": one.is_future,
                },
            )
            for one in answer.logs
            if one.directory == number
        )
        room = (-1, -1) if several and error is not None else (total, usable)
        results.append(
            {
                "error_code": error,
                "log_dir": path,
                "topics": [{"name": name, "partitions": of} for name, of in topics.items()],
                "total_bytes": room[0],
                "usable_bytes": room[1],
            }
        )
    return {"error_code": None, "results": results}


PERMISSIONS = (OnCluster((DESCRIBE,), with_error),)
