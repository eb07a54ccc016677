"""Which offsets hold a record that a read_committed reader is given, for all that is known."""

import numpy as np

from traces.checks.compaction import may_be_superseded
from traces.checks.partition import Partition
from traces.checks.rows import once
from traces.columns import Bools, distinct
from traces.context import Ints
from traces.schema import Flag, Op, Outcome, Txn


@once
def visible(p: Partition) -> Ints:
    """Offsets, sorted, where a record is known to be visible to a read_committed reader.

    What the final reading holds is what there is. Without one, whatever was acknowledged or
    read counts, unless its send failed, its transaction was not committed, or a later record
    of a compacted topic took its place. Of a record that was sent again, what is known is what was
    acknowledged where it lies; and so where not all producers' files are whole.
    """
    source = p.final if (len(p.final) or _emptied(p)) and not p.context.jepsen else p.log
    seen = np.ones(p.records, bool)
    if not p.context.jepsen and (p.txn_state[p.sends] != Txn.NOT).any():
        # Known by its send, and so by its transaction, or because it was read as committed.
        committed = p.reads[p.committed_only(p.reads)]
        seen = p.about(p.sends) | p.about(committed)
    s = p.sends
    failed = p.outcome[s] == Outcome.FAIL
    if failed.any():  # a failed attempt says nothing of a record that was sent again
        s = s[~failed | ~p.among(s, s[~failed])]
    gone = (p.outcome[s] == Outcome.FAIL) | may_be_superseded(p, s)
    if not p.context.jepsen:  # what a history shows in any poll is there, unless its send failed
        gone |= ~p.kept[s]
    seen &= ~p.about(s[gone])
    seen &= p.context.senders_known
    there = seen[p.record[source]]
    if not there.all():
        acks = s[~gone & p.done[s] & (p.offset[s] >= 0)]
        again = np.flatnonzero(~there & p.among(source, acks))
        there[again] = p.same_offset(source[again], acks)
    source = source[there]
    return distinct(p.offset[source[p.offset[source] >= p.log_start]])


def _emptied(p: Partition) -> bool:
    """Whether the final reading found nothing."""
    ends = p.where(Op.SCAN_END)
    return p.context.complete and bool((p.ok[ends] & p.has(Flag.FINAL)[ends]).any())


def visible_between(p: Partition, low: Ints, high: Ints) -> Ints:
    """How many visible records lie at offsets from `low` up to, not including, `high`."""
    return np.searchsorted(visible(p), high) - np.searchsorted(visible(p), low)


def visible_at(p: Partition, offsets: Ints) -> Bools:
    """At which of these offsets there is a visible record."""
    low, high = int(offsets.min(initial=0)), int(offsets.max(initial=0))
    every = visible(p)
    near = every[slice(*np.searchsorted(every, (low, high + 1)))]
    if high - low > 16 * (len(offsets) + len(near)):
        return np.isin(offsets, near)
    there = np.zeros(high - low + 1, bool)
    there[near - low] = True
    return there[offsets - low]


def passed_over(p: Partition, one: Ints, two: Ints) -> Bools:
    """Whether a visible record lies strictly between two offsets."""
    gap = two > one + 1
    gap[gap] = visible_between(p, one[gap] + 1, two[gap]) > 0
    return gap
