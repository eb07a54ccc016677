"""The table of operations: what a trace becomes, one row per call and record, integers only.

A call that concerns three partitions is three rows; a call that concerns none (a transaction
beginning) is one. Names live in dictionaries beside the table (`Names`), so that a row is small
enough to be shuffled by the billion. What is not known is `NONE`, never guessed.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

from traces.model.arrow import pa

NONE: Final = -1


class Op(IntEnum):
    """The calls of clients, plus marks that a call leaves behind."""

    SEND = 0
    POLL = 1
    PROCESS = 2
    COMMIT = 3
    COMMITTED = 4
    ASSIGN = 5
    SUBSCRIBE = 6
    ASSIGNED = 7
    REVOKED = 8
    LOST = 9
    SEEK = 10
    INIT_PRODUCER = 11
    TXN_BEGIN = 12
    TXN_OFFSETS = 13
    TXN_COMMIT = 14
    TXN_ABORT = 15
    LIST_OFFSETS = 16
    SCAN = 17
    CRASH = 18
    CLOSE = 19
    SCAN_END = 20  # a scan reached this offset of the partition: its end
    MARK = 21  # a poll reported this high watermark
    FORGET = 22  # the position in this partition is no longer known
    EARLIEST = 23  # an answer to a query for the earliest offset
    LATEST = 24  # an answer to a query for the latest offset; LIST_OFFSETS is then one by time
    DUMP = 25  # a record in the log of one replica
    DELETE_RECORDS = 26  # an answered request to delete all records below an offset
    RESET = 27  # the client itself moved a position, and why
    ACQUIRE = 28  # a share group's member was given a record, the detail-th time
    ACKNOWLEDGE = 29  # a share group's member accepted, released or rejected it
    PAUSE = 30
    RESUME = 31
    MARKER = 32  # a control batch in the log of one replica: the end of a transaction
    DUMP_END = 33  # a replica's log ends at this offset
    LOG_START = 34  # a poll reported this log start
    LAST_STABLE = 35  # a poll reported this last stable offset
    DUMP_MARK = 36  # a replica knew this high watermark, which it told nobody
    DUMP_START = 37  # a replica's log starts at this offset
    DELETE_GROUPS = 45  # an administrator deleted a group, with all its offsets
    DELETE_OFFSETS = 46  # an administrator deleted a group's offsets of partitions
    ALTER_OFFSETS = 47  # an administrator set a group's offsets
    CREATE_PARTITIONS = 48  # an administrator added partitions to a topic
    ALTER_CONFIGS = 51  # an administrator changed settings of topics
    METADATA = 50  # what a client's metadata told, such as how many partitions topics have
    PARTITIONS = 49  # a client knew, or was told, that a topic has so many partitions
    WAITED = 52  # a share group's member polled this partition that long, and was given nothing
    CREATE_TOPICS = 38
    DELETE_TOPICS = 39
    DESCRIBE_TOPICS = 40  # somebody asked for the id of a topic


# Rows that a call leaves behind besides those that bear its own name.
MARKS: Final = frozenset(
    {
        Op.SCAN_END,
        Op.MARK,
        Op.FORGET,
        Op.EARLIEST,
        Op.LATEST,
        Op.MARKER,
        Op.DUMP_END,
        Op.LOG_START,
        Op.LAST_STABLE,
        Op.DUMP_MARK,
        Op.DUMP_START,
        Op.PARTITIONS,
        Op.WAITED,
    }
)
# Calls about whole topics, by their names.
TOPICS: Final = (Op.SUBSCRIBE, Op.CREATE_TOPICS, Op.DELETE_TOPICS, Op.DESCRIBE_TOPICS)
# All that is told of the logs of replicas.
DUMPS: Final = (Op.DUMP, Op.MARKER, Op.DUMP_END, Op.DUMP_MARK, Op.DUMP_START)
# What clients do during a run; the final scan may come hours later.
DURING: Final = (
    *(Op.SEND, Op.POLL, Op.ACQUIRE, Op.ACKNOWLEDGE, Op.COMMIT, Op.COMMITTED, Op.SUBSCRIBE),
    *(Op.ASSIGN, Op.ASSIGNED, Op.REVOKED, Op.LOST, Op.SEEK, Op.INIT_PRODUCER),
    *(Op.TXN_BEGIN, Op.TXN_OFFSETS, Op.TXN_COMMIT, Op.TXN_ABORT),
)


class Detail:
    """Meanings of the `detail` of a row, by its op.

    For ACQUIRE it is the delivery count, for SEND the 32 bits of its producer's hash of the key.
    """

    RESETS: Final = {"no_offset": 1, "out_of_range": 2, "truncation": 3}
    ACKS: Final = {"accept": 1, "release": 2, "reject": 3, "renew": 4}
    MARKERS: Final = {"commit": 1, "abort": 2}


class Outcome(IntEnum):
    """`OK`: it happened. `FAIL`: it certainly did not. `INFO`: nobody knows."""

    OK = 0
    FAIL = 1
    INFO = 2


class Txn(IntEnum):
    """The state of the transaction that a row belongs to, as far as its own client knows."""

    NOT = 0  # not transactional
    COMMITTED = 1
    ABORTED = 2  # aborted, or no commit was ever requested
    UNKNOWN = 3  # a commit was requested and not answered, and no reader has told us
    PROVED = 4  # as UNKNOWN, but one of its records was seen as committed


class Isolation(IntEnum):
    """The isolation that a reader asked for."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Flag:
    """Bits of the `flags` column."""

    FINAL: Final = 1  # belongs to the final scan of the partition
    REBALANCED: Final = 2  # the partition changed hands while this call ran
    MIXED: Final = 4  # the unit (transaction) both sends and reads
    AUTO: Final = 8  # a commit the client made by itself: its times are those of the report
    UNKNOWN_PARTITION: Final = 16  # a send whose partition is unknown, copied to every partition
    EMPTY: Final = 32  # the call says that it concerns nothing (as against: does not say)
    TOMBSTONE: Final = 64  # the record has no value: it deletes its key
    TRANSACTIONAL: Final = 128  # a dumped record of a transactional batch
    OTHER_THREAD: Final = 128  # the same bit of a commit or `process`: not by the one that polls
    VALUED: Final = 256  # the record is known to have a value
    FORMER: Final = 512  # of a topic that has since been deleted and made again
    REMADE: Final = 1024  # of a topic that is not the first of its name
    CHOSEN: Final = 2048  # the application itself chose the record's partition
    LEFT: Final = 16384  # the application left the record's partition to its producer
    FENCED: Final = 16384  # the same bit of a commit of a transaction: its producer is fenced
    NO_PRODUCER: Final = 8192  # the batch says that it has no producer id (Kafka's -1)
    UNLISTED: Final = 4096  # the call does not list its partitions: it may concern more of them


# Order is the order of the columns in Parquet. The first block is what every check reads; `key`
# and `timestamp` are read only where a check asks for them.
COLUMNS: Final[dict[str, Any]] = {
    "run": pa.int32(),
    "topic": pa.int32(),
    "partition": pa.int32(),
    "process": pa.int32(),
    "seq": pa.int64(),
    "idx": pa.int32(),  # position of the row in its call
    "op": pa.int8(),
    "outcome": pa.int8(),
    "offset": pa.int64(),
    "id": pa.int64(),
    "inv": pa.int64(),
    "ret": pa.int64(),
    "clock": pa.int32(),
    "group": pa.int32(),
    "generation": pa.int64(),
    "txn": pa.int64(),  # ordinal of the transaction in its process
    "txn_state": pa.int8(),
    "end_inv": pa.int64(),  # when the transaction's commit was requested
    "isolation": pa.int8(),
    "epoch": pa.int32(),  # leader epoch of the record
    "tid": pa.int64(),  # transactional id
    "pid": pa.int64(),
    "pepoch": pa.int32(),
    "sequence": pa.int64(),
    "member": pa.int64(),
    "flags": pa.int16(),
    "key": pa.int64(),
    "timestamp": pa.int64(),  # of TXN_OFFSETS: when the end of the transaction was answered
    "hash": pa.int64(),  # of key, value and headers
    "topic_id": pa.int64(),
    "node": pa.int32(),  # the broker whose log a dump is of, or that answered a poll
    "instance": pa.int64(),  # group.instance.id
    "detail": pa.int32(),
}
OPS: Final = pa.schema(list(COLUMNS.items()))
NEVER_NONE: Final = ("run", "process", "seq", "op", "outcome", "flags")  # told by every row


def wrong_columns(schema: Any) -> Iterator[tuple[str, str]]:
    """Mistakes in the Arrow schema of a table of operations, column by column."""
    held = dict(zip(schema.names, schema.types, strict=True))
    lower = {name.lower(): name for name in held}
    for name, kind in COLUMNS.items():
        found = held.get(name)
        if found is None and name in lower:
            yield lower[name], f"expected {name}: the names of columns are lower-case"
        elif found is None:
            yield name, "is missing: a table of operations has all columns of traces.model.schema"
        elif not _whole(found):
            yield name, f"expected {kind}, found {found}"


def _whole(kind: Any) -> bool:
    return pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
