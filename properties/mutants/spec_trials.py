"""Which property notices each mutant of a spec.

Every configuration of the table says something about a named property: an `ok_` row that it holds,
a `bug_` or `probe_` row that it does not. A mutant is noticed by the row that does not say so any
more. TLC runs once per row, for all mutants at once (`spec_mutants`): what a state or a step breaks
is written down with the number of the mutant, whose states are left alone from then on. Only rows
about liveness are run for each mutant by itself.

Where the machines are compared with a row's graph edge by edge (`highwater conform`), it is also
asked whether a mutant has a step there that the spec does not have, or fewer: then that comparison
fails. It says less than a property, and is told apart. So are rows that were too large to be asked,
or did not come to their end: they say nothing about what they did not notice.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from attrs import asdict, evolve, field, frozen

from properties.mutants.spec_mutants import (
    SpecMutant,
    joined_text,
    mutated_text,
    source,
    spec_mutants,
)
from properties.tla import InputError, SpecTree, tools
from properties.tla.checker import Status
from properties.tla.processes import Finished
from properties.tla.specs import Config, cache_folder
from properties.tla.tlc import Tlc
from properties.tla.verdicts import Kind, Table, Verdict, load

#: CPU seconds of one run, and the states up to which it is begun at all.
LIMIT_S = 300.0
MOST_STATES = 600_000
#: Changes with what is asked of a row: answers of before count no longer.
EDITION = "1"
HEAP_MB = 3072
DONE = 0
#: More levels than any graph has: behind them all, what was counted is told.
DEEPER = 300
NO_MEANING = "TLC: the spec has no meaning"
ANOTHER_GRAPH = "conformance"


@frozen
class Noticed:
    """By which configuration a mutant is noticed, and what it says of it."""

    cfg: str
    by: str

    @property
    def by_property(self) -> bool:
        return self.by != ANOTHER_GRAPH

    def __str__(self) -> str:
        return f"{self.cfg}: {self.by}"


@frozen
class Trials:
    """What became of the mutants of one module, in its order."""

    module: str
    found: Mapping[str, Noticed] = field(factory=dict[str, Noticed])
    alive: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    """The rows that were too large for those that were left, or did not come to their end."""
    cpu_s: float = 0.0


def judged(module: str, tree: SpecTree | None = None) -> Trials:
    """The verdict on every mutant of a module, from the cache or from TLC."""
    tree = tree or SpecTree()
    table, mutants = load(module, tree), _asked(module, tree)
    found: dict[str, Noticed] = {}
    unasked: list[str] = []
    cpu_s = 0.0
    for row in _rows(table, tree):
        left = [one for one in mutants if one.name not in found or not found[one.name].by_property]
        if not left:
            break
        if len(left) * (row.distinct or 0) > MOST_STATES:
            unasked.append(row.cfg)
            continue
        outcome = _kept(row, left, table, tree)
        cpu_s += outcome.cpu_s
        unasked += [] if outcome.finished else [row.cfg]
        for name, by in outcome.found.items():
            if name not in found or by != ANOTHER_GRAPH:
                found[name] = Noticed(row.cfg, by)
    alive = tuple(one.name for one in mutants if one.name not in found)
    names = [one.name for one in mutants if one.name in found]
    return Trials(module, {name: found[name] for name in names}, alive, tuple(unasked), cpu_s)


def _asked(module: str, tree: SpecTree) -> list[SpecMutant]:
    """Without those of a bound: that is no rule, and without it there may be no end."""
    bounds = load(module, tree).guards.bounds
    return [one for one in spec_mutants(module, tree) if one.old not in bounds]


def _rows(table: Table, tree: SpecTree) -> list[Verdict]:
    """The rules as they are first, small ones before large ones, then those with a rule left out.

    Of rows about liveness, which are run mutant by mutant, those that pass, at the end.
    """
    rows = sorted(table.verdicts, key=lambda row: (row.kind is Kind.BUG, row.distinct or 0))
    lasting = [row for row in rows if _is_live(row, table, tree)]
    return [
        *(row for row in rows if row not in lasting),
        *(row for row in lasting if row.kind is Kind.OK),
    ]


def _is_live(row: Verdict, table: Table, tree: SpecTree) -> bool:
    """Whether it promises what no state and no step breaks."""
    model = Config.read(tree.model(table.module, row.cfg))
    try:
        _behaviour(table.module, model, tree)
        for name in model.properties:
            _step(table.module, name, tree)
    except InputError:
        return True
    return False


# ----------------------------------------------------------------------------- one row


@frozen
class _Outcome:
    found: dict[str, str]
    cpu_s: float
    finished: bool = True


def _kept(row: Verdict, mutants: Sequence[SpecMutant], table: Table, tree: SpecTree) -> _Outcome:
    names = [one.name for one in mutants]
    files = [*tree.closure(table.module), tree.model(table.module, row.cfg)]
    key = tools.digest(files, EDITION, row.kind.value, *names, tools.find().key())
    file = cache_folder() / "spec-mutants" / f"{table.module}-{row.cfg}-{key}.json"
    if file.is_file():
        return _Outcome(**orjson.loads(file.read_bytes()))
    if _is_live(row, table, tree):
        outcome = _one_by_one(row, mutants, tree)
    else:
        compared = row.cfg in {*table.scopes.conform, *table.scopes.mutants}
        outcome = _side_by_side(_Run(row, mutants, compared, table.module, tree))
    if outcome.finished:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(orjson.dumps(asdict(outcome)))
    return outcome


def _one_by_one(row: Verdict, mutants: Sequence[SpecMutant], tree: SpecTree) -> _Outcome:
    """Each mutant in a run of its own: a temporal property ends the run that breaks it."""
    outcome = _Outcome({}, 0.0)
    for one in mutants:
        scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
        try:
            mutated = SpecTree(scratch / "tla")
            shutil.copytree(tree.root, mutated.root)
            file = mutated.folder(one.module) / f"{one.module}.tla"
            file.write_text(mutated_text(one, tree), encoding="utf-8")
            answer = Tlc(mutated, HEAP_MB, quick=True).check(one.module, row.cfg, row.seconds)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        outcome = evolve(outcome, cpu_s=outcome.cpu_s + answer.cpu_s)
        if answer.status is Status.VIOLATED:
            outcome.found[one.name] = str(answer.violated)
        elif answer.status is Status.FAILED:
            outcome.found[one.name] = NO_MEANING
        elif answer.status is Status.TIMED_OUT:
            outcome = evolve(outcome, finished=False)
    return outcome


@frozen
class _Run:
    """All mutants in one run of TLC."""

    row: Verdict
    mutants: Sequence[SpecMutant]
    compared: bool
    """The machines are compared with this row's graph."""
    module: str
    tree: SpecTree

    @property
    def watched(self) -> Sequence[str]:
        """The promises of a row that passes; of another the one that it says is broken."""
        model = self.model
        if self.row.kind is Kind.OK:
            return (*model.invariants, *model.properties)
        return (str(self.row.property),)

    @property
    def model(self) -> Config:
        return Config.read(self.tree.model(self.module, self.row.cfg))


def _side_by_side(run: _Run) -> _Outcome:
    """Ask TLC, again without each mutant in which an expression has no value."""
    found: dict[str, str] = {}
    cpu_s, asked = 0.0, set(range(1, len(run.mutants) + 1))
    names = {number: one.name for number, one in enumerate(run.mutants, start=1)}
    broken: dict[int, str] = {}
    while True:
        finished = _tlc(run, asked)
        cpu_s += finished.cpu_s
        for number, name in _noted(finished.output):
            if name != ANOTHER_GRAPH or number not in broken:
                broken[number] = name
        if finished.code == DONE or finished.timed_out:
            break
        blamed = _blamed(finished.output)
        if blamed not in asked:
            said = (finished.errors.strip() or finished.output.strip())[-2000:]
            raise InputError(f"{run.module}/{run.row.cfg} with mutants: {said}")
        found[names[blamed]] = NO_MEANING
        asked -= {blamed, *(number for number, by in broken.items() if by != ANOTHER_GRAPH)}
    ended = not finished.timed_out
    if run.row.kind is Kind.OK:
        _check_original(broken, expected=False, run=run)
        if run.compared and ended:
            for number in _another_graph(finished.output, asked):
                broken.setdefault(number, ANOTHER_GRAPH)
        found |= {names[number]: by for number, by in broken.items() if number}
    elif ended:
        _check_original(broken, expected=True, run=run)
        told = f"{run.row.property} holds"
        found |= {names[number]: told for number in asked - broken.keys()}
    return _Outcome(found, cpu_s, ended)


def _check_original(broken: Mapping[int, str], expected: bool, run: _Run) -> None:
    """The spec itself is asked with its mutants, as number 0, and must do as its row says."""
    if (0 in broken) is not expected:
        does = f"breaks {broken[0]}" if 0 in broken else f"keeps {run.row.property}"
        raise InputError(f"{run.module}/{run.row.cfg}: the spec itself {does}")


def _tlc(run: _Run, asked: set[int]) -> Finished:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
    module, tree = run.module, run.tree
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        folder = mutated.folder(module)
        original = source(module, tree).replace(f"MODULE {module} ", "MODULE Original ", 1)
        (folder / "Original.tla").write_text(original, encoding="utf-8")
        (folder / f"{module}.tla").write_text(joined_text(run.mutants, tree), encoding="utf-8")
        (folder / "Watched.tla").write_text(_watching(run, asked), encoding="utf-8")
        config = folder / "Watched.cfg"
        config.write_text(
            f"CONSTANTS\n  {run.model.sections['CONSTANTS']}\nSPECIFICATION WatchedSpec\n"
            "INVARIANT W_Watch\nCONSTRAINT W_Unnoticed\nACTION_CONSTRAINT W_WatchStep\n",
            encoding="utf-8",
        )
        return Tlc(mutated, HEAP_MB, quick=False).run(folder, "Watched", config, LIMIT_S)[0]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _watching(run: _Run, asked: set[int]) -> str:
    """The module that runs all mutants side by side; 0 is the spec itself."""
    module, tree, model = run.module, run.tree, run.model
    init, step, variables = _behaviour(module, model, tree)
    invariants = [name for name in run.watched if name in model.invariants]
    steps = {n: _step(module, n, tree) for n in run.watched if n in model.properties}
    lines = [
        f"---- MODULE Watched ----\nEXTENDS {module}, TLC\nVARIABLE tick",
        f"W_Last == {len(run.mutants) + 1}",
        f"W_Asked == {{0, {', '.join(map(str, sorted(asked)))}}}",
        "ASSUME TLCSet(1, {}) /\\ TLCSet(2, 0 - 1) /\\ TLCSet(3, {})",
        "W_All == 10 W_Moved == 10000",
        "ASSUME \\A m \\in W_Asked : TLCSet(W_All + m, 0) /\\ TLCSet(W_Moved + m, 0)",
        "W_Note(name) == TLCSet(1, TLCGet(1) \\cup {mutant})"
        ' /\\ PrintT(<<"noticed", mutant, name>>)',
        "W_Unnoticed == mutant \\notin TLCGet(1)",
        f"W_Start == mutant \\in W_Asked \\cup {{W_Last}} /\\ tick = 0 /\\ ({init})",
        "W_Told(m) == m \\in W_Asked =>"
        ' PrintT(<<"steps", m, TLCGet(W_All + m), TLCGet(W_Moved + m)>>)',
        "W_At == IF mutant = TLCGet(2) THEN TRUE ELSE W_Told(TLCGet(2)) /\\ TLCSet(2, mutant)"
        ' /\\ PrintT(<<"at", mutant>>)',
        "W_Go == W_At /\\ mutant' = mutant /\\"
        f" IF mutant = W_Last THEN tick < {DEEPER} /\\ tick' = tick + 1 /\\ UNCHANGED {variables}"
        f" ELSE tick' = 0 /\\ (({step}) \\/ UNCHANGED {variables})",
        f"WatchedSpec == W_Start /\\ [][W_Go]_<<{variables}, mutant, tick>>",
        "W_Watch ==\n    /\\ TRUE",
        *(f'    /\\ W_Unnoticed => ({name} \\/ W_Note("{name}"))' for name in invariants),
        *(f"{name}Step == {said}" for name, said in steps.items()),
        "W_More(of) == TLCSet(of + mutant, TLCGet(of + mutant) + 1)",
        "W_Count == mutant # W_Last =>"
        f" W_More(W_All) /\\ (~UNCHANGED {variables} => W_More(W_Moved))",
        "Spec0 == INSTANCE Original",
        "W_Differs == TLCSet(3, TLCGet(3) \\cup {mutant})"
        f' /\\ PrintT(<<"noticed", mutant, "{ANOTHER_GRAPH}">>)',
        "W_WatchStep ==\n    /\\ W_Count",
        *(
            [
                "    /\\ mutant \\notin TLCGet(3) \\cup {0, W_Last} =>"
                f" (Spec0!{step} \\/ UNCHANGED {variables} \\/ W_Differs)"
            ]
            if run.compared
            else []
        ),
        *(f'    /\\ W_Unnoticed => ({name}Step \\/ W_Note("{name}"))' for name in steps),
        "====\n",
    ]
    return "\n".join(lines)


_STEPS = r"\[\]\[(.*)\]_(<<.*>>|\w+)"


def _behaviour(module: str, model: Config, tree: SpecTree) -> tuple[str, str, str]:
    """What a configuration's SPECIFICATION says: the initial states, the steps, the variables."""
    name = model.sections["SPECIFICATION"]
    said = _definition(module, name, tree)
    seen = re.fullmatch(rf"(.*) /\\ {_STEPS}", said)
    if seen is None:
        raise InputError(f"{module}: {name} is more than initial states and steps: {said}")
    return seen[1], seen[2], seen[3]


_BODY = r"(.*?)(?=^\w+(\([^)]*\))? ==|^\(\*|^-{4}|^={4}|\Z)"


def _definition(module: str, name: str, tree: SpecTree) -> str:
    """The body of a definition of the module, or of what it stands on, in one line."""
    for file in tree.closure(module):
        text = file.read_text(encoding="utf-8")
        body = re.search(rf"^{name} =={_BODY}", text, re.MULTILINE | re.DOTALL)
        if body is not None:
            return " ".join(body[1].split())
    raise InputError(f"{module}: {name} is not defined")


def _step(module: str, name: str, tree: SpecTree) -> str:
    """What a promise about steps says of one: `[A]_v` of `[][A]_v`, with or without `Init`."""
    said = _definition(module, name, tree)
    if instance := re.fullmatch(r"(\w+)!(\w+)", said):
        within = re.match(r"INSTANCE (\w+)", _definition(module, instance[1], tree))
        if within is not None:
            return _step_within(instance[1], _definition(within[1], instance[2], tree), said)
    seen = re.fullmatch(_STEPS, said.removeprefix("Init /\\ "))
    if seen is None:
        raise InputError(f"{module}: {name} does not say something about every step: {said}")
    return f"(({seen[1]}) \\/ UNCHANGED {seen[2]})"


def _step_within(instance: str, body: str, said: str) -> str:
    """The same where the definition is of another module's instance, by names alone."""
    seen = re.fullmatch(r"\[\]\[(\w+)\]_(\w+)", body.removeprefix("Init /\\ "))
    if seen is None:
        raise InputError(f"{said} does not say something about every step: {body}")
    stays = f" \\/ ({instance}!vars)' = {instance}!vars" if seen[2] == "vars" else ""
    return f"({instance}!{seen[1]}{stays})"


def _noted(output: str) -> Iterator[tuple[int, str]]:
    for number, name in re.findall(r'<<\s*"noticed",\s*(\d+),\s*"(\w+)"\s*>>', output):
        yield int(number), name


def _another_graph(output: str, asked: set[int]) -> list[int]:
    """The mutants with more or fewer steps than the spec, in the last count that was told."""
    told = re.findall(r'<<"steps", (\d+), (\d+), (\d+)>>', output)
    steps = {int(mutant): (number, moved) for mutant, number, moved in told}
    return [number for number in sorted(asked) if steps.get(number) != steps[0]]


def _blamed(output: str) -> int:
    """The mutant whose states TLC looked at when it stopped."""
    found = re.findall(r'<<"at", (\d+)>>', output)
    return int(found[-1]) if found else 0
