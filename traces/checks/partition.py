"""Everything that is known of one partition, laid out for the checks.

The rows arrive in any order and leave sorted by process and program order, so that a verdict
cannot depend on how the table was cut or shuffled.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, wraps
from typing import Any, TypeVar

import numpy as np
from attrs import define
from numpy.typing import NDArray

from traces.checks.base import Bools
from traces.context import Clause, Context, Ints, clause
from traces.schema import NONE, Flag, Isolation, Op, Outcome, Txn
from traces.sorting import order_by

Answer = TypeVar("Answer")
NS_PER_MS = 1_000_000


@define(slots=False)
class Rows:
    """Columns of rows that belong together, in canonical order."""

    columns: Mapping[str, Ints]
    context: Context

    def __getattr__(self, name: str) -> Ints:
        try:
            column = self.columns[name]
        except KeyError as error:
            raise AttributeError(name) from error
        self.__dict__[name] = column  # found without asking here from now on
        return column

    def __len__(self) -> int:
        return len(self.columns["op"])

    @cached_property
    def _rows_of(self) -> dict[tuple[Op, ...], Ints]:
        return {}

    @cached_property
    def _there(self) -> frozenset[int]:
        """The calls that there are."""
        return frozenset((np.flatnonzero(np.bincount(self.op + 1)) - 1).tolist())

    def where(self, *ops: Op) -> Ints:
        """The rows of these calls, in order."""
        if ops not in self._rows_of:
            rows = np.flatnonzero(self.called(*ops))
            rows.flags.writeable = False  # several checks get the same
            self._rows_of[ops] = rows
        return self._rows_of[ops]

    def called(self, *ops: Op) -> Bools:
        """Which rows are of these calls."""
        wanted = np.zeros(len(self), bool)
        for op in self._there.intersection(ops):
            wanted |= self.op == op
        return wanted

    def has(self, flag: int) -> Bools:
        """Which rows carry the flag."""
        return (self.flags & flag) != 0

    @cached_property
    def ok(self) -> Bools:
        """Rows of calls that certainly happened."""
        return self.outcome == Outcome.OK

    @cached_property
    def done(self) -> Bools:
        """As `ok`, or nobody answered and a reader has shown since that it happened."""
        return self.ok | (self.txn_state == Txn.PROVED)

    @cached_property
    def unit(self) -> Ints:
        """The transaction that a row belongs to, or its call where there is none; per process."""
        return np.where(self.txn >= 0, -2 - self.txn, self.seq)


@define(slots=False)
class Partition(Rows):
    """One partition of one topic."""

    @cached_property
    def t(self) -> int:
        """The topic's number."""
        return int(self.columns["topic"][0])

    @cached_property
    def sends(self) -> Ints:
        """Every attempt to send to this partition."""
        sends = self.where(Op.SEND)
        return sends[self.id[sends] != NONE]

    @cached_property
    def acked(self) -> Ints:
        """Sends that were answered with an offset."""
        s = self.sends
        return s[self.done[s] & (self.offset[s] >= 0)]

    @cached_property
    def kept(self) -> Bools:
        """Rows whose transaction, if any, is known to be committed."""
        state = self.txn_state
        return (state == Txn.NOT) | (state == Txn.COMMITTED) | (state == Txn.PROVED)

    @cached_property
    def reads(self) -> Ints:
        """Every record that anybody was given, whatever became of the call."""
        reads = self.where(Op.POLL, Op.SCAN)
        return reads[(self.id[reads] != NONE) & (self.offset[reads] >= 0)]

    @cached_property
    def delivered(self) -> Ints:
        """Records given by calls that certainly happened."""
        return self.reads[self.ok[self.reads]]

    @cached_property
    def final(self) -> Ints:
        """The final reading: what is in the log when all is over."""
        return self.delivered[self.has(Flag.FINAL)[self.delivered]]

    @cached_property
    def log(self) -> Ints:
        """Every row that says which record is at which offset: acknowledgements and reads."""
        return np.concatenate([self.acked, self.reads])

    @cached_property
    def log_start(self) -> int:
        """The lowest offset that retention has left, 0 where nothing else is known."""
        asked = self.where(Op.EARLIEST)
        return int(self.offset[asked[self.ok[asked]]].max(initial=0))

    @cached_property
    def retained_from(self) -> int:
        """Below this offset a record may have been deleted by retention, for all that is known."""
        if len(self.where(Op.EARLIEST)) or self.context.jepsen:
            return self.log_start
        return int(self.offset[self.final].min(initial=np.iinfo(np.int64).max))

    @cached_property
    def record(self) -> Ints:
        """Records by number, in the order of their ids, so that they can number tables."""
        return numbered(self.id)

    @cached_property
    def records(self) -> int:
        """How many numbers there are."""
        return int(self.record.max(initial=NONE)) + 1

    def about(self, rows: Ints) -> Bools:
        """For each record, whether one of these rows is about it."""
        there = np.zeros(self.records, bool)
        there[self.record[rows]] = True
        return there

    def among(self, rows: Ints, others: Ints) -> Bools:
        """Which of these rows are about a record that one of the others is about."""
        return self.about(others)[self.record[rows]]

    def first_about(self, rows: Ints) -> Ints:
        """For each record, the first of these rows that is about it, -1 where none is."""
        first = np.full(self.records, -1)
        first[self.record[rows[::-1]]] = rows[::-1]
        return first

    @cached_property
    def contested(self) -> Ints:
        """Rows of the log at offsets that hold more than one record."""
        return self.log[differing(self.offset[self.log], self.record[self.log])]

    @cached_property
    def scattered(self) -> Ints:
        """Rows of the log about records that lie at more than one offset."""
        return self.log[differing(self.record[self.log], self.offset[self.log])]

    @cached_property
    def place(self) -> Ints:
        """The offset of each send (aligned with `sends`): acknowledged, else read, else NONE."""
        s = self.sends
        place = np.where(self.done[s], self.offset[s], NONE)
        missing = np.flatnonzero(place == NONE)
        found = self.reads[self.among(self.reads, s[missing])]
        lowest = np.full(self.records, np.iinfo(np.int64).max)
        np.minimum.at(lowest, self.record[found], self.offset[found])
        seen = self.among(s[missing], found)
        place[missing[seen]] = lowest[self.record[s[missing[seen]]]]
        return place

    @cached_property
    def visible(self) -> Ints:
        """Offsets, sorted, where a record is known to be visible to a read_committed reader.

        What the final reading holds is what there is. Without one, whatever was acknowledged or
        read counts, unless its send failed, its transaction was not committed, or a later record
        of a compacted topic took its place.
        """
        source = self.final if len(self.final) and not self.context.jepsen else self.log
        seen = np.ones(self.records, bool)
        if not self.context.jepsen:
            # Known by its send, and so by its transaction, or because it was read as committed.
            committed = self.reads[self.committed_only(self.reads)]
            seen = self.about(self.sends) | self.about(committed)
        s = self.sends
        failed = self.outcome[s] == Outcome.FAIL
        if failed.any():  # a failed attempt says nothing of a record that was sent again
            s = s[~failed | ~self.among(s, s[~failed])]
        gone = (self.outcome[s] == Outcome.FAIL) | ~self.kept[s] | self.superseded(s)
        seen &= ~self.about(s[gone])
        source = source[seen[self.record[source]]]
        return distinct(self.offset[source[self.offset[source] >= self.log_start]])

    def superseded(self, sends: Ints) -> Bools:
        """Whether compaction may have removed what was sent: a later record has the same key."""
        if int(self.context.compacted[self.t]) != 1:
            return np.zeros(len(sends), bool)
        return self._replaced(sends)

    def _replaced(self, sends: Ints) -> Bools:
        keyed = self.sends[self.key[self.sends] != NONE]
        if not len(keyed):
            return np.ones(len(sends), bool)  # no keys: every hole is taken as compaction
        place = self.place[np.searchsorted(self.sends, keyed)]
        order = np.lexsort((place, self.key[keyed]))
        last = order[np.r_[firsts(self.key[keyed[order]])[1:], True]]
        at = lookup(self.key[keyed[last]], self.key[sends])
        newest = np.where(at >= 0, place[last][at], NONE)
        own = self.place[np.searchsorted(self.sends, sends)]
        return (own < newest) | (self.key[sends] == NONE) | self.expired(sends)

    def expired(self, sends: Ints) -> Bools:
        """Which tombstones may be gone, for all that is known of delete.retention.ms."""
        retention = int(self.context.delete_retention[self.t])
        return self.has(Flag.TOMBSTONE)[sends] & (
            (retention == NONE) | (self.age_at_the_end(sends) >= retention)
        )

    def age_at_the_end(self, sends: Ints) -> Ints:
        """How many ms lie at most between each append and the end of the final reading."""
        ends = self.where(Op.SCAN_END)
        ends = ends[self.ok[ends]]
        returned = int(self.ret[ends].max(initial=NONE))
        known = (
            (self.inv[sends] != NONE) & (returned != NONE) & bool((self.ret[ends] != NONE).all())
        )
        age = (returned - self.inv[sends]) // NS_PER_MS
        return np.where(known, age, np.iinfo(np.int64).max)

    def compaction_is_vague(self, sends: Ints) -> Bools:
        """Of which records nobody knows whether compaction may have removed them.

        A record may have been a tombstone if nobody says that it was not. What replaced it may be
        a record whose key nobody tells, or a tombstone of unknown fate. And if nobody tells the
        cleanup policy, what a later record of its key has replaced may be gone.
        """
        policy = int(self.context.compacted[self.t])
        if policy == 0 or self.context.jepsen:
            return np.zeros(len(sends), bool)
        if policy == -1:
            return self._replaced(sends) & (self.key[sends] != NONE)
        others = self.sends[self.outcome[self.sends] != Outcome.FAIL]
        unsure = (self.place[np.searchsorted(self.sends, others)] == NONE) | ~self.kept[others]
        dead = others[unsure & ~self.has(Flag.VALUED)[others]]
        untold = ~(self.has(Flag.VALUED) | self.has(Flag.TOMBSTONE))[sends]
        keyless = bool((self.key[others] == NONE).any())
        return untold | keyless | np.isin(self.key[sends], self.key[dead])

    def between(self, low: Ints, high: Ints) -> Ints:
        """How many visible records lie at offsets from `low` up to, not including, `high`."""
        return np.searchsorted(self.visible, high) - np.searchsorted(self.visible, low)

    def visible_at(self, offsets: Ints) -> Bools:
        """At which of these offsets there is a visible record."""
        low, high = int(offsets.min(initial=0)), int(offsets.max(initial=0))
        visible = self.visible[slice(*np.searchsorted(self.visible, (low, high + 1)))]
        if high - low > 16 * (len(offsets) + len(visible)):
            return np.isin(offsets, visible)
        there = np.zeros(high - low + 1, bool)
        there[visible - low] = True
        return there[offsets - low]

    def skipped(self, one: Ints, two: Ints) -> Bools:
        """Whether a visible record lies strictly between two offsets."""
        gap = two > one + 1
        gap[gap] = self.between(one[gap] + 1, two[gap]) > 0
        return gap

    def may_be_lost(self, acks: Ints) -> Ints:
        """For each acknowledged row, the clause that permits its loss."""
        if not len(acks):
            return np.empty(0, np.int64)
        c = self.context
        by_topic = self.topic_clause(len(acks))
        process = self.process[acks]
        weak = c.weak_acks[process]
        unknown = clause(Clause.UNKNOWN, process)
        clauses = np.where((weak == -1) & (by_topic == Clause.NOT), unknown, by_topic)
        return np.where(weak == 1, clause(Clause.ACKS, process), clauses)

    def topic_clause(self, n: int) -> Ints:
        """The clause by which the topic may lose what readers had already seen, `n` times."""
        unclean, min_isr = int(self.context.unclean[self.t]), int(self.context.min_isr[self.t])
        if unclean == 1:
            code = Clause.UNCLEAN
        elif min_isr == 1:
            code = Clause.MIN_ISR
        elif int(self.context.unflushed[self.t]) == 1:
            code = Clause.FLUSH
        elif unclean == -1 or min_isr == -1:
            code = Clause.UNKNOWN
        else:
            return np.zeros(n, np.int64)
        return np.full(n, clause(code, np.int64(self.t)))

    def committed_only(self, rows: Ints) -> Bools:
        """Which of these reads asked for committed records only."""
        return self.isolation[rows] == Isolation.READ_COMMITTED


def lookup(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted value stands in sorted, distinct `keys`, -1 where it does not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)


def numbered(values: Ints) -> Ints:
    """The values by small numbers that keep their order."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low <= 4 * len(values):
        return values - low
    order = order_by(values)
    numbers = np.empty(len(values), np.int64)
    numbers[order] = np.cumsum(firsts(values[order])) - 1
    return numbers


def distinct(values: Ints) -> Ints:
    """The values, sorted, each once."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low > 16 * len(values):
        return np.unique(values)
    there = np.zeros(high - low + 1, bool)
    there[values - low] = True
    return np.flatnonzero(there) + low


def differing(groups: Ints, values: Ints) -> Bools:
    """Which rows are in a group whose rows do not all have the same value."""
    group = numbered(groups)
    some = np.zeros(int(group.max(initial=NONE)) + 1, np.int64)
    some[group] = values
    odd = values != some[group]
    if not odd.any():
        return odd
    mixed = np.zeros(len(some), bool)
    mixed[group[odd]] = True
    return mixed[group]


def repeated(*keys: Ints) -> Bools:
    """Which rows share all these values with another row."""
    group = numbered(keys[0])
    for key in keys[1:]:
        number = numbered(key)
        group = numbered(group * (int(number.max(initial=0)) + 1) + number)
    return (np.bincount(group) > 1)[group] if len(group) else np.empty(0, bool)


def once(function: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """What several checks ask of the same rows is worked out once."""
    name = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def answer(rows: Any) -> Answer:
        if name not in rows.__dict__:
            rows.__dict__[name] = function(rows)
        return rows.__dict__[name]

    return answer


def firsts(*sorted_columns: NDArray[np.integer[Any]]) -> Bools:
    """Where a new group starts in rows sorted by these columns."""
    if not len(sorted_columns[0]):
        return np.empty(0, bool)
    changes = np.zeros(len(sorted_columns[0]), bool)
    changes[0] = True
    for column in sorted_columns:
        changes[1:] |= column[1:] != column[:-1]
    return changes


def same_place(p: Partition, rows: Ints, among: Ints) -> Bools:
    """Which rows have a row among those others with the same offset and the same record."""
    both = np.concatenate([rows, among])
    order = np.lexsort((p.id[both], p.offset[both]))
    group = np.empty(len(both), np.int64)
    group[order] = np.cumsum(firsts(p.offset[both[order]], p.id[both[order]]))
    there = np.zeros(len(both) + 1, bool)
    there[group[len(rows) :]] = True
    return there[group[: len(rows)]]


def running_max(values: Ints) -> tuple[Ints, Ints]:
    """The highest value so far at each place, and where it stands."""
    best = np.maximum.accumulate(values)
    new = np.r_[True, best[1:] > best[:-1]][: len(values)]
    return best, np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))


def last_before(flags: Bools) -> Ints:
    """For each row, the last row before it that is flagged, -1 where there is none."""
    at = np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
    return np.r_[-1, at[:-1]] if len(at) else at


def last_upto(flags: Bools) -> Ints:
    """For each row, the last flagged row up to and including it, -1 where there is none."""
    return np.maximum.accumulate(np.where(flags, np.arange(len(flags)), -1))
