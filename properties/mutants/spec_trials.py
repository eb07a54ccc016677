"""The property that detects each mutant of a spec.

Every configuration of the table makes a claim about a named property: an `ok_` row that it holds, a
`bug_` or `probe_` row that it does not. A row detects a mutant if its claim fails. All mutants of a
module are in one text (`spec_mutants`). One JVM per row explores them one after the other
(`spec/java/Mutants.java`), and computes once what they have in common. For promises about whole
behaviours, TLC checks each mutant by itself.

The mutants of promises (`promise_mutants`) are asked of the rows about what they change, `bug_`
rows first: there a promise that was weakened holds.

If the machines are compared with a row's graph edge by edge (`highwater conform`), a mutant with
another graph fails that comparison. This is weaker than a broken property, so it is reported apart.
A mutant that was not explored to its end is reported apart as well; it shows nothing.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import orjson
from attrs import asdict, define, evolve, field, frozen

from properties.mutants import guards
from properties.mutants.promise_mutants import (
    PromiseMutant,
    joined_promises,
    mutated_promise,
    promise_mutants,
)
from properties.mutants.spec_mutants import (
    SpecMutant,
    joined_text,
    mutated_text,
    source,
    spec_mutants,
    stands_on,
)
from properties.tla import InputError, SpecTree, tools
from properties.tla.checker import Status
from properties.tla.processes import Finished, run
from properties.tla.specs import ModelConfig, cache_folder
from properties.tla.tlc import Tlc, jvm
from properties.tla.twins import promises
from properties.tla.verdicts import ExpectedVerdict, Purpose, Table, load

#: Of one row: the CPU seconds after which no mutant is begun, and those after which all ends.
BEGIN_S, LIMIT_S = 120.0, 240.0
#: The states after which a mutant is left, beyond twice those that the spec has.
MOST_STATES = 30_000
#: Rows with more states than this are asked last, and with more than that not at all.
LARGE, TOO_LARGE = 20_000, 30_000
#: Likewise those that promise something of whole behaviours, where TLC is asked of each by itself.
TOO_LARGE_ALONE = 10_000
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
class Noticed:
    """The configuration that detects a mutant, and its difference."""

    cfg: str
    by: str

    @property
    def by_property(self) -> bool:
        return self.by != ANOTHER_GRAPH and not self.by_length

    @property
    def by_length(self) -> bool:
        """Only the pinned length of a counterexample tells."""
        return self.by.startswith(ANOTHER_LENGTH)

    def __str__(self) -> str:
        return f"{self.cfg}: {self.by}"


@frozen
class Trials:
    """The results of one module's mutants, in its order."""

    module: str
    found: Mapping[str, Noticed] = field(factory=dict[str, Noticed])
    alive: tuple[str, ...] = ()
    unasked: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])
    """The rows that did not come to their end for a mutant that no property notices."""
    cpu_s: float = 0.0

    @property
    def by_property(self) -> Set[str]:
        return {name for name, one in self.found.items() if one.by_property}


def judged(
    module: str,
    tree: SpecTree | None = None,
    before: Trials | None = None,
    of_promises: bool = False,
) -> Trials:
    """The verdict on every mutant of a module's rules or of its promises, from the cache or TLC.

    What noticed a mutant `before` is asked first: most often it still does.
    """
    tree = tree or SpecTree()
    table = load(module, tree)
    mutants = promise_mutants(module, tree) if of_promises else asked(module, tree)
    asking = _Asking(table, tree, mutants)
    if before is not None:
        for row in table.verdicts:
            known = {name for name, by in before.found.items() if by.cfg == row.cfg}
            asking.ask(row, only=known & before.by_property)
    for row in sorted(table.verdicts, key=_turn_of_promises if of_promises else _turn):
        if (row.distinct or 0) <= TOO_LARGE:
            asking.ask(row)
    for row in [*asking.lasting]:
        asking.ask(row, alone=True)
    return asking.trials()


@define
class _Asking:
    """The rows that were asked, and their answers."""

    table: Table
    tree: SpecTree
    mutants: Sequence[SpecMutant]
    found: dict[str, Noticed] = field(factory=dict[str, Noticed])
    late: dict[str, list[str]] = field(factory=dict[str, list[str]])
    lasting: list[ExpectedVerdict] = field(factory=list[ExpectedVerdict])
    """Rows that promise something of whole behaviours."""
    cpu_s: float = 0.0

    def ask(self, row: ExpectedVerdict, only: Set[str] | None = None, alone: bool = False) -> None:
        """Ask a row about the mutants that no property has noticed."""
        left = [one for one in self.mutants if only is None or one.name in only]
        left = [one for one in left if not self._promised(one.name) and self._about(row, one)]
        if not left:
            return
        outcome = _kept(_Run(row, left, self.table, self.tree), alone)
        self.cpu_s += outcome.cpu_s
        alone_too = row.kind is Purpose.OK or isinstance(left[0], PromiseMutant)
        lasting = outcome.temporal and alone_too and row not in self.lasting
        if lasting and (row.distinct or 0) <= TOO_LARGE_ALONE:
            self.lasting.append(row)
        if only is not None:
            outcome = evolve(outcome, late=[])  # they are asked again
        for name in outcome.late:
            self.late.setdefault(name, []).append(row.cfg)
        for name, by in outcome.found.items():
            if name not in self.found or Noticed(row.cfg, by).by_property:
                self.found[name] = Noticed(row.cfg, by)

    def _about(self, row: ExpectedVerdict, mutant: SpecMutant) -> bool:
        """False if the row is about other promises than those that the mutant changes."""
        if not isinstance(mutant, PromiseMutant):
            return True
        if row.kind is not Purpose.OK:
            return row.kind is Purpose.BUG and row.property in mutant.promises
        model = ModelConfig.read(self.tree.model(self.table.module, row.cfg))
        return not mutant.promises.isdisjoint(promises(model))

    def _promised(self, name: str) -> bool:
        return name in self.found and self.found[name].by_property

    def trials(self) -> Trials:
        names = [one.name for one in self.mutants]
        found = {name: self.found[name] for name in names if name in self.found}
        alive = tuple(name for name in names if name not in found)
        owed = {name: rows for name, rows in self.late.items() if not self._promised(name)}
        return Trials(self.table.module, found, alive, owed, self.cpu_s)


def _turn(row: ExpectedVerdict) -> tuple[bool, bool, int]:
    """The rules as they are first, small rows before large ones, then those that lack a rule.

    Then the large ones.
    """
    states = row.distinct or 0
    bug = row.kind is Purpose.BUG
    return not bug and states > LARGE, bug, states


def _turn_of_promises(row: ExpectedVerdict) -> tuple[bool, int]:
    """The rows that break a promise first, small ones before large ones."""
    return row.kind is Purpose.OK, row.distinct or 0


def asked(module: str, tree: SpecTree) -> list[SpecMutant]:
    """Without those of a bound: that is no rule, and without it there may be no end."""
    bounds = load(module, tree).guards.bounds
    text = guards.blanked(source(module, tree))
    counters = set(re.findall(r"^(\w+)\b", "\n".join(bounds), re.MULTILINE))
    counting = {f"{name}' = {name} + 1" for name in counters if _only_counts(name, text)}
    return [one for one in spec_mutants(module, tree) if one.old not in {*bounds, *counting}]


def _only_counts(name: str, text: str) -> bool:
    """True if only a bound reads this variable."""
    read = re.sub(r"UNCHANGED\s*(<<.*?>>|\w+)|^\w+ == <<.*?>>", "", text, flags=re.S | re.M)
    read = re.sub(
        rf"\b{name}' = {name} \+ 1|\b{name} (<|=) \w+|VARIABLES.*?\n\n", "", read, flags=re.S
    )
    return not re.search(rf"\b{name}\b", read)


# ----------------------------------------------------------------------------- one row


@frozen
class _Outcome:
    found: dict[str, str]
    cpu_s: float
    late: list[str] = field(factory=list[str])
    temporal: bool = False


@frozen
class _Run:
    """A row, and the mutants that it is asked about."""

    row: ExpectedVerdict
    mutants: Sequence[SpecMutant]
    table: Table
    tree: SpecTree

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
    def model(self) -> ModelConfig:
        """For a row that does not pass, only the property that it says is broken."""
        model = ModelConfig.read(self.tree.model(self.module, self.row.cfg))
        if self.row.kind is Purpose.OK:
            return model
        section = "INVARIANTS" if self.row.property in model.invariants else "PROPERTIES"
        kept = model.without("INVARIANTS", "PROPERTIES").sections
        return ModelConfig({**kept, section: str(self.row.property)})


def _kept(asking: _Run, alone: bool) -> _Outcome:
    names = [one.name for one in asking.mutants]
    module, row, tree = asking.module, asking.row, asking.tree
    texts = stands_on(module, tree)
    asked_how = EDITION, MOST_STATES, alone, row.kind.value, asking.compared
    extra = *map(str, asked_how), *names, *texts
    key = tools.digest([tree.model(module, row.cfg)], *extra, tools.find().key("Mutants"))
    file = cache_folder() / "spec-mutants" / f"{module}-{row.cfg}-{key}.json"
    if file.is_file():
        return _Outcome(**orjson.loads(file.read_bytes()))
    outcome = _one_by_one(asking) if alone else _together(asking)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(asdict(outcome)))
    return outcome


def _one_by_one(asking: _Run) -> _Outcome:
    """Each mutant in a run of its own: a temporal property ends the run that breaks it."""
    outcome = _Outcome({}, 0.0)
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


def _together(asking: _Run) -> _Outcome:
    """All mutants of a row, and the spec itself, as number 0."""
    finished = _explored(asking)
    answers = dict(_answers(finished.output))
    lines = finished.output.splitlines()
    temporal = "temporal" in lines
    if 0 not in answers:
        said = (finished.errors.strip() or finished.output.strip())[-2000:]
        raise InputError(f"{asking.module}/{asking.row.cfg} with mutants: {said}")
    outcome = _Outcome({}, finished.cpu_s, temporal=temporal)
    if temporal and asking.row.kind is not Purpose.OK:
        return outcome
    _check_original(answers[0], asking)
    for number, one in enumerate(asking.mutants, start=1):
        answer = answers.get(number, _Answer("late", "", ""))
        noticed = _noticed(answer, asking)
        if noticed is not None:
            outcome.found[one.name] = noticed
        if answer.end == "late" and noticed is None:
            outcome.late.append(one.name)
    return outcome


def _noticed(answer: _Answer, asking: _Run) -> str | None:
    """A row's finding about a mutant, if any."""
    if answer.end == "meaningless":
        return NO_MEANING
    if asking.row.kind is not Purpose.OK:
        if answer.end == "kept":
            return f"{asking.row.property} holds"
        return _longer(answer, asking) if asking.of_promises else None
    if answer.end == "broken":
        return named(answer.said, asking.model)
    return ANOTHER_GRAPH if asking.compared and answer.graph == "other" else None


def _longer(answer: _Answer, asking: _Run) -> str | None:
    """A counterexample of another length than the one that is pinned, or none for long."""
    pinned = asking.row.length
    if answer.end == "broken" and pinned not in (None, answer.length):
        return f"{ANOTHER_LENGTH} {answer.length}, not {pinned}"
    if answer.end == "late" and answer.states > (asking.row.distinct or 0):
        return f"{ANOTHER_LENGTH} of more than {pinned}: none in {answer.states:,} states"
    return None


def _check_original(answer: _Answer, asking: _Run) -> None:
    """The spec itself must do as its row says."""
    expected = "kept" if asking.row.kind is Purpose.OK else "broken"
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


def _joined(mutants: Sequence[SpecMutant], tree: SpecTree) -> str:
    of_promises = [one for one in mutants if isinstance(one, PromiseMutant)]
    return joined_promises(of_promises, tree) if of_promises else joined_text(mutants, tree)


def _mutated(mutant: SpecMutant, tree: SpecTree) -> str:
    if isinstance(mutant, PromiseMutant):
        return mutated_promise(mutant, tree)
    return mutated_text(mutant, tree)


def _explored(asking: _Run) -> Finished:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
    module, tree = asking.module, asking.tree
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        folder = mutated.folder(module)
        text = _joined(asking.mutants, tree)
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
