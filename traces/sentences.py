"""What was found, counted, in the words of whoever runs the cluster: one sentence per check."""

from collections.abc import Iterable, Mapping
from typing import Final

from traces.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED, Verdict

# {s}, {is}, {was} and {has} follow the count.
FOUND: Final[Mapping[str, str]] = {
    "L1": "offset{s} {was} given to more than one record",
    "L2": "record{s} {is} stored more than once",
    "L3": "acknowledged record{s} {was} passed over by readers and given to nobody",
    "L4": "acknowledged record{s} {is} missing from the log at the end",
    "L5": "record{s} {was} read that nobody sent",
    "L6": "record{s} {was} read whose send had certainly failed",
    "L7": "record{s} {was} read with another payload than was sent",
    "L8": "record{s} {is} stored at another offset than was acknowledged",
    "L9": "record{s} {is} stored before one that had been acknowledged earlier",
    "L10": "record{s} {was} read before the first attempt to send it",
    "L11": "high watermark{s} went back",
    "L12": "leader epoch{s} went back along the log",
    "L13": "log start{s} went back, or a record below was read",
    "L14": "offset{s} {is} different in two replicas",
    "L15": "acknowledged record{s} {was} read and later replaced by another",
    "L16": "quer{y} by time {was} answered with the wrong offset",
    "L17": "append time{s} went back within a leader epoch",
    "L18": "key{s} lost {its} last record to compaction",
    "L19": "record{s} {was} moved, or removed too early, by compaction",
    "L20": "answer{s} about the start or the end of a log went back",
    "P1": "record{s} {is} stored out of the producer's order",
    "P2": "record{s} {is} missing inside a producer's session",
    "P3": "write{s} of a fenced producer {was} acknowledged",
    "P4": "initialisation{s} of a transactional id got no newer epoch",
    "P5": "record{s} that two sessions sent {is} stored twice",
    "P6": "record{s} of a key {is} in the wrong partition",
    "T1": "record{s} of committed transactions {is} missing",
    "T2": "record{s} {was} read as committed before the commit was requested",
    "T3": "read{s} of committed records went past an open transaction",
    "T4": "aborted record{s} {was} read as committed",
    "T5": "record{s} {was} read by the transaction that sent it, before its commit",
    "T6": "circle{s} of transactions that read from each other",
    "T7": "record{s} met another end than the producer was answered",
    "T8": "transaction{s} overlapped another of the same transactional id",
    "T9": "answer{s} about committed offsets contradict{es} the transaction that wrote them",
    "T10": "input record{s} {was} consumed by two committed transactions",
    "T11": "transaction{s} hung longer than {its} time-out",
    "C1": "time{s} a reader skipped a visible record",
    "C2": "time{s} a reader went back",
    "C3": "time{s} reading began elsewhere than told",
    "C4": "record{s} {was} read of partitions that had been taken away or paused",
    "C5": "record{s} {was} read above a follower's high watermark, or skipped at another replica",
    "C6": "reset{s} of a position had no cause",
    "C7": "empty poll{s} {was} out of date",
    "G1": "time{s} a partition had two owners in one generation",
    "G2": "hand-over{s} overlapped",
    "G3": "partition{s} had no owner in a generation that lasted",
    "G4": "commit{s} of an old generation {was} accepted",
    "G5": "committed offset{s} went back",
    "G6": "commit{s} {is} beyond what the group was given",
    "G7": "answer{s} about committed offsets {was} never committed, or had been overwritten",
    "G8": "record{s} below the committed offset {was} not processed",
    "G9": "record{s} {was} delivered again",
    "G10": "new owner{s} began above the committed offset",
    "G11": "commit{s} of a replaced static member {was} accepted",
    "G12": "transaction{s} of a partition's former owner {was} accepted after the new owner's",
    "S1": "record{s} {was} held by two members at a time",
    "S2": "record{s} {was} given out again after a final acknowledgement",
    "S3": "deliver{y} of a share group {was} miscounted",
    "S4": "record{s} of a share group {was} left over",
    "S5": "time{s} a share group's start went back, or it was given what was not committed",
    "A1": "record{s} of a deleted topic came back in a new one of its name",
    "A2": "deleted record{s} {was} there again",
}
_ONE = {"s": "", "is": "is", "was": "was", "has": "has", "its": "its", "y": "y", "es": "s"}
_MANY = {"s": "s", "is": "are", "was": "were", "has": "have", "its": "their", "y": "ies", "es": ""}


def found(check: str, count: int) -> str:
    """So many findings of a check, in words."""
    return f"{count:,} {FOUND[check].format_map(_ONE if count == 1 else _MANY)}"


def sentences(verdicts: Iterable[Verdict]) -> list[str]:
    """What an operator wants to know first: what is violated, then what happened and is allowed."""
    told = list(verdicts)
    lines = [f"{found(v.check, v.broken)}: {_why(v)}." for v in told if v.verdict == VIOLATED]
    lines += [f"{found(v.check, v.count)}: {v.reason}." for v in told if v.verdict == ALLOWED]
    if not lines:
        lines = ["Nothing is violated." if any(v.verdict == HOLDS for v in told) else NOTHING]
    held, unchecked = (sum(v.verdict == said for v in told) for said in (HOLDS, NOT_CHECKED))
    return [*lines, f"{held} promises hold, {unchecked} were not checked."]


NOTHING: Final = "Nothing was checked."


def _why(verdict: Verdict) -> str:
    _, _, why = verdict.reason.partition("; ")
    return why or verdict.reason
