"""Transactions: all of one or nothing of it, and nothing before its time."""

import numpy as np

from traces.checks.base import LOSS, Found, check, witness
from traces.checks.compaction import compaction_is_vague, superseded
from traces.checks.coordinator import MAY_FORGET, may_have_moved
from traces.checks.lives import MADE_AGAIN, Apart, in_time, unless_parted
from traces.checks.partition import Partition
from traces.model.columns import firsts, running_max
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Flag, Isolation, Op, Outcome, Txn


def _sent(p: Partition, reads: Ints, sends: Ints) -> tuple[Ints, Ints]:
    """Reads of records that one of these sends is about, and the first that is."""
    first = p.first_about(sends)[p.record[reads]]
    return reads[first >= 0], first[first >= 0]


def _one_per_id(p: Partition, found: Ints) -> Ints:
    return found[np.unique(p.id[found[:, 0]], return_index=True)[1]]


@check(
    "T1",
    "a committed transaction is there as a whole",
    found="record{s} of committed transactions {is} missing",
    formula="T committed, or any v ∈ T read as committed ⇒ every record of T is in the final scan",
    needs="SENDS TXNS proof COMPACTED",
    closed="complete final FINAL STARTS compacted.whole",
    spec="TransactionCoordinator!Atomic; DurableIsr!AckedSurvives",
    unless=LOSS,
    looks_at="sends of committed transactions",
    uses="compacted.key",
)
def torn(p: Partition) -> list[Found]:
    """Part of a transaction was seen or committed, and another part of it is missing.

    A delayed EndTxn that hits a later transaction tears one apart (KIP-890, KAFKA-17754). The last
    polls of a Jepsen history need not show all that was undecided: there only what is known to lie
    below the last record that anybody was given must have been given, too.
    """
    state = p.txn_state[p.sends]
    whole = p.sends[((state == Txn.COMMITTED) | (state == Txn.PROVED))]
    whole = whole[~p.has(Flag.UNKNOWN_PARTITION)[whole] & (p.outcome[whole] != Outcome.FAIL)]
    if p.context.jepsen:
        offset = p.stored_at[np.searchsorted(p.sends, whole)]
        whole = whole[(offset != NONE) & (offset <= p.offset[p.delivered].max(initial=NONE))]
    retained = (p.offset[whole] == NONE) | (p.offset[whole] >= p.kept_from)
    gone = whole[retained & ~p.among(whole, p.final) & ~superseded(p, whole)]
    deleted = p.may_be_deleted(p.offset[gone])
    unknown = clause(Clause.UNKNOWN, p.process[gone])
    clauses = np.where(deleted | compaction_is_vague(p, gone), unknown, p.may_be_lost(gone))
    return [Found(len(whole), witness(gone), clauses)]


@check(
    "T2",
    "read_committed waits for the commit",
    found="record{s} {was} read as committed before the commit was requested",
    formula="v ∈ T read as committed ⇒ the read did not return before T's commit was requested",
    needs="VISIBLE read.ret one_clock",
    closed="send.topic send.id producers producers.whole ending.txn ending.inv",
    spec="ProducerState!LastStableIsDecided",
    kinds="read-uncommitted-leak",
    looks_at="read_committed reads of transactions",
    uses="end_inv isolation",
)
def leaked(p: Partition) -> list[Found]:
    """A reader of committed records saw one of a transaction that nobody had yet committed."""
    state, end = p.txn_state[p.sends], p.end_inv[p.sends]
    sends = p.sends[(state != Txn.NOT) & (state != Txn.ABORTED) & (end != NONE)]
    # Of a record that was sent more than once, any copy may be the one that was read.
    at_once = p.sends[(state == Txn.NOT) | ((state != Txn.ABORTED) & (end == NONE))]
    reads = p.reads[p.committed_only(p.reads) & (p.ret[p.reads] != NONE)]
    reads = reads[~p.among(reads, at_once)]
    reads, sent = _sent(p, reads, sends[np.argsort(p.end_inv[sends], kind="stable")])
    early = (p.ret[reads] < p.end_inv[sent]) & (p.clock[reads] == p.clock[sent])
    found = _one_per_id(p, witness(reads[early], sent[early]))
    return [Found(len(reads), found, p.unless_sent(found[:, 1]), "read-uncommitted-leak")]


@check(
    "T3",
    "read_committed stops at the last stable offset",
    found="read{s} of committed records went past an open transaction",
    formula="o read as committed at t, committed T has a record below o ⇒ T asked to commit by t",
    needs="VISIBLE acked.offset read.ret one_clock",
    closed="producers producers.whole ending.txn ending.inv",
    spec="ProducerState!LastStableIsDecided",
    looks_at="read_committed reads above a transaction's records",
    uses="end_inv isolation",
)
def beyond_stable(p: Partition) -> list[Found]:
    """A reader of committed records passed the first record of a transaction still open."""
    sends = p.acked[(p.txn_state[p.acked] == Txn.COMMITTED) & (p.end_inv[p.acked] != NONE)]
    sends = sends[np.argsort(p.offset[sends], kind="stable")]
    latest, at = running_max(p.end_inv[sends])
    reads = p.reads[p.committed_only(p.reads) & (p.ret[p.reads] != NONE)]
    below = np.searchsorted(p.offset[sends], p.offset[reads], side="left") - 1
    reads, below = reads[below >= 0], below[below >= 0]
    open_then = sends[at[below]] if len(sends) else reads
    early = (p.clock[open_then] == p.clock[reads]) & (
        latest[below] > p.ret[reads] if len(sends) else False
    )
    found = witness(open_then[early], reads[early])
    return [Found(len(reads), found, np.zeros(len(found), np.int64))]


@check(
    "T4",
    "read_committed never sees an aborted record",
    found="aborted record{s} {was} read as committed",
    formula="T aborted, or never asked to commit ⇒ no v ∈ T is read as committed",
    needs="VISIBLE",
    closed="send.topic send.id producers producers.whole ending.txn",
    spec="TransactionCoordinator!ToldTruly",
    looks_at="read_committed reads and aborted transactions",
    uses="isolation",
)
def aborted_read(p: Partition) -> list[Found]:
    """The record of a transaction that did not commit was given to a reader of committed ones."""
    undone = p.txn_state[p.sends] == Txn.ABORTED
    aborted, kept = p.sends[undone], p.sends[~undone]
    aborted = aborted[~p.among(aborted, kept)]
    reads = p.reads[p.committed_only(p.reads)]
    found = _one_per_id(p, witness(*_sent(p, reads, aborted)))
    seen = len(reads) if len(aborted) else 0
    return [Found(seen, found, p.unless_sent(found[:, 1]))]


@check(
    "T5",
    "a transaction does not read its own records before it commits",
    found="record{s} {was} read by the transaction that sent it, before its commit",
    formula="one unit reads v ⇒ it did not send v",
    needs="VISIBLE producers.whole polled.txn",
    unless="isolation is read_uncommitted",
    kinds="precommitted-read",
    looks_at="transactions that send and poll",
    uses="isolation",
)
def own_reads(p: Partition) -> list[Found]:
    """A transaction cannot poll its own records: they are not committed while it runs.

    Of several reads of a record the one is shown that is least allowed.
    """
    mixed = p.has(Flag.MIXED)
    reads = p.reads[mixed[p.reads]]
    # What another call sent, too, may be read before this transaction commits.
    read, sent = _sent(p, reads, p.sends[mixed[p.sends] & p.sole])
    own = (p.process[read] == p.process[sent]) & (p.unit[read] == p.unit[sent])
    read, sent = read[own], sent[own]
    asked = p.isolation[read]
    allowed = np.select(
        [asked == Isolation.READ_COMMITTED, asked == Isolation.READ_UNCOMMITTED], [0, 2], 1
    )
    worst = np.argsort(allowed, kind="stable")
    found = _one_per_id(p, witness(read[worst], sent[worst]))
    how, process = p.isolation[found[:, 0]], p.process[found[:, 0]]
    clauses = np.select(
        [how == Isolation.READ_COMMITTED, how == Isolation.READ_UNCOMMITTED],
        [p.unless_sent(found[:, 0]), clause(Clause.ISOLATION, process)],
        clause(Clause.UNKNOWN, process),
    )
    clauses = np.zeros(len(found), np.int64) if p.context.jepsen else clauses
    return [Found(len(reads), found, clauses, "precommitted-read")]


@check(
    "T6",
    "transactions do not read each other in a circle",
    found="circle{s} of transactions that read from each other",
    formula="no cycle of edges T1 → T2 where T1 sent what T2 read",
    needs="VISIBLE producers.whole polled.txn",
    kinds="G1c G1c-realtime",
    looks_at="transactions that send and poll",
    uses="",
)
def read_edges(p: Partition) -> list[Found]:
    """Edges between units, for `model.cycles`: one that sends *and* polls may be in a cycle."""
    mixed = p.has(Flag.MIXED)
    read, sent = _sent(p, p.reads, p.sends[p.sole])  # of several senders nobody knows whose it is
    edge = (mixed[read] | mixed[sent]) & (
        (p.process[read] != p.process[sent]) | (p.unit[read] != p.unit[sent])
    )
    read, sent = read[edge], sent[edge]
    order = np.lexsort((p.unit[read], p.process[read], p.unit[sent], p.process[sent]))
    read, sent = read[order], sent[order]
    one = firsts(p.process[sent], p.unit[sent], p.process[read], p.unit[read])
    edges = witness(sent[one], read[one])
    seen = int(np.count_nonzero(mixed[p.sends])) + int(np.count_nonzero(mixed[p.reads]))
    return [Found(seen, edges, np.zeros(len(edges), np.int64), "#edge")]


@check(
    "T10",
    "an input is consumed by one committed transaction of a group",
    found="input record{s} {was} consumed by two committed transactions",
    formula="two committed transactions of one group do not both consume (partition, o)",
    needs="VISIBLE proof MEMBERS polled.txn",
    spec="TransactionalOffsets!Once",
    unless=f"{MAY_FORGET}, or {MADE_AGAIN}",
    kinds="eos-double-process",
    looks_at="polls inside transactions of a group",
    uses="",
)
def consumed_twice(p: Partition) -> list[Found]:
    """Exactly once means: the position moves with the transaction, so no other takes it again."""
    reads = p.where(Op.POLL)
    done = (p.txn_state[reads] == Txn.COMMITTED) | (p.txn_state[reads] == Txn.PROVED)
    reads = reads[done & (p.group[reads] != NONE) & (p.offset[reads] != NONE)]
    reads = reads[np.lexsort((reads, p.offset[reads], p.group[reads]))]
    one, two = reads[:-1], reads[1:]
    again = (p.group[one] == p.group[two]) & (p.offset[one] == p.offset[two])
    again &= (p.process[one] != p.process[two]) | (p.unit[one] != p.unit[two])
    found = witness(one[again], two[again])
    clauses = may_have_moved(p, p.group[found[:, 0]])
    clauses = unless_parted(p, clauses, *in_time(p, found), Apart.BEGUN)
    return [Found(len(reads), found, clauses, "eos-double-process")]
