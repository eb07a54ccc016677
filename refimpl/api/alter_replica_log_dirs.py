"""AlterReplicaLogDirs: a broker of one directory has nowhere else to put a log (KIP-113)."""

from typing import Any

from refimpl.api.call import Call, Values
from refimpl.messages.broker import TopicPartition


def handle(call: Call) -> Values:
    """The logs stay where they are, which is an error unless that is where they shall be."""
    found: dict[str, list[Values]] = {}
    for wanted in call.request.dirs:
        for topic in wanted.topics:
            found.setdefault(topic.name, []).extend(_results(call, wanted.path, topic))
    return {
        "results": [{"topic_name": name, "partitions": of} for name, of in found.items()],
    }


def _results(call: Call, path: str, topic: Any) -> list[Values]:
    here = call.broker.node.partitions
    results: list[Values] = []
    for number in topic.partitions:
        error = None
        if path != call.broker.log_dir:
            error = "LOG_DIR_NOT_FOUND"
        elif TopicPartition(topic.name, number) not in here:
            error = "REPLICA_NOT_AVAILABLE"
        results.append({"partition_index": number, "error_code": error})
    return results
