"""AlterReplicaLogDirs: a broker of one directory has nowhere else to put a log (KIP-113)."""

from refimpl.api.call import Call, Values
from refimpl.api.control import by_topic, partitions
from refimpl.messages.broker import TopicPartition


def handle(call: Call) -> Values:
    """The logs stay where they are, which is an error unless that is where they shall be."""
    found: dict[TopicPartition, Values] = {
        name: {"partition_index": name.partition, "error_code": _error(call, wanted.path, name)}
        for wanted in call.request.dirs
        for name in partitions(wanted.topics, "name", "partitions")
    }
    return {
        "results": [
            {"topic_name": name, "partitions": of} for name, of in by_topic(found.items()).items()
        ],
    }


LONGEST_FOLDER = 255
FUTURE = f".{'0' * 32}-future"
"""The end of the name of a folder that a log moves to."""


def _error(call: Call, path: str, name: TopicPartition) -> str | None:
    if len(f"{name.topic}-{name.partition}{FUTURE}") > LONGEST_FOLDER:
        return "INVALID_TOPIC_EXCEPTION"
    if path != call.broker.log_dir:
        return "LOG_DIR_NOT_FOUND"
    return None if name in call.broker.node.partitions else "REPLICA_NOT_AVAILABLE"
