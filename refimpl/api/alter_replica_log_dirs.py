"""AlterReplicaLogDirs: move logs to other directories of this broker (KIP-113)."""

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions
from refimpl.api.permissions import ALTER, refused_partitions
from refimpl.messages.broker import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    TopicPartition,
)


def handle(call: Call) -> Handling:
    """Each partition goes to the last directory that is named for it."""
    paths = [path for path, _, _ in call.broker.log_dirs()]
    moves = {
        name: paths.index(wanted.path) if wanted.path in paths else -1
        for wanted in call.request.dirs
        for name in partitions(wanted.topics, "name", "partitions")
    }
    answer: AlterReplicaLogDirsResponse = yield AlterReplicaLogDirsRequest(list(moves.items()))
    found: list[tuple[TopicPartition, Values]] = [
        (name, {"partition_index": name.partition, "error_code": error})
        for name, error in answer.errors
    ]
    return {
        "results": [{"topic_name": name, "partitions": of} for name, of in by_topic(found).items()],
    }


def _no_log_dir(call: Call, error: str) -> Values:
    of = refused_partitions()
    topics = [topic for one in call.request.dirs for topic in one.topics]
    return {"results": [{**of(call, one, error), "topic_name": one.name} for one in topics]}


PERMISSIONS = (OnCluster((ALTER,), _no_log_dir),)
