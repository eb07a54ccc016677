"""Transactions that are still open when nobody is in one any more, by the offsets of partitions."""

from collections.abc import Iterator

from chaos.real.campaign.plan import BROKERS
from chaos.real.campaign.stage import INTERNAL, Stage
from chaos.real.kafka.asking import ask

LIST_OFFSETS, LATEST, EARLIEST = 2, -1, -2
UNCOMMITTED, COMMITTED = 0, 1
ENDS_S = 40.0
"""More than a transaction's time-out, and the interval in which its coordinator looks for it."""


def open_transactions(stage: Stage) -> list[str]:
    """The partitions in which a transaction does not end, in sentences."""
    if not stage.plan.clients.transactional:
        return []
    stage.until(ENDS_S, lambda: not list(_open(stage)))
    return list(_open(stage))


def _open(stage: Stage) -> Iterator[str]:
    for topic in (*stage.topics, *INTERNAL):
        for number, one in stage.replicas(topic).items():
            if one.leader not in BROKERS:
                continue
            try:
                port = stage.target.ports[one.leader]
                stable = listed(port, topic, number, LATEST, COMMITTED)
                end = listed(port, topic, number, LATEST)
            except OSError:
                continue
            if 0 <= stable < end:
                yield f"a transaction in {topic}:{number} does not end: {stable} of {end} is stable"


def listed(port: int, topic: str, partition: int, query: int, isolation: int = UNCOMMITTED) -> int:
    """An offset of a partition, asked of its leader. Raises OSError."""
    where = {"partition_index": partition, "timestamp": query, "current_leader_epoch": -1}
    asked = {"replica_id": -1, "isolation_level": isolation}
    topics = [{"name": topic, "partitions": [where]}]
    answer = ask(port, LIST_OFFSETS, 5, asked | {"topics": topics})
    (offset,) = [one.offset for found in answer.topics for one in found.partitions]
    return offset
