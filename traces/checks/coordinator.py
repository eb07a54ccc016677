"""Groups that a coordinator may have forgotten, and commits that may have reached it late."""

import numpy as np

from traces.checks.rows import Rows
from traces.model.columns import Bools
from traces.model.context import UNDECIDED, Clause, Ints, clause, code
from traces.model.schema import NONE, Outcome

SENT_ONCE_NS = 50_000_000
"""A commit that is answered so soon was one request: no client repeats one sooner."""

MAY_FORGET = "internal_topics.__consumer_offsets may lose what was written to it"


def forgotten(p: Rows, group: Ints) -> Ints:
    """The clause by which each group's coordinator may have lost generations and offsets.

    They are as safe as the records of `__consumer_offsets`, whose settings decide.
    """
    return clause(p.context.group_log, group) if p.context.group_log else np.zeros_like(group)


def by_others(p: Rows, group: Ints) -> Ints:
    """The clause by which somebody who was not recorded may have set each group's offsets."""
    return np.where(p.context.others[group] == 1, clause(Clause.OTHERS, group), 0)


def may_have_moved(p: Rows, group: Ints) -> Ints:
    """The clause by which each group's offsets may be others than its members committed."""
    return unless(forgotten(p, group), by_others(p, group))


def unless(one: Ints, other: Ints) -> Ints:
    """Either clause permits it; undecided it is where one may and none certainly does."""
    permits = code(one) != Clause.NOT
    for undecided in UNDECIDED:
        permits &= code(one) != undecided
    known = np.where(permits, one, other)
    return np.where((known == 0) & (one != 0), one, known)


def may_come_late(p: Rows, commits: Ints) -> Bools:
    """Mask of the commits that may have been taken again after their answer, or at any time.

    A client that waits too long for an answer sends its request again, on another connection; what
    the first one still holds is read by the broker when it comes, and may be the older of two.
    """
    inv, ret = p.inv[commits], p.ret[commits]
    soon = (p.outcome[commits] == Outcome.OK) & (inv != NONE) & (ret != NONE)
    soon &= ret - inv <= SENT_ONCE_NS
    return ~soon | (p.context.late_requests[p.process[commits]] == 1)
