"""The words of trace format v1 and the numbers that stand for them in the table."""

from typing import Final

from traces.schema import Isolation, Op, Outcome

OPS: Final = {op.name.lower(): op for op in Op if op < Op.SCAN_END}
OUTCOMES: Final = {outcome.name.lower(): outcome for outcome in Outcome}
ISOLATIONS: Final = {isolation.name.lower(): isolation for isolation in Isolation}

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
    ]
)
RECORD_FIELDS: Final = frozenset(
    ["topic", "partition", "offset", "id", "key", "timestamp", "epoch", "sequence"]
)
