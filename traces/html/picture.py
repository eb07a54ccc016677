"""Gather the data of one run's plots while its rows are in memory."""

from collections.abc import Iterable, Mapping

import numpy as np
from attrs import field, frozen

from traces.html.activity import Activity, activity
from traces.html.ownership import Owned, ownership
from traces.html.rows import Sample, sample
from traces.html.series import (
    NOTHING,
    Floats,
    IntColumns,
    OffsetRanges,
    Scale,
    Series,
    Steps,
    TopicPartition,
    by_partition,
    end_of_log,
    first_of_each,
    lag_behind,
    running,
    spans,
    thinned,
)
from traces.ingest.run import Run
from traces.model.columns import Bools, lookup
from traces.model.context import Ints
from traces.model.schema import DURING, NONE, Flag, Op, Outcome, Txn

_KAFKA_BEGAN_MS = 1_290_000_000_000  # in 2010: an earlier stamp is no time of day
PARTITIONS = 1000  # the busiest; beyond that nobody looks at them one by one


@frozen(eq=False)
class PartitionTimeline:
    """One partition over time."""

    key: TopicPartition
    rows: int
    sends: OffsetRanges
    reads: OffsetRanges
    end: Floats  # the end of the log that clients knew of, per bin
    unseen: Ints  # acknowledged and not yet read, per bin
    unread: int  # of those, how many never were
    missing: int  # and how many of them the final scan did not find either


@frozen(eq=False)
class GroupPicture:
    """One consumer group over time."""

    number: int
    rows: int
    lag: Mapping[TopicPartition, Floats]
    commits: Mapping[TopicPartition, Steps]
    refused: Mapping[TopicPartition, Steps]
    owned: tuple[Owned, ...]
    commits_offsets: bool


@frozen(eq=False)
class Picture:
    """One run over time, from `start` to `end` in nanoseconds of one clock."""

    start: int = 0
    end: int = 0
    partitions: Mapping[TopicPartition, PartitionTimeline] = field(
        factory=dict[TopicPartition, PartitionTimeline]
    )
    left_out: int = 0
    groups: tuple[GroupPicture, ...] = ()
    clocks: int = 1
    wall_ms: tuple[int, int] | None = None
    rows: int = 0
    every: int = 1  # one of so many offsets was looked at
    activity: Activity = field(factory=Activity)


def picture(run: Run) -> Picture:
    """Everything that is drawn of a run; empty if none of its rows has a time."""
    taken = sample(run)
    columns = taken.columns
    clock, clocks = _clock(columns)
    at = _times(columns)
    timed = (at != NONE) & (columns["clock"] == clock)
    during = timed & np.isin(columns["op"], DURING)
    if not during.any():
        return Picture(clocks=clocks, rows=taken.rows)
    begun = np.where(columns["inv"] != NONE, columns["inv"], at)
    start, end = int(begun[during].min()), int(at[during].max())
    scale = Scale(start, max(end, start + 1))
    kept, left_out = _busiest(columns, during)
    drawn = during & _among(columns, kept)
    owned = ownership(columns, at, timed, scale.end, whole_lists=run.jepsen)
    return Picture(
        start=scale.start,
        end=scale.end,
        partitions=_partitions(taken, at, drawn, scale),
        left_out=left_out,
        groups=tuple(_groups(columns, at, drawn, owned, scale)),
        clocks=clocks,
        wall_ms=_wall(columns),
        rows=taken.rows,
        every=taken.every,
        activity=activity(columns, at, during, scale, taken.every),
    )


def _times(columns: IntColumns) -> Ints:
    """When each row was over; a process that died without a word did so after its last one."""
    at = np.where(columns["ret"] != NONE, columns["ret"], columns["inv"])
    last = np.full(int(columns["process"].max(initial=0)) + 1, NONE, np.int64)
    np.maximum.at(last, columns["process"], at)
    died = (at == NONE) & np.isin(columns["op"], (Op.CRASH, Op.CLOSE))
    return np.where(died, last[columns["process"]], at)


def _clock(columns: IntColumns) -> tuple[int, int]:
    """The clock of most rows, and how many clocks there are: their times do not compare."""
    clocks, counts = np.unique(columns["clock"], return_counts=True)
    return (int(clocks[counts.argmax()]), len(clocks)) if len(clocks) else (NONE, 0)


def _wall(columns: IntColumns) -> tuple[int, int] | None:
    """The time of the run, in ms since 1970, by its senders' records."""
    sent = (columns["op"] == Op.SEND) & (columns["timestamp"] > _KAFKA_BEGAN_MS)
    stamps = columns["timestamp"][sent]
    return (int(stamps.min()), int(stamps.max())) if len(stamps) else None


def _busiest(columns: IntColumns, rows: Bools) -> tuple[set[TopicPartition], int]:
    located = rows & (columns["topic"] != NONE) & (columns["partition"] != NONE)
    both = np.stack([columns["topic"][located], columns["partition"][located]], axis=1)
    keys, counts = np.unique(both, axis=0, return_counts=True)
    first = np.argsort(-counts, kind="stable")[:PARTITIONS]
    return {(int(t), int(p)) for t, p in keys[first]}, max(len(keys) - PARTITIONS, 0)


def _among(columns: IntColumns, keys: set[TopicPartition]) -> Bools:
    packed = np.array([(t << 32) | p for t, p in keys], dtype=np.int64)
    return np.isin((columns["topic"].astype(np.int64) << 32) | columns["partition"], packed)


def _partitions(
    taken: Sample, at: Ints, drawn: Bools, scale: Scale
) -> dict[TopicPartition, PartitionTimeline]:
    columns = taken.columns
    op, ok = columns["op"], columns["outcome"] == Outcome.OK
    located = drawn & (columns["offset"] != NONE)
    acked = located & (op == Op.SEND) & ok & ((columns["flags"] & Flag.UNKNOWN_PARTITION) == 0)
    aborted = columns["txn_state"] == Txn.ABORTED
    polled = located & np.isin(op, (Op.POLL, Op.ACQUIRE)) & ok
    # A record of a transaction may be read once the commit was asked for, not when it was stored.
    visible = np.where(columns["txn_state"] != Txn.NOT, np.maximum(at, columns["end_inv"]), at)
    sends, reads = by_partition(columns, acked, at), by_partition(columns, polled, at)
    awaited = by_partition(columns, acked & ~aborted & (columns["id"] != NONE), visible)
    scanned = by_partition(columns, ((op == Op.SCAN) & ok), at)
    rows = by_partition(columns, drawn, at)
    return {
        key: _partition(
            key,
            len(rows[key].at),
            sends.get(key, NOTHING),
            reads.get(key, NOTHING),
            awaited.get(key, NOTHING),
            scanned.get(key, NOTHING),
            scale,
            taken.every,
        )
        for key in sorted(rows)
    }


def _partition(
    key: TopicPartition,
    rows: int,
    sends: Series,
    reads: Series,
    awaited: Series,
    scanned: Series,
    scale: Scale,
    every: int,
) -> PartitionTimeline:
    ids, came = first_of_each(awaited)
    read, seen = first_of_each(reads)
    hit = lookup(read, ids)
    gone = np.maximum(came[hit >= 0], seen[hit[hit >= 0]])
    unread = ids[hit < 0]
    return PartitionTimeline(
        key=key,
        rows=rows * every,
        sends=spans(sends, scale),
        reads=spans(reads, scale),
        end=end_of_log(sends, reads, scale),
        unseen=(running(came, scale) - running(gone, scale)) * every,
        unread=len(unread) * every,
        missing=int(np.count_nonzero(~np.isin(unread, scanned.id))) * every,
    )


def _groups(
    columns: IntColumns, at: Ints, drawn: Bools, owned: Iterable[Owned], scale: Scale
) -> Iterable[GroupPicture]:
    op, ok = columns["op"], columns["outcome"] == Outcome.OK
    located = drawn & (columns["offset"] != NONE)
    sends = by_partition(columns, located & (op == Op.SEND) & ok, at)
    failed = columns["outcome"] == Outcome.FAIL
    for number in np.unique(columns["group"][drawn & (columns["group"] != NONE)]).tolist():
        mine = located & (columns["group"] == number)
        commits = by_partition(columns, mine & (op == Op.COMMIT) & ok, at)
        refused = by_partition(columns, mine & (op == Op.COMMIT) & failed, at)
        reads = by_partition(columns, mine & (op == Op.POLL) & ok, at)
        yield GroupPicture(
            number=number,
            rows=int(np.count_nonzero(mine)),
            lag={key: _lag(key, sends, reads, commits, scale) for key in reads},
            commits={key: thinned(one, scale) for key, one in commits.items()},
            refused={key: thinned(one, scale) for key, one in refused.items()},
            owned=tuple(one for one in owned if one.group == number),
            commits_offsets=bool(commits),
        )


def _lag(
    key: TopicPartition,
    sends: Mapping[TopicPartition, Series],
    reads: Mapping[TopicPartition, Series],
    commits: Mapping[TopicPartition, Series],
    scale: Scale,
) -> Floats:
    """A group's lag in a partition; without commits, its reads give its position."""
    read = reads[key]
    end = end_of_log(sends.get(key, NOTHING), read, scale)
    position = commits.get(key, NOTHING) if commits else Series(read.at, read.offset + 1, read.id)
    return lag_behind(end, position, scale)
