"""AlterReplicaLogDirs: logs stay in the directory where they are (KIP-113)."""

from refimpl.api.call import Call, Values
from refimpl.api.control import by_topic, partitions
from refimpl.messages.broker import TopicPartition


def handle(call: Call) -> Values:
    """The logs stay where they are, which is an error unless that is where they shall be.

    A move between directories of one broker is refused for good: nothing moves logs.
    """
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
    paths = [known for known, _, _ in call.broker.log_dirs()]
    if path not in paths:
        return "LOG_DIR_NOT_FOUND"
    node, number = call.broker.node, paths.index(path)
    if number in node.logs.offline_directories():
        return "KAFKA_STORAGE_ERROR"
    if name not in node.partitions:
        return "REPLICA_NOT_AVAILABLE"
    return None if node.logs.directory_of(name) == number else "INVALID_REQUEST"
