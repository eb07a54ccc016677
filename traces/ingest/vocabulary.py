"""The words of trace format v1 and their numbers in the table."""

from typing import Final

from traces.model.schema import MARKS, Isolation, Op, Outcome

OPS: Final = {op.name.lower(): op for op in Op if op not in MARKS}
OUTCOMES: Final = {outcome.name.lower(): outcome for outcome in Outcome}
ISOLATIONS: Final = {isolation.name.lower(): isolation for isolation in Isolation}

# Kafka's names, and librdkafka's, of the refusal of a producer that a newer one has replaced.
FENCED: Final = frozenset(("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED"))

# What a line may say; everything else is kept beside the table.
FIELDS: Final = frozenset(
    [
        "process",
        "seq",
        "op",
        "outcome",
        "invoked_ns",
        "returned_ns",
        "clock",
        "error",
        "records",
        "partitions",
        "offsets",
        "group",
        "member",
        "generation",
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "txn",
        "isolation",
        "topics",
        "query",
        "high_watermark",
        "log_start",
        "last_stable",
        "topic_ids",
        "replica",
        "instance",
        "reason",
        "control",
        "transactional",
        "leader_epochs",
        "partition_counts",
    ]
)
RECORD_FIELDS: Final = frozenset(
    [
        "topic",
        "partition",
        "offset",
        "id",
        "key",
        "timestamp",
        "epoch",
        "sequence",
        "hash",
        "tombstone",
        "chosen",
        "delivery_count",
        "ack",
    ]
)
# What a poll or a dump may say about a partition, as `{"topic:partition": offset}`: only a poll's
# is the answer of a broker.
ANSWERS: Final = {
    "high_watermark": Op.MARK,
    "log_start": Op.LOG_START,
    "last_stable": Op.LAST_STABLE,
}
QUERIES: Final = ("earliest", "latest")  # an offset may be asked by a time, too
REPORTS: Final = {
    Op.POLL: ANSWERS,
    Op.DUMP: {"high_watermark": Op.DUMP_MARK, "log_start": Op.DUMP_START},
}
