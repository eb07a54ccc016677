"""Messages of a broker: requests and responses under Kafka's names, and timers.

Each is a named tuple, because one is made for every message: 0.2 µs against 0.3 to 0.4 µs for a
frozen attrs class (`bench/bench_simulator.py`). Versions, framing and error codes belong to the
wire; here an error is Kafka's name of it, or None.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from refimpl.machines.replica_log import Batch, EpochEnd, Records
from refimpl.records.schema import Uuid
from refimpl.storage.format.txn_index import AbortedTxn

CONSUMER = -1
"""The replica id of a Fetch or ListOffsets from a client."""

DEBUGGING_CONSUMER = -2
"""The replica id of a client that reads at any replica; ListOffsets tells it the log's own end."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
"""Isolation levels: up to the high watermark; up to the last stable offset (KIP-98)."""

NO_LIMIT = 2**31 - 1

SESSIONLESS, NEW_SESSION = -1, 0
"""Fetch session epochs: no session at all; make a new one (KIP-227)."""

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    *(-1, -2, -3, -4, -5, -6),
)
"""Special timestamps of ListOffsets (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

HIGH_WATERMARK = -1
"""The offset of DeleteRecords that stands for the high watermark."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        """The name in the form of Kafka's tools."""
        return f"{self.topic}-{self.partition}"


# Envelopes


class Request(NamedTuple):
    """A request from one node to another; `correlation_id` is unique for its sender."""

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
    """As an output: a timer for this time, in ms; as an input: the time has come."""

    at_ms: int
    name: str


# Clients


class ProduceRequest(NamedTuple):
    """Append these batches; `acks` is 0, 1, or -1 for all in-sync replicas.

    A batch is opaque: only the log that it is for looks into it. Within a transaction the request
    names its id, and `transaction_support` is that of `refimpl.messages.transactions`.
    """

    acks: int
    timeout_ms: int
    batches: Sequence[tuple[TopicPartition, Batch]]
    transactional_id: str | None = None
    transaction_support: int = 0


class ProducedPartition(NamedTuple):
    """The result for one batch; `log_append_time_ms` is -1 where the producer stamped it.

    If single records caused a refusal, `records` names them with the reasons (KIP-467).
    """

    partition: TopicPartition
    error: str | None
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    records: Sequence[tuple[int, str]] = ()


class ProduceResponse(NamedTuple):
    """The result for each batch."""

    partitions: Sequence[ProducedPartition]


class FetchPartition(NamedTuple):
    """One partition of a Fetch: read on from `fetch_offset`.

    A replica names its current leader epoch and the last epoch of its log, so that the leader can
    see whether their logs agree (KIP-320, KIP-595); -1 is "not given". `number` counts a replica's
    fetches of this partition, and goes on by itself in a session. If it is 0, the request's
    correlation id counts instead. `log_start_offset` is that of a replica (KIP-107).
    """

    partition: TopicPartition
    fetch_offset: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    number: int = 0
    max_bytes: int = NO_LIMIT
    log_start_offset: int = -1


class FetchRequest(NamedTuple):
    """Read records; while there are fewer than `min_bytes`, wait up to `max_wait_ms`.

    Limits are in bytes, or in the unit of a log in memory; the first batch of an answer may be
    above them (KIP-74). In a session a request names only the partitions that changed (KIP-227). A
    replica names its broker epoch (KIP-903). A consumer with a `rack_id`, which may be empty, may
    read at followers (KIP-392). Whoever asks may not read the topics that are `denied`.
    """

    partitions: Sequence[FetchPartition]
    max_wait_ms: int
    min_bytes: int = 1
    max_bytes: int = NO_LIMIT
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = CONSUMER
    replica_epoch: int = -1
    session_id: int = 0
    session_epoch: int = SESSIONLESS
    forgotten: Sequence[TopicPartition] = ()
    rack_id: str | None = None
    denied: frozenset[str] = frozenset()


class FetchedPartition(NamedTuple):
    """Records from the batch on that holds the fetch offset; or, if the logs differ, where to
    truncate.

    `diverging` is the leader's largest epoch not above the follower's last, and its end offset.
    """

    partition: TopicPartition
    error: str | None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[AbortedTxn] = ()
    records: Records = ()
    diverging: EpochEnd | None = None
    preferred_read_replica: int = -1


class FetchResponse(NamedTuple):
    """The partitions that were read; in a session those without changes are left out."""

    partitions: Sequence[FetchedPartition]
    session_id: int = 0
    error: str | None = None


class ListOffsetsPartition(NamedTuple):
    """A partition and a timestamp, or a special one such as LATEST, to find the first record of."""

    partition: TopicPartition
    timestamp: int
    current_leader_epoch: int = -1


class ListOffsetsRequest(NamedTuple):
    """Offsets by time (KIP-79, KIP-98, KIP-320, KIP-734)."""

    partitions: Sequence[ListOffsetsPartition]
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = CONSUMER


class ListedOffset(NamedTuple):
    """An offset, its record's timestamp, and the leader epoch of that record; -1 for none."""

    partition: TopicPartition
    error: str | None
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


class ListOffsetsResponse(NamedTuple):
    """The offset found for each partition."""

    partitions: Sequence[ListedOffset]


class DeleteRecordsRequest(NamedTuple):
    """Delete all records before these offsets (KIP-107); HIGH_WATERMARK deletes all committed
    records.
    """

    partitions: Sequence[tuple[TopicPartition, int]]
    timeout_ms: int


class DeletedPartition(NamedTuple):
    """The low watermark of a partition: the least log start offset of its replicas."""

    partition: TopicPartition
    error: str | None
    low_watermark: int = -1


class DeleteRecordsResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[DeletedPartition]


class DescribeProducersRequest(NamedTuple):
    """Describe the active producers of these partitions (KIP-664)."""

    partitions: Sequence[TopicPartition]


class ActiveProducer(NamedTuple):
    """A producer that a leader remembers; -1 for unknown fields."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    txn_start_offset: int


class DescribedProducers(NamedTuple):
    """The producers of one partition."""

    partition: TopicPartition
    error: str | None
    producers: Sequence[ActiveProducer] = ()


class DescribeProducersResponse(NamedTuple):
    """The result for each partition."""

    partitions: Sequence[DescribedProducers]


class DescribeLogDirsRequest(NamedTuple):
    """Describe the logs of these partitions, or of all, in the log directory (KIP-113)."""

    partitions: Sequence[TopicPartition] | None


class DescribedLog(NamedTuple):
    """One partition's log: its size, and the lag of its end behind the high watermark.

    That of a future log is behind the end of the current one.
    """

    partition: TopicPartition
    size: int
    offset_lag: int
    #: The number of its directory in `log.dirs`
    directory: int = 0
    is_future: bool = False


class DescribeLogDirsResponse(NamedTuple):
    """The logs of this broker; an error for all its directories, and those that have failed."""

    logs: Sequence[DescribedLog]
    error: str | None = None
    offline: Collection[int] = ()


class AlterReplicaLogDirsRequest(NamedTuple):
    """Move logs to other directories of this broker: partition, and the number of the directory in
    `log.dirs`, -1 for one that is not there (KIP-113).
    """

    moves: Sequence[tuple[TopicPartition, int]]


class AlterReplicaLogDirsResponse(NamedTuple):
    """The error of each partition; None if its log moves, or is there."""

    errors: Sequence[tuple[TopicPartition, str | None]]


class OffsetForLeaderEpochRequest(NamedTuple):
    """Ask for the end of a leader epoch: partition, current leader epoch or -1, epoch asked for."""

    partitions: Sequence[tuple[TopicPartition, int, int]]


class OffsetForLeaderEpochResponse(NamedTuple):
    """For each partition an error, the largest epoch not above the one asked for, and its end
    offset.
    """

    partitions: Sequence[tuple[TopicPartition, str | None, int, int]]


class MetadataRequest(NamedTuple):
    """Ask for the leaders of these topics, or of all.

    Missing topics may be created (KIP-4), and count for the quota of this client.
    """

    topics: Sequence[str] | None = None
    allow_auto_topic_creation: bool = False
    client_id: str | None = None


class PartitionMetadata(NamedTuple):
    """A partition's leader and ISR, as far as the answering broker knows."""

    partition: TopicPartition
    error: str | None
    leader: int
    leader_epoch: int
    isr: frozenset[int]


class MetadataResponse(NamedTuple):
    """All partitions of the topics asked for, and the errors of topics without any.

    Clients also learn the topics' ids (KIP-516).
    """

    partitions: Sequence[PartitionMetadata]
    errors: Mapping[str, str] = {}
    topic_ids: Mapping[str, Uuid] = {}


Input: TypeAlias = Request | Response | Timer
