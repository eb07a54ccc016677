"""Choose the partitions to cut, and their blocks, in two passes before rows are judged.

The first counts the rows of each stretch of offsets, so that blocks of like size can be laid out.
The second gathers the offsets of each record, to find boundary rows (`blocks`). Both are steps over
pieces of the table, the same with and without Spark.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import evolve, frozen

from traces.engines.blocks import RECORDS, Cut, Cuts, border
from traces.engines.packed_batches import Narrow, larger, unpack
from traces.model.arrow import pa
from traces.model.columns import Column, Columns, calls, firsts
from traces.model.context import Context, Ints
from traces.model.schema import NONE, Flag, Op
from traces.model.sorting import order_by
from traces.model.table import bucket_of, spans, take

MOST_BLOCKS = 64  # each of them sees the boundary
_FINENESS = 9  # bits: a stretch is so much smaller than a block
STRETCHES_DDL = "run int, topic int, partition int, stretch bigint, rows bigint"
STRETCHES = pa.schema(
    [
        *((name, pa.int32()) for name in ("run", "topic", "partition")),
        *((name, pa.int64()) for name in ("stretch", "rows")),
    ]
)
STATISTICS_DDL = "bucket int, cut int, kind int, packed binary"
STATISTICS = pa.schema(
    [*((n, pa.int32()) for n in ("bucket", "cut", "kind")), ("packed", pa.binary())]
)
_WHOLE = -2  # for a stretch: below all others, which begin with -1 for no offset
_NOTHING: Ints = np.empty(0, np.int64)


@frozen
class Limits:
    """The largest parts of one partition that are judged at once."""

    rows: int = 8_000_000  # a partition of more is cut
    block: int = 4_000_000  # rows of a block, where the number of blocks allows that
    boundary: int = 1_000_000  # records; a partition whose boundary has more is left whole

    @property
    def grain(self) -> int:
        """The number of low bits of an offset that a stretch leaves out."""
        return max(0, self.block.bit_length() - _FINENESS)


LIMITS = Limits()


class StatisticsKind(IntEnum):
    """The content of one packed row of statistics."""

    BOUNDARY = 0  # records of the boundary; where a row tells no record, its offset
    OFFSETS = 1  # records and where they lie
    SPANS = 2  # the first and the last row of each process in a piece


_NAMES = {
    StatisticsKind.BOUNDARY: ("id", "offset"),
    StatisticsKind.OFFSETS: ("id", "offset"),
    StatisticsKind.SPANS: ("process", "seq", "idx"),
}


def stretches(pieces: Iterable[Columns], limits: Limits) -> Iterator[Any]:
    """Count the rows of each piece by partition and stretch of offsets."""
    for columns in pieces:
        there = (columns["topic"] != NONE) & (columns["partition"] != NONE)
        rows = np.flatnonzero(there & ((columns["flags"] & Flag.FORMER) == 0))
        keys = [take(columns[n], rows) for n in ("run", "topic", "partition")]
        stretch = take(columns["offset"], rows).astype(np.int64) >> limits.grain
        keys.append(np.where(calls(columns, Op.WAITED)[rows], _WHOLE, stretch))
        if len(rows):
            order = order_by(*keys)
            starts = np.flatnonzero(firsts(*(key[order] for key in keys)))
            counts = np.diff(np.r_[starts, len(order)])
            found = [*(key[order[starts]] for key in keys), counts]
            arrays = [pa.array(c, f.type) for c, f in zip(found, STRETCHES, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=STRETCHES)


def laid_out(counted: Any, contexts: Mapping[int, Context], limits: Limits) -> list[Cut]:
    """Lay out the blocks of each partition that is too large, from a table of stretches.

    A compacted topic is left whole: its keys reach over all blocks. So is a partition for whose
    records a share group waits: others of them may be taken in another block. So is a Jepsen
    history: it is small.
    """
    names = ("run", "topic", "partition", "stretch", "rows")
    columns: dict[str, Ints] = {name: counted[name].to_numpy() for name in names}
    order = order_by(*(columns[name] for name in names[:4]))
    columns = {name: column[order] for name, column in columns.items()}
    found: list[Cut] = []
    for start, end in spans(*(columns[name] for name in names[:3])):
        run, topic, partition = (int(columns[name][start]) for name in names[:3])
        context = contexts[run]
        rows = columns["rows"][start:end]
        if columns["stretch"][start] == _WHOLE:
            continue
        if int(rows.sum()) > limits.rows and not context.jepsen and context.compacted[topic] == 0:
            begin = _starts(columns["stretch"][start:end], rows, limits) << limits.grain
            if len(begin) > 1:
                found.append(Cut((run, topic, partition), begin, _NOTHING, _NOTHING))
    return found


def _starts(stretch: Ints, rows: Ints, limits: Limits) -> Ints:
    """The first stretch of each block, so that all hold about as many rows."""
    total = int(rows.sum())
    blocks = min(MOST_BLOCKS, -(-total // limits.block))
    before = np.cumsum(rows) - rows
    at = np.searchsorted(before, np.arange(blocks) * total // blocks, side="right") - 1
    return np.unique(stretch[at])


def statistics(pieces: Iterable[Columns], cuts: Sequence[Cut], buckets: int) -> Iterator[Any]:
    """Summarise pieces for the boundaries; records and their offsets go to a bucket by record."""
    for columns in larger(_of_offsets(pieces, Cuts(cuts))):
        for number, cut in enumerate(cuts):
            rows = np.flatnonzero(cut.here(columns))
            if len(rows):
                rows = rows[
                    order_by(*(take(columns[n], rows) for n in _NAMES[StatisticsKind.SPANS]))
                ]
                mine = {name: take(column, rows) for name, column in columns.items()}
                yield from _statistics_of(mine, number, cut, buckets)


def _of_offsets(pieces: Iterable[Columns], cuts: Cuts) -> Iterator[Columns]:
    for columns in pieces:
        rows = np.flatnonzero(cuts.cut(columns) & ((columns["flags"] & Flag.FORMER) == 0))
        yield {name: take(column, rows) for name, column in columns.items()}


def _statistics_of(columns: Columns, number: int, cut: Cut, buckets: int) -> Iterator[Any]:
    boundary = np.r_[border(columns, cut), _of_unknown_offset(columns)]
    yield _packed_batch(number % buckets, number, StatisticsKind.BOUNDARY, columns, boundary)
    first = firsts(columns["process"])
    ends = np.sort(np.r_[np.flatnonzero(first), np.flatnonzero(np.r_[first[1:], True])])
    yield _packed_batch(number % buckets, number, StatisticsKind.SPANS, columns, ends)
    ids, offsets = columns["id"], columns["offset"]
    located = np.flatnonzero(calls(columns, *RECORDS) & (offsets >= 0) & (ids != NONE))
    located = located[order_by(ids[located], offsets[located])]
    located = located[firsts(ids[located], offsets[located])]
    bucket = bucket_of([ids[located]], buckets)
    order = order_by(bucket)
    for start, end in spans(bucket[order]):
        mine = located[order[start:end]]
        yield _packed_batch(
            int(bucket[order[start]]), number, StatisticsKind.OFFSETS, columns, mine
        )


def _of_unknown_offset(columns: Columns) -> Ints:
    """Rows about a record that have no offset."""
    identified = calls(columns, *RECORDS) & (columns["id"] != NONE)
    return np.flatnonzero(identified & (columns["offset"] < 0))


def _packed_batch(bucket: int, cut: int, kind: StatisticsKind, columns: Columns, rows: Ints) -> Any:
    mine = {name: columns[name][rows] for name in _NAMES[kind]}
    packed = Narrow.of(mine).pack(np.arange(len(rows)), mine) if len(rows) else b""
    return pa.record_batch([[bucket], [cut], [int(kind)], [packed]], STATISTICS)


def gathered(batches: Iterable[Any], cuts: Sequence[Cut]) -> Iterator[Any]:
    """The statistics of whole buckets: of the records, those that lie in several blocks."""
    every: list[dict[str, Any]] = [row for batch in batches for row in batch.to_pylist()]
    keys = itemgetter("cut", "kind", "bucket")
    rows = sorted((row for row in every if row["packed"]), key=keys)
    for (cut, kind, bucket), several in groupby(rows, key=keys):
        columns = unpack([row["packed"] for row in several])
        chosen = {name: columns[name] for name in _NAMES[StatisticsKind(kind)]}
        kept = np.arange(len(next(iter(chosen.values()))))
        if kind == StatisticsKind.OFFSETS:
            kept = _scattered(chosen["id"], cuts[int(cut)].block(chosen["offset"]))
        yield _packed_batch(bucket, cut, StatisticsKind(kind), chosen, kept)


def _scattered(ids: Column, homes: Ints) -> Ints:
    """Rows about a record with offsets in more than one block."""
    order = order_by(ids, homes)
    ids, homes = ids[order], homes[order]
    first = np.flatnonzero(firsts(ids))
    last = np.r_[first[1:], len(ids)] - 1
    several = homes[first] != homes[last]
    return order[np.repeat(several, last - first + 1)]


def of_boundary(rows: Iterable[Mapping[str, Any]], cuts: Sequence[Cut], limits: Limits) -> Cuts:
    """The cuts with their boundaries, by what was gathered.

    Left whole is a partition whose rows do not lie in their processes' order, so that nobody sees
    who is whose neighbour, and one that is little else than its boundary.
    """
    packed = [row for row in rows if row["packed"]]
    found: list[Cut] = []
    for number, cut in enumerate(cuts):
        mine = {
            kind: unpack([r["packed"] for r in packed if (r["cut"], r["kind"]) == (number, kind)])
            for kind in StatisticsKind
        }
        boundary, scattered = (
            mine[kind] for kind in (StatisticsKind.BOUNDARY, StatisticsKind.OFFSETS)
        )
        ids = np.unique(np.r_[boundary["id"], scattered["id"]])
        offsets = np.r_[boundary["offset"][boundary["id"] == NONE], scattered["offset"]]
        if _in_order(mine[StatisticsKind.SPANS]) and len(ids) <= limits.boundary:
            found.append(evolve(cut, ids=ids[ids != NONE], offsets=np.unique(offsets)))
    return Cuts(found)


def _in_order(columns: Columns) -> bool:
    """True if no process has rows of one piece between those of another."""
    process, seq, idx = (columns[name] for name in _NAMES[StatisticsKind.SPANS])
    first, last = np.arange(0, len(seq), 2), np.arange(1, len(seq), 2)
    order = np.lexsort((idx[first], seq[first], process[first]))
    one, two = last[order[:-1]], first[order[1:]]
    apart = (process[one] != process[two]) | (seq[one] < seq[two])
    return bool(np.all(apart | ((seq[one] == seq[two]) & (idx[one] < idx[two]))))
