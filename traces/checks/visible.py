"""Offsets that hold a record for a read_committed reader, for all that is known."""

import numpy as np

from traces.checks.compaction import may_be_superseded
from traces.checks.partition import Partition
from traces.checks.rows import once
from traces.model.columns import Bools, distinct
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome

NEVER = int(np.iinfo(np.int64).max)


@once
def visible(p: Partition) -> Ints:
    """Offsets, sorted, where a record is known to be visible to a read_committed reader.

    What the final scan holds is what there is. Without one, whatever was acknowledged or
    read counts, unless its send failed, its transaction was not committed, or a later record
    of a compacted topic took its place. Of a record that was sent again, what is known is what was
    acknowledged where it lies; and so where not all producers' files are whole. What somebody sent
    who was not recorded is visible where a reader of committed records was given it.
    """
    return _visible(p, may_be_superseded(p, p.sends))


@once
def visible_before(p: Partition) -> Ints:
    """The same for whoever was answered before the final scan began.

    What that found compaction had not removed until then, whatever had replaced it.
    """
    if int(p.context.compacted[p.t]) == 0 or not len(p.final):
        return visible(p)
    return _visible(p, np.zeros(len(p.sends), bool))


def answered_before(p: Partition, calls: Ints) -> Bools:
    """Mask of the calls that were surely answered before the final scan began."""
    ends = p.where(Op.SCAN_END)
    ends = ends[p.ok[ends] & p.has(Flag.FINAL)[ends]]
    began = p.inv[ends].min(initial=NEVER) if len(ends) else NONE
    sure = p.ok[calls] & (p.ret[calls] != NONE) & (p.ret[calls] < began)
    clocks = distinct(p.clock[ends])
    return sure & (p.clock[calls] == clocks[0]) if len(clocks) == 1 else sure & False


@once
def _open(p: Partition) -> bool:
    """True if anything counts of which it is not sure that a reader was to be given it."""
    return p.kept_from < p.log_start or _may_be_aborted(p)


def _may_be_aborted(p: Partition) -> bool:
    """True if something counts that nobody sent, of whose readers none tells that it asked for
    committed records, and one does not tell that it did not: it may have been aborted."""
    how = p.isolation[p.reads]
    silent = p.reads[(how != Isolation.READ_COMMITTED) & (how != Isolation.READ_UNCOMMITTED)]
    if p.context.jepsen or not len(silent):
        return False
    known = p.about(p.sends) | p.about(p.reads[how == Isolation.READ_COMMITTED])
    return bool((p.about(silent) & ~known).any())


@once
def _surely(p: Partition) -> Ints:
    """`visible`, without what is open."""
    return _visible(p, may_be_superseded(p, p.sends), surely=True)


@once
def surely_visible_before(p: Partition) -> Ints:
    """`visible_before`, without what is open."""
    if not _open(p):
        return visible_before(p)
    if int(p.context.compacted[p.t]) == 0 or not len(p.final):
        return _surely(p)
    return _visible(p, np.zeros(len(p.sends), bool), surely=True)


def _visible(p: Partition, superseded: Bools, *, surely: bool = False) -> Ints:
    source = p.final if (len(p.final) or _emptied(p)) and not p.context.jepsen else p.log
    seen = np.ones(p.records, bool)
    if not p.context.jepsen:
        # Known by its send, and so by its transaction, or by a reader that may have asked for what
        # is committed. What others were given of unknown senders may have been aborted.
        seen = p.about(p.sends) | p.about(_read_as_committed(p, surely))
    s = p.sends
    failed = p.outcome[s] == Outcome.FAIL
    mine = np.ones(len(s), bool)
    if failed.any():  # a failed attempt says nothing of a record that was sent again
        mine = ~failed | ~p.among(s, s[~failed])
    s = s[mine]
    gone = failed[mine] | superseded[mine]
    if not p.context.jepsen:  # what a history shows in any poll is there, unless its send failed
        gone |= ~p.kept[s]
    seen &= ~p.about(s[gone])
    seen &= p.senders_known
    if p.strangers:
        seen &= p.about(p.sends)
    there = seen[p.record[source]]
    if not there.all():
        acked = p.done[s] & (p.offset[s] >= 0)
        again = np.flatnonzero(~there & p.among(source, s[~gone & acked]))
        there[again] = p.same_offset(source[again], s[~gone & acked])
        # Where an aborted send was acknowledged, too, nobody knows which of them lies there.
        again = again[p.among(source[again], s[gone & acked])]
        there[again] &= ~p.same_offset(source[again], s[gone & acked])
    if p.strangers and _stays_known(p, source):
        there |= ~p.among(source, p.sends) & p.same_offset(source, _read_as_committed(p, surely))
    source = source[there]
    start = p.log_start if surely else p.kept_from
    return distinct(p.offset[source[p.offset[source] >= start]])


def _read_as_committed(p: Partition, surely: bool) -> Ints:
    """Reads that asked for committed records, surely or for all that is known."""
    how = p.isolation[p.reads]
    return p.reads[how == Isolation.READ_COMMITTED if surely else how != Isolation.READ_UNCOMMITTED]


def _stays_known(p: Partition, source: Ints) -> bool:
    """True if the records of these rows are there, whoever else sent to the topic."""
    return int(p.context.compacted[p.t]) == 0 or source is p.final


@once
def _stored(p: Partition) -> Ints:
    """Offsets, sorted, that show a record to everybody who asks for uncommitted ones, too.

    Asked only where not everybody who sends to the topic was recorded.
    """
    source = p.final if len(p.final) else p.reads
    if not _stays_known(p, source):
        return source[:0]
    return distinct(p.offset[source[p.offset[source] >= p.log_start]])


def _emptied(p: Partition) -> bool:
    """True if the final scan found nothing."""
    ends = p.where(Op.SCAN_END)
    return p.context.complete and bool((p.ok[ends] & p.has(Flag.FINAL)[ends]).any())


def visible_between(
    p: Partition, low: Ints, high: Ints, calls: Ints, *, surely: bool = False
) -> Ints:
    """The number of records visible to these calls at offsets from `low` up to, not at, `high`."""
    late, early = (
        np.searchsorted(offsets, high) - np.searchsorted(offsets, low)
        for offsets in _both(p, surely)
    )
    known = np.where(early > late, np.where(answered_before(p, calls), early, late), late)
    if not p.strangers:
        return known
    stored = np.searchsorted(_stored(p), high) - np.searchsorted(_stored(p), low)
    asked = p.isolation[calls] == Isolation.READ_UNCOMMITTED
    return np.where(asked, np.maximum(known, stored), known)


def _both(p: Partition, surely: bool) -> tuple[Ints, Ints]:
    """Visible offsets, and those that were visible before the final scan began."""
    if surely and _open(p):
        return _surely(p), surely_visible_before(p)
    return visible(p), visible_before(p)


def visible_at(p: Partition, offsets: Ints, calls: Ints, *, surely: bool = False) -> Bools:
    """At which of these offsets there is a record that is visible to all of these calls."""
    low, high = int(offsets.min(initial=0)), int(offsets.max(initial=0))
    late, early = _both(p, surely)
    every = early if answered_before(p, calls).all() else late
    near = every[slice(*np.searchsorted(every, (low, high + 1)))]
    if high - low > 16 * (len(offsets) + len(near)):
        return np.isin(offsets, near)
    there = np.zeros(high - low + 1, bool)
    there[near - low] = True
    return there[offsets - low]


def passed_over(p: Partition, one: Ints, two: Ints, calls: Ints) -> Bools:
    """True if a record visible to each of these calls lies strictly between two offsets."""
    gap = two > one + 1
    gap[gap] = visible_between(p, one[gap] + 1, two[gap], calls[gap]) > 0
    return gap


def unless_open(p: Partition, clauses: Ints, low: Ints, high: Ints, calls: Ints) -> Ints:
    """These clauses of findings that something visible lies from `low` up to, not at, `high`.

    They are undecided where all that lies there may have been aborted: nobody sent it, and who
    read it does not tell how. So they are where somebody was told that the log began above, and
    the final scan found it nevertheless: another leader may have been ahead with its retention.
    """
    if not _open(p):
        return clauses
    there = visible_between(p, low, high, calls) > 0
    sure = visible_between(p, low, high, calls, surely=True) > 0
    return np.where(there & ~sure, clause(Clause.UNKNOWN, np.full(len(low), p.t)), clauses)
