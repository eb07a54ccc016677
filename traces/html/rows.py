"""The rows that plots need: few columns, and of a run that is too large for memory a sample."""

from collections.abc import Iterator

import numpy as np
from attrs import frozen

from traces.ingest.run import Run
from traces.model.arrow import pq
from traces.model.columns import IntColumns
from traces.model.context import Ints
from traces.model.schema import Op

SAMPLE = 5_000_000  # rows; of more than that, every so many-th offset
_BATCH = 1 << 20

NEEDED = (
    *("topic", "partition", "process", "seq", "idx", "op", "outcome", "offset", "id", "inv"),
    *("ret", "clock", "group", "generation", "txn_state", "end_inv", "flags", "timestamp"),
)
# What there is a row of for each record; of everything else no row is left out.
_OF_RECORDS = (Op.SEND, Op.POLL, Op.PROCESS, Op.SCAN, Op.ACQUIRE, Op.ACKNOWLEDGE, Op.DUMP)


@frozen(eq=False)
class Sample:
    """Rows, and of how many offsets one was taken: a send and its reads stay together."""

    columns: IntColumns
    every: int
    rows: int


def sample(run: Run) -> Sample:
    """The rows of a run, wherever they are."""
    if not run.parts:
        return Sample(run.columns, 1, run.rows)
    every = -(-run.rows // SAMPLE)
    taken = list(_rows(run, every))
    columns = {name: np.concatenate([one[name] for one in taken]) for name in NEEDED}
    return Sample(columns, every, run.rows)


def _rows(run: Run, every: int) -> Iterator[dict[str, Ints]]:
    """The needed columns of each batch; of rows about records, those of every so many-th offset."""
    for part in run.parts:
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches(_BATCH, columns=list(NEEDED)):
                columns = {name: batch[name].to_numpy() for name in NEEDED}
                of_records = np.isin(columns["op"], _OF_RECORDS)
                keep = ~of_records | (columns["offset"] % every == 0)
                yield {name: column[keep] for name, column in columns.items()}
