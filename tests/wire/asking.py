"""The shared part of the scripts: sending a request, and creating topics."""

from collections.abc import Callable, Mapping
from typing import Any

from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record

Ask = Callable[..., dict[str, Any]]
TIMEOUT = 10_000
NOW = 1_790_000_000_000


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Any) -> dict[str, Any]:
    """A topic to be created."""
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def create(ask: Ask, *topics: Mapping[str, Any], version: int = 7, **more: Any) -> dict[str, Any]:
    """CreateTopics."""
    return ask("CreateTopics", version, topics=topics, **{"timeout": TIMEOUT, **more})


def batch(count: int, **more: Any) -> bytes:
    """A batch of so many records, 1 ms apart."""
    records = [Record(index, NOW + index, b"key", b"value") for index in range(count)]
    asked: dict[str, Any] = {"base_offset": 0, **more}
    return encode_batch(records, **asked)


def produce(
    ask: Ask, name: str, count: int, *, producer: tuple[int, int, int] = (-1, -1, -1), **more: Any
) -> dict[str, Any]:
    """Records, 1 ms apart, to partition 0; `producer` is an id, an epoch and a sequence number.

    Those that `without_key` numbers have none.
    """
    without_key = more.pop("without_key", ())
    made = [
        Record(index, NOW + index, None if index in without_key else b"key", b"value")
        for index in range(count)
    ]
    id, epoch, sequence = producer
    batch = encode_batch(
        made, base_offset=0, producer_id=id, producer_epoch=epoch, base_sequence=sequence
    )
    partition = {"index": more.pop("partition", 0), "records": batch}
    asked = {"acks": -1, "timeout": TIMEOUT, **more}
    topic = {"name": name, "partition_data": [partition]}
    return ask("Produce", 9, topic_data=[topic], **asked)
