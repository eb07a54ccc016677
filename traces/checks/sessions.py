"""Producer sessions: one producer id in one epoch, for whose records the broker counts."""

import numpy as np

from traces.checks.base import LOSS, Found, check, witness
from traces.checks.compaction import compaction_is_vague, superseded
from traces.checks.partition import Partition
from traces.model.columns import firsts, last_upto
from traces.model.context import UNSET, Clause, clause
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sorting import order_by

SEQUENCES = 1 << 31  # sequence numbers begin again at 0 after the last one
_DUMPED = (
    "sequenced.pid sequenced.pepoch sequenced.sequence dumps "
    "dumped.topic dump.partition dump.offset dump.node"
)


@check(
    "P2",
    "a producer session has no gap",
    found="record{s} {is} missing inside a producer's session",
    formula="one (pid, epoch): i before j, j in the log ⇒ i in the log, or i certainly failed",
    needs="SENDS TXNS proof COMPACTED numbered.pid numbered.pepoch numbered.complete "
    "session.partition",
    closed="scan.topic scan.partition scan.offset scan.id consumers numbered.scan STARTS "
    f"compacted.whole {_DUMPED}",
    unless=LOSS,
    looks_at="replica dumps, or sends with a producer id and epoch",
    uses="outcome txn_state pid pepoch sequence node key",
)
def gaps(p: Partition) -> list[Found]:
    """The broker takes a batch of a session only right after the one before it.

    A dump of a replica decides this by the sequence numbers themselves; nothing is concluded from
    a compacted log. From what clients say, a record that is not in the final scan while a later
    one of its session is. Only sends that tell id and epoch are looked at: a client that gave a
    batch up begins a new epoch by itself (KIP-360), and the gap between two sessions is legal.
    """
    return [_between_sequences(p), _between_sends(p)]


def _between_sequences(p: Partition) -> Found:
    rows = p.where(Op.DUMP)
    rows = rows[(p.pid[rows] != NONE) & (p.sequence[rows] != NONE)]
    compacted = int(p.context.compacted[p.t])
    if not len(rows) or compacted == 1:
        return Found(0)
    rows = rows[order_by(p.node[rows], p.pid[rows], p.pepoch[rows], p.offset[rows])]
    begins = firsts(p.node[rows], p.pid[rows], p.pepoch[rows])
    before = np.r_[NONE, p.sequence[rows[:-1]]]
    step = (p.sequence[rows] - np.where(begins, NONE, before)) % SEQUENCES
    # The log of a replica that begins later has lost the heads of its sessions to retention.
    from_start = np.isin(p.node[rows], p.node[rows[p.offset[rows] == 0]])
    gap = (step > 1) & (step < SEQUENCES // 2) & (~begins | from_start)
    found = witness(np.where(begins, NONE, np.r_[NONE, rows[:-1]])[gap], rows[gap])
    clauses = p.topic_clause(len(found))
    if compacted == UNSET:
        clauses = clause(Clause.UNKNOWN, np.full(len(found), p.t))
    return Found(len(rows), found, clauses)


def _between_sends(p: Partition) -> Found:
    sends = p.sends[(p.pid[p.sends] != NONE) & (p.pepoch[p.sends] != NONE) & p.kept[p.sends]]
    sends = sends[~p.has(Flag.UNKNOWN_PARTITION)[sends] & (p.outcome[sends] != Outcome.FAIL)]
    if not (p.context.complete and len(sends) and len(p.final)):
        return Found(0)
    sends = sends[order_by(p.process[sends], p.pid[sends], p.pepoch[sends])]
    session = np.cumsum(firsts(p.process[sends], p.pid[sends], p.pepoch[sends]))
    stored = p.among(sends, p.final)
    # By this session, not by another that sent the record, too.
    taken = stored & (p.done[sends] | p.sole[np.searchsorted(p.sends, sends)])
    later = len(sends) - 1 - last_upto(taken[::-1])[::-1]  # the next one that it stored
    there = later < len(sends)
    there[there] = session[later[there]] == session[there]
    gap = ~stored & there & ~superseded(p, sends)
    lost = sends[gap]
    deleted = p.may_be_deleted(p.stored_at[np.searchsorted(p.sends, lost)])
    unknown = clause(Clause.UNKNOWN, p.process[lost])
    clauses = np.where(deleted | compaction_is_vague(p, lost), unknown, p.may_be_lost(lost))
    return Found(len(sends), witness(lost, sends[later[gap]]), clauses)


@check(
    "P5",
    "idempotence ends with the session",
    found="record{s} that two sessions sent {is} stored twice",
    formula="v sent in two sessions and read at o ≠ o′ ⇒ told, and no breach",
    needs="READS SENDS numbered.pid numbered.pepoch",
    looks_at="records that were sent in more than one session",
    uses="outcome pid pepoch",
)
def stored_by_two_sessions(p: Partition) -> list[Found]:
    """A broker knows a record again only inside one session; whoever sends it anew stores it anew.

    A process is at least one session, and so is each producer id and epoch that it tells. What is
    found is information and never called violated: L2 holds the sender to one call.
    """
    sends = p.sends
    sends = sends[order_by(p.id[sends], p.process[sends], p.pid[sends], p.pepoch[sends], sends)]
    sends = sends[firsts(p.id[sends], p.process[sends], p.pid[sends], p.pepoch[sends])]
    again = np.flatnonzero(~firsts(p.id[sends]))
    again = again[np.unique(p.id[sends[again]], return_index=True)[1]]
    reads = p.reads[np.isin(p.id[p.reads], p.id[sends[again]])]
    reads = reads[order_by(p.id[reads], p.offset[reads], reads)]
    reads = reads[firsts(p.id[reads], p.offset[reads])]
    twice = np.flatnonzero(~firsts(p.id[reads]))
    twice = twice[np.unique(p.id[reads[twice]], return_index=True)[1]]
    at = again[np.searchsorted(p.id[sends[again]], p.id[reads[twice]])]
    found = witness(sends[at - 1], reads[twice - 1], sends[at], reads[twice])
    return [Found(len(again), found, clause(Clause.SESSION, p.process[found[:, 0]]))]
