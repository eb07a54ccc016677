"""Everything that is known of one partition, laid out for the checks.

Which record was sent, acknowledged and read, and at which offset; what the topic's configuration
permits to be lost of it.
"""

from functools import cached_property

import numpy as np
from attrs import define

from traces.checks.rows import Rows
from traces.model.columns import Bools, differing, firsts, numbered
from traces.model.context import UNSET, Clause, Ints, Senders, clause, code
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn
from traces.model.sorting import order_by

NEVER = int(np.iinfo(np.int64).max)


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
    def given(self) -> Ints:
        """As `reads`, with those records of which only the offset is told."""
        reads = self.where(Op.POLL, Op.SCAN)
        return reads[self.offset[reads] >= 0]

    @cached_property
    def delivered(self) -> Ints:
        """Records given by calls that certainly happened."""
        return self.reads[self.ok[self.reads]]

    @cached_property
    def final(self) -> Ints:
        """The final scan: what is in the log when all is over."""
        return self.delivered[self.has(Flag.FINAL)[self.delivered]]

    @cached_property
    def log(self) -> Ints:
        """Every row that says which record is at which offset: acknowledgements and reads."""
        return np.concatenate([self.acked, self.reads])

    @cached_property
    def log_start(self) -> int:
        """The highest offset at which the log began for anybody who asked, 0 where nobody did."""
        asked = self.where(Op.EARLIEST)
        return int(self.offset[asked[self.ok[asked]]].max(initial=0))

    @cached_property
    def kept_from(self) -> int:
        """From here on nothing can have been deleted from the head of the log that is there last.

        A log begins no higher than what is read from its start, whatever anybody was told before:
        another leader may have been ahead with its retention, and it is not its log that was read.
        """
        if self.context.jepsen:
            return self.log_start
        return min(self.log_start, self._lowest(self.final))

    @cached_property
    def retained_from(self) -> int:
        """Below this offset a record may have been deleted by retention, for all that is known."""
        ends = self.where(Op.SCAN_END)
        scans = np.r_[self.final, ends[self.ok[ends]]]
        return self.log_start if self.context.jepsen else self.deleted_below(self.final, scans)

    def deleted_below(self, found: Ints, scans: Ints) -> int:
        """The same of the log in which these scans found these records.

        Only whoever made them can have asked where the log began then: what another client was
        answered says nothing of what was deleted since. And where not all is known that consumers
        were told, one of them may have learnt that the log begins above.
        """
        asked = self.where(Op.EARLIEST)
        asked = asked[self.ok[asked] & np.isin(self.process[asked], self.process[scans])]
        known = len(asked) > 0 and self.context.consumers_whole
        return min(self.log_start if known else NEVER, self._lowest(found))

    def _lowest(self, reads: Ints) -> int:
        return int(self.offset[reads].min(initial=NEVER))

    def may_be_deleted(self, offsets: Ints) -> Bools:
        """Mask of these, for all that is known: a record at an unknown offset may lie lowest."""
        lowest = self.retained_from
        return np.where(offsets == NONE, lowest > 0, offsets < lowest)

    @cached_property
    def record(self) -> Ints:
        """Records by number, in the order of their ids, so that they can number tables."""
        return numbered(self.id)

    @cached_property
    def records(self) -> int:
        """The count of numbers."""
        return int(self.record.max(initial=NONE)) + 1

    def about(self, rows: Ints) -> Bools:
        """For each record, whether one of these rows is about it."""
        there = np.zeros(self.records, bool)
        there[self.record[rows]] = True
        return there

    def among(self, rows: Ints, others: Ints) -> Bools:
        """Mask of the rows about a record that one of the others is about."""
        return self.about(others)[self.record[rows]]

    def same_offset(self, rows: Ints, others: Ints) -> Bools:
        """Mask of the rows that show a record at the offset where one of the others shows it."""
        both = np.concatenate([rows, others])
        offset, record = self.offset[both], self.record[both]
        order = order_by(offset, record)
        group = np.empty(len(both), np.int64)
        group[order] = np.cumsum(firsts(offset[order], record[order]))
        there = np.zeros(len(both) + 1, bool)
        there[group[len(rows) :]] = True
        return there[group[: len(rows)]]

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
    def stored_at(self) -> Ints:
        """The offset that each send (aligned with `sends`) is known to have got, else NONE.

        It is the acknowledged one. An offset where the record was read is that of a call only if
        no other call can have put it there: only if no other attempt to send the record to this
        partition may have succeeded, and the attempts of all producers are known. The lowest such
        offset is known only where all that was read is.
        """
        s = self.sends
        offset = np.where(self.done[s], self.offset[s], NONE)
        missing = np.flatnonzero((offset == NONE) & self.sole & self.context.readers_known)
        found = self.reads[self.among(self.reads, s[missing])]
        lowest = np.full(self.records, np.iinfo(np.int64).max)
        np.minimum.at(lowest, self.record[found], self.offset[found])
        seen = self.among(s[missing], found)
        offset[missing[seen]] = lowest[self.record[s[missing[seen]]]]
        return offset

    @property
    def senders_known(self) -> bool:
        """True if every attempt to send one of the records that were sent here is told."""
        c = self.context
        return c.senders_known and int(c.senders[self.t]) > Senders.ANYBODY

    @property
    def strangers(self) -> bool:
        """True if somebody who was not recorded may have sent records to this topic."""
        return int(self.context.senders[self.t]) < Senders.ALL

    def unless_sent(self, rows: Ints) -> Ints:
        """The clause of findings, one for each of these rows, that another copy may explain.

        It is undecided where somebody who was not recorded may have sent the record, too.
        """
        anybody = int(self.context.senders[self.t]) == Senders.ANYBODY
        return clause(Clause.UNKNOWN, self.process[rows]) * np.int64(anybody)

    @cached_property
    def sole(self) -> Bools:
        """Mask (aligned with `sends`) of those that alone can have put their record in the log."""
        s = self.sends
        if not self.senders_known:
            return np.zeros(len(s), bool)
        failed = self.outcome[s] == Outcome.FAIL
        record, records = self.record[s], self.records
        attempts = np.bincount(record, minlength=records)
        possible = np.bincount(record[~failed], minlength=records)
        return np.where(failed, attempts[record], possible[record]) == 1

    def may_be_lost(self, acks: Ints) -> Ints:
        """For each acknowledged row, the clause that permits its loss."""
        if not len(acks):
            return np.empty(0, np.int64)
        c = self.context
        by_topic = np.where(
            self._since_change(acks), self._last_clause(len(acks)), self.topic_clause(len(acks))
        )
        process = self.process[acks]
        weak = c.weak_acks[process]
        unknown = clause(Clause.UNKNOWN, process)
        clauses = np.where((weak == -1) & (by_topic == Clause.NOT), unknown, by_topic)
        return np.where(weak == 1, clause(Clause.ACKS, process), clauses)

    def unless_read(self, clauses: Ints, rows: Ints) -> Ints:
        """These clauses of findings that no read must contradict, one for each of these rows.

        Where not all that anybody read is told, they are undecided.
        """
        unknown = clause(Clause.UNKNOWN, self.process[rows])
        return clauses if self.context.readers_whole else unknown

    def unless_elsewhere(self, clauses: Ints, pairs: Ints) -> Ints:
        """These clauses of findings about where two sends are stored, as far as that is known.

        One that was acknowledged may lie where nobody tells that it was; one that was only read may
        have been read elsewhere by whose file is cut off.
        """
        unknown = clause(Clause.UNKNOWN, self.process[pairs[:, 0]])
        untold = ((self.offset[pairs] == NONE) & self.ok[pairs]).any(axis=1)
        by_reads = ((self.offset[pairs] == NONE) | ~self.done[pairs]).any(axis=1)
        clauses = np.where(untold & (code(clauses) == Clause.NOT), unknown, clauses)
        return np.where(by_reads & (not self.context.readers_whole), unknown, clauses)

    def topic_clause(self, n: int) -> Ints:
        """The clause by which the topic may lose what readers had already seen, `n` times.

        It is unknown where the topic's settings have changed, and with them what they permit.
        """
        if int(self.context.loss_until[self.t]) != UNSET:
            return np.full(n, clause(Clause.UNKNOWN, np.int64(self.t)))
        return self._last_clause(n)

    def _since_change(self, calls: Ints) -> Bools:
        """Mask of the calls that began when the topic had the settings that it has at the end."""
        until, clock = self.context.loss_until[self.t], self.context.loss_clock[self.t]
        return (self.inv[calls] > until) & (self.clock[calls] == clock)

    def _last_clause(self, n: int) -> Ints:
        """The clause of the settings that the topic has at the end, `n` times."""
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
        """Mask of the reads that asked for committed records only."""
        return self.isolation[rows] == Isolation.READ_COMMITTED
