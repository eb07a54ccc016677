"""Judges a run of Kafka: by the spec's rules, and after a known rejection by Kafka's."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen

from chaos.recorders.kafka_lines import AgentLinesError, Recorded, read_lines
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recorders.kafka_steps import ContradictingLinesError, KafkaPartition
from chaos.recording import REPLICATION
from properties.kafka.known import Known, read_known
from properties.tla.errors import InputError
from properties.tla.specs import SpecTree
from properties.tla.tracecheck import TraceVerdict, validate_all
from properties.tla.tracefile import Trace, TraceEvent

#: What every state must keep while a run goes on by Kafka's rules. LogMatching is left out: its
#: cost is the square of a log's length.
PROMISES = ("CommittedInIsr", "HighWatermarkInLog", "OneLeaderPerEpoch", "PartitionEpochBehind")


@frozen
class Explained:
    """A rejection, and the row that explains it."""

    verdict: TraceVerdict
    known: Known


@define
class JudgedPartition:
    """One partition: what was rejected, and the promise that breaks by Kafka's rules."""

    partition: KafkaPartition
    trace: Trace
    verdict: TraceVerdict = field(init=False)
    explained: list[Explained] = field(factory=list[Explained])
    broken: TraceVerdict | None = None

    @property
    def rejections(self) -> list[TraceVerdict]:
        """The steps that TLC rejects, in order; the last one may be unexplained."""
        last = [] if self.verdict.accepted else [self.verdict]
        return [*(one.verdict for one in self.explained), *last]

    @property
    def unexplained(self) -> bool:
        """True if TLC rejects a step for no reason that is known."""
        return not self.verdict.accepted


@frozen
class JudgedRun:
    """A run: its partitions, and those that cannot be judged, with the reason."""

    recorded: Recorded
    partitions: Sequence[JudgedPartition]
    unjudged: Mapping[str, str]

    @property
    def explained(self) -> bool:
        """True if every rejection is explained."""
        return not any(one.unexplained for one in self.partitions)


def judge(folder: Path, tree: SpecTree) -> JudgedRun:
    """Merge the agents' files of a folder, and ask TLC about every partition."""
    try:
        recorded = read_lines(folder)
        recorder = merged(recorded)
    except (AgentLinesError, ContradictingLinesError) as wrong:
        raise InputError(str(wrong)) from None
    judged = [JudgedPartition(one, trace(one, recorded.name, folder)) for one in recorder.all]
    if not judged:
        raise InputError(f"{folder}: no partition was created while the agents wrote")
    _judge(judged, tree)
    return JudgedRun(recorded, judged, recorder.unjudged)


def merged(recorded: Recorded) -> KafkaRecorder:
    """The steps of all partitions."""
    recorder = KafkaRecorder()
    for line in recorded.lines:
        try:
            recorder.take(line)
        except KeyError as wrong:
            raise AgentLinesError(f"{line['at']}: {wrong} is not known here") from None
    return recorder


def constants(partition: KafkaPartition) -> dict[str, Any]:
    """The spec's constants for a partition: our rules, and no bound."""
    return {**REPLICATION, "N": len(partition.numbers)}


def trace(partition: KafkaPartition, run: str, folder: Path) -> Trace:
    """A partition's steps as a trace."""
    steps = [
        TraceEvent(number, event.action, event.params, event.after)
        for number, event in enumerate(partition.trace.events(run), start=1)
    ]
    subject = partition.trace.subject
    return Trace(folder, run, partition.trace.spec, subject, constants(partition), steps)


def _judge(judged: Sequence[JudgedPartition], tree: SpecTree) -> None:
    known = read_known()
    for one, verdict in zip(judged, validate_all([one.trace for one in judged], tree), strict=True):
        one.verdict = verdict
        while not one.verdict.accepted and _goes_on(one, known, tree):
            pass
    deviating = [one for one in judged if one.explained]
    kept = validate_all([one.verdict.trace for one in deviating], tree, PROMISES)
    for one, verdict in zip(deviating, kept, strict=True):
        if verdict.promise:
            one.broken = verdict


def _goes_on(one: JudgedPartition, known: Sequence[Known], tree: SpecTree) -> bool:
    """Explain the rejection and judge again by Kafka's rule; False if nothing explains it."""
    rejected = one.verdict
    for row in known:
        if not row.explains(rejected):
            continue
        rules = row.applied(rejected.trace.constants or {})
        (verdict,) = validate_all([evolve(rejected.trace, constants=rules)], tree)
        if verdict.accepted or verdict.event > rejected.event:
            one.explained.append(Explained(rejected, row))
            one.verdict = verdict
            return True
    return False


def as_json(one: JudgedPartition) -> dict[str, object]:
    """A partition's verdict for programs."""
    partition, broken = one.partition, one.broken
    times = [event.at_ms * 1_000_000 for event in partition.trace.events("")]

    def found(verdict: TraceVerdict) -> dict[str, object]:
        at_ns = partition.began_ns + times[verdict.event - 1]
        return {"step": verdict.event, "at_ns": at_ns, "why": verdict.why}

    return {
        "subject": one.trace.subject,
        "steps": len(one.trace.events),
        "accepted": one.verdict.accepted and not one.explained,
        "explained": [
            {"name": explained.known.name, **found(explained.verdict)}
            for explained in one.explained
        ],
        "unexplained": found(one.verdict) if one.unexplained else None,
        "broken": {"promise": broken.promise, "step": broken.event} if broken else None,
        "ended": partition.ended,
        "inferred": dict(partition.inferred),
        "no_step": dict(partition.no_step),
    }
