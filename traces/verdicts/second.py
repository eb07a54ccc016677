"""A second opinion on the witnesses that are shown, by the checker of `traces.second_checker`.

A witness that it refutes is a contradiction inside Highwater. The verdict stays as it is, because
nobody knows yet which of the two is wrong, but the contradiction is told as loudly as a verdict.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any

from traces.ingest.lines import JOURNAL
from traces.ingest.run import process_files
from traces.model.context import UNDECIDED
from traces.record.entries import DamagedError
from traces.record.settling import unsettled
from traces.second_checker import opinion_on, partitions_of, read
from traces.verdicts.judged import Judged
from traces.verdicts.verdict import ALLOWED, VIOLATED, clause_of

# Calls and rows of a run whose witnesses are judged again without being asked to; one call may
# hold millions.
SMALL, ROWS = 100_000, 1_000_000


def ask_again(one: Judged, *, always: bool, compacted: bool = False) -> None:
    """Judge the witnesses of what was found in a run by its files; of large runs if asked to."""
    if one.run is None:
        return
    if not always and (one.run.calls > SMALL or one.rows > ROWS):
        return
    broken = [v for v in one.verdicts if v.verdict in (VIOLATED, ALLOWED)]
    shown = [
        ((v.check, n), one.witness(w))
        for v in broken
        for n, w in enumerate(v.witnesses)
        if clause_of(w[0])[0] not in UNDECIDED  # undecided, so nothing that could be refuted
    ]
    if not shown or not one.run.path.exists():
        return
    partitions = partitions_of((check, witness) for (check, _), witness in shown)
    unfinished = _unfinished(one.run.path)
    history = read(one.run.path, partitions, compacted=compacted, unfinished=unfinished)
    one.opinions = {key: opinion_on(history, key[0], witness) for key, witness in shown}


def _unfinished(run: Path) -> list[list[Any]]:
    """The lines of journals, which are no text."""
    if not run.is_dir():
        return []
    journals = [file for file in process_files(run) if file.name.endswith(JOURNAL)]
    found: list[list[Any]] = []
    for journal in journals:
        with suppress(DamagedError, OSError):
            found.append(list(unsettled(journal).lines))
    return found
