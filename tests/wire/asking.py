"""What the scripts share: how something is asked, and topics."""

from collections.abc import Callable, Mapping
from typing import Any

Ask = Callable[..., dict[str, Any]]
TIMEOUT = 10_000


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """A topic to be created."""
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def create(ask: Ask, *topics: Mapping[str, Any], version: int = 7, **more: Any) -> dict[str, Any]:
    """CreateTopics."""
    return ask("CreateTopics", version, topics=topics, timeout=TIMEOUT, **more)
