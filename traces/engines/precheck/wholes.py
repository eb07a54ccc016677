"""All summaries of the groups and of the producers of a run: what reaches over all partitions."""

from collections.abc import Iterator

import numpy as np

from traces.engines.precheck.summary import FIELDS, Summaries, SummaryKind
from traces.model.columns import firsts
from traces.model.context import Context
from traces.model.schema import NONE

DoubtfulKey = tuple[str, int]  # a check, and the group or transactional id that it is about


def doubtful_groups(summaries: Summaries) -> Iterator[DoubtfulKey]:
    """Groups in which a commit came after an assignment in a later generation."""
    for (group,), mine in summaries.kind(SummaryKind.GENERATION).groups("group"):
        generation, number = np.unique(mine["generation"], return_inverse=True)
        joined = np.full(len(generation), np.iinfo(np.int64).max)
        commit = np.full(len(generation), NONE)
        np.minimum.at(joined, number, mine["joined"])
        np.maximum.at(commit, number, mine["committed"])
        later = np.minimum.accumulate(joined[::-1])[::-1]  # the first to join this or a later one
        if bool(np.any(commit[:-1] > later[1:])):
            yield "G4", group


def doubtful_producers(summaries: Summaries) -> Iterator[DoubtfulKey]:
    """Producers that may have been fenced, or that may have written side by side."""
    for (tid, pid), mine in summaries.kind(SummaryKind.EPOCH).groups("tid", "pid"):
        if _late(mine, named=tid != NONE):
            yield "P3", tid if tid != NONE else pid
    for (tid,), mine in summaries.kind(SummaryKind.SESSION).groups("tid"):
        process, number = np.unique(mine["process"], return_inverse=True)
        begin = np.full(len(process), np.iinfo(np.int64).max)
        end = np.full(len(process), NONE)
        np.minimum.at(begin, number, mine["begun"])
        np.maximum.at(end, number, mine["ended"])
        order = np.argsort(begin)
        if bool(np.any(np.maximum.accumulate(end[order])[:-1] >= begin[order][1:])):
            yield "T8", tid
    for (tid, _), mine in summaries.kind(SummaryKind.INIT).groups("tid", "pid"):
        epoch = mine.sorted("inv")["epoch"]
        if bool(np.any(epoch[1:] <= epoch[:-1])):
            yield "P4", tid


def _late(mine: Summaries, named: bool) -> bool:
    """True if a send of one epoch began after the first sign of a newer one.

    An epoch is an interval, the call in which it was given out, and is newer than one that ended
    before it began.
    """
    began, settled = mine["began"], mine["settled"]
    if named:  # a part of a file goes on in the epoch in which the part before it ended
        rows = np.lexsort((mine["seq"], mine["process"]))
        process, init = mine["process"][rows], mine["initialised"][rows] == 1
        last = np.maximum.accumulate(np.where(init | firsts(process), np.arange(len(rows)), 0))
        began, settled = (np.where(init[last], t[rows][last], NONE) for t in (began, settled))
        mine = mine.where(rows)
    signs = np.flatnonzero(began != NONE)
    signs = signs[np.argsort(began[signs], kind="stable")]
    first = np.r_[
        np.minimum.accumulate(mine["first_sign"][signs][::-1])[::-1], np.iinfo(np.int64).max
    ]
    sends = np.flatnonzero((settled != NONE) & (mine["last_send"] != NONE))
    newer = np.searchsorted(began[signs], settled[sends], side="right")
    return bool(np.any(first[newer] < mine["last_send"][sends]))


def in_disorder(summaries: Summaries) -> bool:
    """True if a process has rows between those of another piece, so that pieces overlap.

    The pre-checks compare pieces by their first and last rows, so a row inside another piece would
    be missed.
    """
    spans = summaries.kind(SummaryKind.SPAN).sorted("process", "reads", "seq", "idx")
    process, reads, *ends = (spans[name] for name in FIELDS[SummaryKind.SPAN].columns)
    seq, idx, last_seq, last_idx = ends
    same = (process[1:] == process[:-1]) & (reads[1:] == reads[:-1])
    behind = (seq[1:] > last_seq[:-1]) | ((seq[1:] == last_seq[:-1]) & (idx[1:] > last_idx[:-1]))
    return bool(np.any(same & ~behind))


def seen(summaries: Summaries, context: Context) -> Iterator[tuple[str, int]]:
    """The number of things that the checks of groups and producers would have looked at."""
    generations = summaries.kind(SummaryKind.GENERATION)
    generations = generations.where(context.classic[generations["group"]] != 0)
    joined = generations["group"][generations["joined"] < np.iinfo(np.int64).max]
    yield "G4", int(generations["commits"][np.isin(generations["group"], joined)].sum())
    epochs = summaries.kind(SummaryKind.EPOCH)
    total = 0
    for _, mine in epochs.groups("tid", "pid"):
        total += int(mine["sends"].sum()) if bool(np.any(mine["began"] != NONE)) else 0
    yield "P3", total
    yield "P4", len(summaries.kind(SummaryKind.INIT))
    yield "T8", int(summaries.kind(SummaryKind.SESSION)["commits"].sum())
