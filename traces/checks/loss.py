"""Nothing that was acknowledged is lost, nothing comes out that did not go in."""

import numpy as np
from attrs import evolve

from traces.checks.base import LOSS, Found, check, witness
from traces.checks.compaction import compaction_is_vague, superseded
from traces.checks.partition import Partition
from traces.model.columns import firsts, lookup
from traces.model.context import Clause, Ints, clause
from traces.model.schema import NONE, Flag, Outcome


@check(
    "L3",
    "nothing acknowledged is missing below what was read",
    found="acknowledged record{s} {was} passed over by readers and given to nobody",
    formula="(v, o) acknowledged, o′ ≥ o read, o ≥ log start ⇒ v was read",
    needs="SENDS acked.offset TXNS proof COMPACTED",
    closed="complete final READS STARTS compacted.whole",
    spec="DurableIsr!AckedSurvives",
    unless=LOSS,
    kinds="lost-write",
    uses="compacted.key",
)
def lost_below_frontier(p: Partition) -> list[Found]:
    """A reader passed the offset of an acknowledged record, and nobody was ever given it."""
    sure = p.done[p.sends] & p.kept[p.sends]
    kept, offset = p.sends[sure], p.stored_at[sure]
    frontier = p.offset[p.delivered].max(initial=NONE)
    below = (offset >= p.kept_from) & (offset != NONE) & (offset <= frontier)
    lost = below & ~p.among(kept, p.delivered) & ~superseded(p, kept)
    found = _losses(p, kept, kept[lost], "lost-write")
    return [evolve(found, clause=p.unless_read(found.clause, kept[lost]))]


@check(
    "L4",
    "everything acknowledged is in the log at the end",
    found="acknowledged record{s} {is} missing from the log at the end",
    formula="(v, o) acknowledged, the final scan reached the end ⇒ v in the scan",
    needs="SENDS TXNS proof COMPACTED",
    closed="complete final FINAL STARTS compacted.whole",
    spec="DurableIsr!AckedSurvives",
    unless=LOSS,
    kinds="unseen",
    uses="compacted.key",
)
def lost_at_the_end(p: Partition) -> list[Found]:
    """After all is over, the final scan lacks a record whose sender was told that it is safe."""
    kept = p.sends[(p.outcome[p.sends] == Outcome.OK) & p.kept[p.sends]]
    kept = kept[~p.has(Flag.UNKNOWN_PARTITION)[kept]]
    retained = (p.offset[kept] == NONE) | (p.offset[kept] >= p.kept_from)
    final = p.delivered if p.context.jepsen else p.final
    lost = retained & ~p.among(kept, final) & ~superseded(p, kept)
    return [_losses(p, kept, kept[lost], "unseen")]


def _losses(p: Partition, promised: Ints, lost: Ints, kind: str) -> Found:
    """Each loss with what is read at its offset, if anything is."""
    if not len(lost):
        return Found(len(promised), kind=kind)
    reads = p.reads[np.argsort(p.offset[p.reads], kind="stable")]
    reads = reads[firsts(p.offset[reads])]
    at = lookup(p.offset[reads], p.offset[lost])
    instead = np.where(at >= 0, reads[at] if len(reads) else NONE, NONE)
    deleted = p.may_be_deleted(p.offset[lost])
    unknown = clause(Clause.UNKNOWN, p.process[lost])
    clauses = np.where(deleted | compaction_is_vague(p, lost), unknown, p.may_be_lost(lost))
    return Found(len(promised), witness(lost, instead), clauses, kind)


@check(
    "L5",
    "nothing is read that nobody sent",
    found="record{s} {was} read that nobody sent",
    formula="v read ⇒ some send of v to this partition was attempted",
    needs="READS acked.partition",
    closed="send.topic send.id producers producers.whole",
    kinds="phantom-read",
    uses="",
)
def phantoms(p: Partition) -> list[Found]:
    """A record came out of the log that no client ever tried to put in.

    A sender that was not recorded may have put it there, if the topic has such senders.
    """
    unsent = p.reads[~p.among(p.reads, p.sends)]
    one = unsent[np.unique(p.id[unsent], return_index=True)[1]]
    clauses = clause(Clause.UNKNOWN, p.process[one]) if p.strangers else one * 0
    return [Found(len(p.reads), witness(one), clauses, "phantom-read")]


@check(
    "L6",
    "a send that certainly failed has no effect",
    found="record{s} {was} read whose send had certainly failed",
    formula="every send of v failed ⇒ v was read by nobody",
    needs="READS any_read acked.partition",
    closed="send.topic send.id producers producers.whole",
    kinds="G1a",
    uses="",
)
def failed_but_read(p: Partition) -> list[Found]:
    """The client said *certainly not stored*, and yet somebody was given the record."""
    outcome = p.outcome[p.sends]
    failed, other = p.sends[outcome == Outcome.FAIL], p.sends[outcome != Outcome.FAIL]
    failed = failed[~p.among(failed, other)]
    failed = failed[np.unique(p.id[failed], return_index=True)[1]]
    read = p.first_about(p.reads)[p.record[failed]]
    found = witness(failed[read >= 0], read[read >= 0])
    return [Found(len(p.sends), found, p.unless_sent(found[:, 0]), "G1a")]
