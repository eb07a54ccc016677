"""Counts absent fields in a piece of a process's file, of whatever kind they are."""

from collections.abc import Mapping

import numpy as np

from traces.ingest.evidence import absences
from traces.ingest.logs import absences_of_logs
from traces.ingest.summary import Absent, Counts
from traces.model.context import Context, Ints


def counts_of(
    columns: Mapping[str, Ints], configured: Context, which: Ints
) -> tuple[Counts, Absent]:
    """Count the rows that lack a field they should have, and all rows that should have it.

    Also return the lines of a digest whose rows lack it; `which` is each row's line.
    """
    counts, absent = Counts(), Absent()
    for need, lacking, total in (*absences(columns), *absences_of_logs(columns, configured)):
        before, among = counts.get(need, (0, 0))
        counts[need] = (before + len(lacking), among + total)
        if len(lacking):
            there = np.zeros(int(which.max(initial=0)) + 1, bool)
            there[which[lacking]] = True
            absent[need] = sorted({*absent.get(need, ()), *np.flatnonzero(there).tolist()})
    return counts, absent
