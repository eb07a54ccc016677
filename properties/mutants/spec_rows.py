"""One row of a table, asked about the mutants of its module's rules or promises.

All mutants of a module are in one text (`spec_mutants`), and one JVM explores them one after the
other (`spec/java/Mutants.java`), which computes once what they have in common. For promises about
whole behaviours, TLC checks each mutant by itself. Answers are kept in the cache.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
from attrs import asdict, evolve, field, frozen

from properties.mutants.promise_mutants import PromiseMutant, joined_promises, mutated_promise
from properties.mutants.spec_mutants import (
    SpecMutant,
    joined_text,
    mutated_text,
    source,
    stands_on,
)
from properties.tla import InputError, SpecTree, tools
from properties.tla.checker import Status
from properties.tla.processes import Finished, run
from properties.tla.specs import ModelConfig, cache_folder
from properties.tla.tlc import Tlc, jvm
from properties.tla.verdicts import ExpectedVerdict, Purpose, Table

#: Of one row: the CPU seconds after which no mutant is begun, and those after which all ends.
BEGIN_S, LIMIT_S = 120.0, 240.0
#: The states after which a mutant is left, beyond twice those that the spec has.
MOST_STATES = 30_000
#: The states to go through from which it pays to compile better.
LONG = 200_000
#: Changes with what is asked of a row: answers of before count no longer.
EDITION = "4"
HEAP_MB = 3072
NO_MEANING = "TLC: the spec has no meaning"
ANOTHER_GRAPH = "conformance"
#: A row that breaks the changed promise as well, but not as soon, or sooner.
ANOTHER_LENGTH = "counterexample"


@frozen
class Outcome:
    """The findings of a row about the mutants that it was asked about."""

    found: dict[str, str]
    cpu_s: float
    late: list[str] = field(factory=list[str])
    temporal: bool = False
    holds: bool = False
    """The control breaks nothing here, so nothing was found out."""


@frozen
class Control:
    """A mutant of the rules, in whose spec a promise must break."""

    promise: str
    mutant: SpecMutant


@frozen
class Run:
    """A row, and the mutants that it is asked about; with a control, those of its promise."""

    row: ExpectedVerdict
    mutants: Sequence[SpecMutant]
    table: Table
    tree: SpecTree
    control: Control | None = None

    @property
    def of_promises(self) -> bool:
        return isinstance(self.mutants[0], PromiseMutant)

    @property
    def module(self) -> str:
        return self.table.module

    @property
    def compared(self) -> bool:
        """The machines are compared with this row's graph."""
        return not self.of_promises and self.row.cfg in {
            *self.table.scopes.conform,
            *self.table.scopes.mutants,
        }

    @property
    def broken(self) -> str | None:
        """The property that must break, or none where all hold."""
        if self.control is not None:
            return self.control.promise
        return None if self.row.kind is Purpose.OK else str(self.row.property)

    @property
    def model(self) -> ModelConfig:
        """The row's model; if a property must break, it asks for that one alone."""
        model = ModelConfig.read(self.tree.model(self.module, self.row.cfg))
        if self.broken is None:
            return model
        section = "INVARIANTS" if self.broken in model.invariants else "PROPERTIES"
        kept = model.without("INVARIANTS", "PROPERTIES").sections
        return ModelConfig({**kept, section: self.broken})


def outcome_of(asking: Run, alone: bool = False) -> Outcome:
    """The answers of one row, from the cache or TLC."""
    names = [one.name for one in asking.mutants]
    module, row, tree = asking.module, asking.row, asking.tree
    texts = stands_on(module, tree)
    asked_how = EDITION, MOST_STATES, alone, row.kind.value, asking.compared
    control = asking.control
    changed = () if control is None else (control.promise, control.mutant.name)
    extra = *map(str, asked_how), *names, *texts, *changed
    key = tools.digest([tree.model(module, row.cfg)], *extra, tools.find().key("Mutants"))
    file = cache_folder() / "spec-mutants" / f"{module}-{row.cfg}-{key}.json"
    if file.is_file():
        return Outcome(**orjson.loads(file.read_bytes()))
    outcome = _one_by_one(asking) if alone else _together(asking)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(asdict(outcome)))
    return outcome


def _one_by_one(asking: Run) -> Outcome:
    """Each mutant in a run of its own: a temporal property ends the run that breaks it."""
    outcome = Outcome({}, 0.0)
    for one in asking.mutants:
        scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
        try:
            mutated = SpecTree(scratch / "tla")
            shutil.copytree(asking.tree.root, mutated.root)
            file = mutated.folder(one.module) / f"{one.module}.tla"
            file.write_text(_mutated(one, asking.tree), encoding="utf-8")
            row = asking.row
            answer = Tlc(mutated, HEAP_MB, quick=True).check(one.module, row.cfg, row.seconds)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        outcome = evolve(outcome, cpu_s=outcome.cpu_s + answer.cpu_s)
        if answer.status is Status.PASSED and row.kind is Purpose.BUG:
            outcome.found[one.name] = f"{row.property} holds"
        elif answer.status is Status.VIOLATED and row.kind is Purpose.OK:
            outcome.found[one.name] = str(answer.violated)
        elif answer.status is Status.FAILED:
            outcome.found[one.name] = NO_MEANING
        elif answer.status is Status.TIMED_OUT:
            outcome.late.append(one.name)
    return outcome


@frozen
class _Answer:
    """The answer of `Mutants` about one mutant."""

    end: str
    said: str
    graph: str
    states: int = 0
    length: int = 0


def _together(asking: Run) -> Outcome:
    """All mutants of a row, and the spec itself, as number 0."""
    finished = _explored(asking)
    answers = dict(_answers(finished.output))
    lines = finished.output.splitlines()
    temporal = "temporal" in lines
    if 0 not in answers:
        said = (finished.errors.strip() or finished.output.strip())[-2000:]
        raise InputError(f"{asking.module}/{asking.row.cfg} with mutants: {said}")
    outcome = Outcome({}, finished.cpu_s, temporal=temporal)
    if temporal and asking.row.kind is not Purpose.OK:
        return outcome
    if asking.control is not None and answers[0].end != "broken":
        return evolve(outcome, holds=True)
    _check_original(answers[0], asking)
    for number, one in enumerate(asking.mutants, start=1):
        answer = answers.get(number, _Answer("late", "", ""))
        noticed = _noticed(answer, asking)
        if noticed is not None:
            outcome.found[one.name] = noticed
        if answer.end == "late" and noticed is None:
            outcome.late.append(one.name)
    return outcome


def _noticed(answer: _Answer, asking: Run) -> str | None:
    """A row's finding about a mutant, if any."""
    if answer.end == "meaningless":
        return NO_MEANING
    if asking.broken is not None:
        if answer.end == "kept":
            return f"{asking.broken} holds"
        return _longer(answer, asking) if asking.of_promises else None
    if answer.end == "broken":
        return named(answer.said, asking.model)
    return ANOTHER_GRAPH if asking.compared and answer.graph == "other" else None


def _longer(answer: _Answer, asking: Run) -> str | None:
    """A counterexample of another length than the one that is pinned, or none for long."""
    pinned = asking.row.length
    if pinned is None:
        return None
    if answer.end == "broken" and pinned != answer.length:
        return f"{ANOTHER_LENGTH} {answer.length}, not {pinned}"
    if answer.end == "late" and answer.states > (asking.row.distinct or 0):
        return f"{ANOTHER_LENGTH} of more than {pinned}: none in {answer.states:,} states"
    return None


def _check_original(answer: _Answer, asking: Run) -> None:
    """The spec itself must do as its row says."""
    expected = "kept" if asking.broken is None else "broken"
    if answer.end != expected:
        does = f"is {answer.end}: {answer.said}, expected {expected}"
        raise InputError(f"{asking.module}/{asking.row.cfg}: the spec itself {does}")


def named(said: str, model: ModelConfig) -> str:
    """A promise by the name that the cfg has for it: TLC calls a refinement `Abs!Spec`."""
    known = (*model.invariants, *model.properties)
    if said in known:
        return said
    others = [name for name in model.properties if name.startswith("Refine")] or model.properties
    return others[0]


def _joined(asking: Run) -> str:
    of_promises = [one for one in asking.mutants if isinstance(one, PromiseMutant)]
    if not of_promises:
        return joined_text(asking.mutants, asking.tree)
    if asking.control is None:
        return joined_promises(of_promises, asking.tree)
    return _controlled(of_promises, asking.control.mutant, asking.tree)


def _controlled(mutants: Sequence[PromiseMutant], control: SpecMutant, tree: SpecTree) -> str:
    """The promises' mutants in the text with the control, which moves all that is behind it."""
    text = mutated_text(control, tree)
    longer = len(text) - len(source(control.module, tree))
    behind = [
        evolve(one, start=one.start + longer, end=one.end + longer)
        if one.start > control.start
        else one
        for one in mutants
    ]
    return joined_promises(behind, tree, text)


def _mutated(mutant: SpecMutant, tree: SpecTree) -> str:
    if isinstance(mutant, PromiseMutant):
        return mutated_promise(mutant, tree)
    return mutated_text(mutant, tree)


def _explored(asking: Run) -> Finished:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
    module, tree = asking.module, asking.tree
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        folder = mutated.folder(module)
        text = _joined(asking)
        (folder / f"{module}.tla").write_text(text, encoding="utf-8")
        config = folder / "Watched.cfg"
        sections = asking.model.sections.items()
        config.write_text("".join(f"{key}\n  {body}\n" for key, body in sections))
        numbers = ",".join(str(number + 1) for number in range(len(asking.mutants)))
        states = asking.row.distinct or 0
        most = MOST_STATES + 2 * states
        short = states * len(asking.mutants) < LONG
        command = [
            *jvm(mutated, scratch, HEAP_MB, quick=short),
            "Mutants",
            module,
            str(config),
            numbers,
            str(BEGIN_S),
            str(most),
        ]
        return run(command, folder, LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _answers(output: str) -> Iterator[tuple[int, _Answer]]:
    for line in output.splitlines():
        if line[:1].isdigit():
            number, end, said, graph, states, length = line.split("\t")
            yield int(number), _Answer(end, said, graph, int(states), int(length))
