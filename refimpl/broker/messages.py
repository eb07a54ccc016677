"""What a broker says and hears: requests and responses under Kafka's names, and timers.

Each is a named tuple, because one is made for every message: 0.2 µs against 0.3 to 0.4 µs for a
frozen attrs class (`bench/bench_simulator.py`). Versions, framing and error codes belong to the
wire; here an error is the name that Kafka's clients know, or None.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from refimpl.machines.replica_log import EpochEnd, Record

CONSUMER = -1
"""The replica id of a Fetch that no replica sends."""

SESSIONLESS, NEW_SESSION = -1, 0
"""Fetch session epochs: no session at all; make a new one (KIP-227)."""

LATEST, EARLIEST = -1, -2
"""Timestamps of ListOffsets that name an end of the log."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """As Kafka's tools write it."""
        return f"{self.topic}-{self.partition}"


# Envelopes


class Request(NamedTuple):
    """A request from one node to another, told from its sender's others by `correlation_id`."""

    source: int
    target: int
    correlation_id: int
    body: Any


class Response(NamedTuple):
    """The answer to the request of the same correlation id."""

    source: int
    target: int
    correlation_id: int
    body: Any


class Timer(NamedTuple):
    """As an output: come back at this time, in ms; as an input: the time has come."""

    at_ms: int
    name: str


# Clients


class RecordBatch(NamedTuple):
    """What a producer wants appended as one piece: the payload, and who made it (KIP-98)."""

    payload: object
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class ProduceRequest(NamedTuple):
    """Append these batches; `acks` is 0, 1 or -1 for all in sync."""

    acks: int
    timeout_ms: int
    batches: Sequence[tuple[TopicPartition, RecordBatch]]


class ProducedPartition(NamedTuple):
    """What became of one batch."""

    partition: TopicPartition
    error: str | None
    base_offset: int


class ProduceResponse(NamedTuple):
    """What became of each batch."""

    partitions: Sequence[ProducedPartition]


class FetchPartition(NamedTuple):
    """Read on from `fetch_offset`.

    A replica names the leader epochs that it stands in and that its log ends with, by which the
    leader can tell whether their logs agree (KIP-320, KIP-595); -1 is "not said". `number` counts
    a replica's fetches of this partition, and goes on by itself in a session.
    """

    partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    number: int = 0


class FetchRequest(NamedTuple):
    """Read records; without any wait up to `max_wait_ms` for some (KIP-74, KIP-227, KIP-903).

    In a session only what changed since the last request is named. `max_records` limits each
    partition.
    """

    partitions: Sequence[FetchPartition]
    max_wait_ms: int
    max_records: int
    replica_id: int = CONSUMER
    replica_epoch: int = -1
    session_id: int = 0
    session_epoch: int = SESSIONLESS
    forgotten: Sequence[TopicPartition] = ()


class FetchedPartition(NamedTuple):
    """Records from the offset that was asked for; or, if the logs differ, where to cut.

    `diverging` is the leader's largest epoch not above the follower's last, and where it ends.
    """

    partition: TopicPartition
    error: str | None
    high_watermark: int = -1
    records: Sequence[Record] = ()
    diverging: EpochEnd | None = None


class FetchResponse(NamedTuple):
    """What was read; in a session without the partitions of which there is no news."""

    partitions: Sequence[FetchedPartition]
    session_id: int = 0
    error: str | None = None


class ListOffsetsRequest(NamedTuple):
    """The first or the next offset of each partition: EARLIEST or LATEST."""

    partitions: Sequence[tuple[TopicPartition, int]]


class ListOffsetsResponse(NamedTuple):
    """For each partition an error, and the offset."""

    partitions: Sequence[tuple[TopicPartition, str | None, int]]


class OffsetForLeaderEpochRequest(NamedTuple):
    """Where a leader epoch ends: partition, current leader epoch or -1, epoch asked for."""

    partitions: Sequence[tuple[TopicPartition, int, int]]


class OffsetForLeaderEpochResponse(NamedTuple):
    """For each partition an error, the largest epoch not above the one asked for, and its end."""

    partitions: Sequence[tuple[TopicPartition, str | None, int, int]]


class MetadataRequest(NamedTuple):
    """Who leads what?"""


class PartitionMetadata(NamedTuple):
    """Who leads a partition, as far as the answering broker knows."""

    partition: TopicPartition
    error: str | None
    leader: int
    leader_epoch: int
    isr: frozenset[int]


class MetadataResponse(NamedTuple):
    """All partitions."""

    partitions: Sequence[PartitionMetadata]


Input: TypeAlias = Request | Response | Timer
