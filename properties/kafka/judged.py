"""Judges a run of Kafka: by the specs' rules, and after a known rejection by Kafka's."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from attrs import define, evolve, field, frozen

from chaos.recorders import kafka_group, kafka_transactions
from chaos.recorders.kafka_group import KafkaGroup
from chaos.recorders.kafka_lines import AgentLinesError, Recorded, read_lines
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recorders.kafka_steps import ContradictingLinesError, KafkaPartition
from chaos.recorders.kafka_transactions import KafkaTransactionalId
from chaos.recording import REPLICATION
from properties.kafka.known import Known, read_known
from properties.modules.transaction_coordinator import TransactionCoordinatorModule
from properties.tla.errors import InputError
from properties.tla.specs import SpecTree
from properties.tla.tracecheck import TraceVerdict, validate_all
from properties.tla.tracefile import Trace, TraceEvent

#: What every state must keep while a run goes on by Kafka's rules. LogMatching is left out: its
#: cost is the square of a log's length.
PROMISES = {
    "Replication": (
        "CommittedInIsr",
        "HighWatermarkInLog",
        "OneLeaderPerEpoch",
        "PartitionEpochBehind",
    ),
    "TransactionCoordinator": (
        "Atomic",
        "ToldTruly",
        "NothingHangs",
        "FencedForCause",
        "FenceIsFinal",
        "MarkersAreTaken",
    ),
    "ConsumerCoordinator": (
        "OneHolder",
        "OnlyHoldersCommit",
        "OnlyMembersAreGiven",
        "AsTheTargetSays",
        "EpochsFollow",
        "LastIsKnown",
        "ReplicatedStays",
    ),
}
Subject: TypeAlias = KafkaPartition | KafkaTransactionalId | KafkaGroup


@frozen
class Explained:
    """A rejection, and the row that explains it."""

    verdict: TraceVerdict
    known: Known


@define
class JudgedSubject:
    """A partition, an id or a group: what was rejected, and the promise that breaks so."""

    subject: Subject
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
    """A run: its subjects, and those that cannot be judged, with the reason."""

    recorded: Recorded
    subjects: Sequence[JudgedSubject]
    unjudged: Mapping[str, str]

    @property
    def partitions(self) -> Sequence[JudgedSubject]:
        """The partitions."""
        return [one for one in self.subjects if isinstance(one.subject, KafkaPartition)]

    @property
    def transactional_ids(self) -> Sequence[JudgedSubject]:
        """The transactional ids."""
        return [one for one in self.subjects if isinstance(one.subject, KafkaTransactionalId)]

    @property
    def groups(self) -> Sequence[JudgedSubject]:
        """The consumer groups."""
        return [one for one in self.subjects if isinstance(one.subject, KafkaGroup)]

    @property
    def explained(self) -> bool:
        """True if every rejection is explained."""
        return not any(one.unexplained for one in self.subjects)


def judge(folder: Path, tree: SpecTree) -> JudgedRun:
    """Merge the agents' files of a folder, and ask TLC about each subject."""
    try:
        recorded = read_lines(folder)
        recorder = merged(recorded)
    except (AgentLinesError, ContradictingLinesError) as wrong:
        raise InputError(str(wrong)) from None
    subjects: list[Subject] = [*recorder.all, *recorder.coordinators.all, *recorder.groups.all]
    told = traces(subjects, recorded.name, folder)
    judged = [JudgedSubject(one, trace) for one, trace in zip(subjects, told, strict=True)]
    if not judged:
        raise InputError(f"{folder}: no partition was created while the agents wrote")
    _judge(judged, tree)
    unjudged = {**recorder.unjudged, **recorder.coordinators.unjudged, **recorder.groups.unjudged}
    return JudgedRun(recorded, judged, {**unjudged, **recorded.without})


def merged(recorded: Recorded) -> KafkaRecorder:
    """The steps of all partitions, transactional ids and groups."""
    recorder = KafkaRecorder()
    for line in recorded.lines:
        try:
            recorder.take(line)
        except KeyError as wrong:
            raise AgentLinesError(f"{line['at']}: {wrong} is not known here") from None
    return recorder


def constants(subjects: Sequence[Subject]) -> Iterator[dict[str, Any]]:
    """The spec's constants for each: our rules, and no bound."""
    ids = [one for one in subjects if isinstance(one, KafkaTransactionalId)]
    groups = [one for one in subjects if isinstance(one, KafkaGroup)]
    of_ids, of_groups = kafka_transactions.alike(ids), kafka_group.alike(groups)
    for one in subjects:
        if isinstance(one, KafkaPartition):
            yield {**REPLICATION, "N": len(one.numbers)}
        elif isinstance(one, KafkaGroup):
            values = next(of_groups)
            one.settle(cast("int", values["M"]), cast("int", values["P"]))
            yield values
        else:
            values = next(of_ids)
            one.settle(cast("int", values["Producers"]))
            yield {**TransactionCoordinatorModule.knobs, **values}


def traces(subjects: Sequence[Subject], run: str, folder: Path) -> Iterator[Trace]:
    """The steps of each as a trace."""
    for one, values in zip(subjects, constants(subjects), strict=True):
        steps = [
            TraceEvent(number, event.action, event.params, event.after)
            for number, event in enumerate(one.trace.events(run), start=1)
        ]
        yield Trace(folder, run, one.trace.spec, one.trace.subject, values, steps)


def _judge(judged: Sequence[JudgedSubject], tree: SpecTree) -> None:
    known = read_known()
    for one, verdict in zip(judged, validate_all([one.trace for one in judged], tree), strict=True):
        one.verdict = verdict
        while not one.verdict.accepted and _goes_on(one, known, tree):
            pass
    deviating = [one for one in judged if one.explained]
    for spec, promises in PROMISES.items():
        those = [one for one in deviating if one.trace.spec == spec]
        kept = validate_all([_promised(one) for one in those], tree, promises)
        for one, verdict in zip(those, kept, strict=True):
            if verdict.promise:
                one.broken = verdict


def _promised(one: JudgedSubject) -> Trace:
    """The steps that must keep the promises: no promise survives the loss of a log."""
    trace, subject = one.verdict.trace, one.subject
    until = subject.before_loss() if isinstance(subject, KafkaPartition) else None
    return evolve(trace, events=trace.events[:until])


def _goes_on(one: JudgedSubject, known: Sequence[Known], tree: SpecTree) -> bool:
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


def as_json(one: JudgedSubject) -> dict[str, object]:
    """The verdict on a subject for programs."""
    subject, broken = one.subject, one.broken
    times = [event.at_ms * 1_000_000 for event in subject.trace.events("")]

    def found(verdict: TraceVerdict) -> dict[str, object]:
        at_ns = subject.began_ns + times[verdict.event - 1]
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
        "ended": subject.ended,
        "inferred": dict(subject.inferred),
        "no_step": dict(subject.no_step),
    }
