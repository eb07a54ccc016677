"""Which promise of a spec notices each of its mutants.

One run of TLC per configuration, for all mutants at once (`spec_mutants`). A promise that a state
or a step breaks is written down with the number of the mutant, whose states are left alone from
then on. Of each that breaks none it is asked whether it has a step that the spec does not have, or
has fewer: then its graph is another one, and the machines, which are compared with that graph edge
by edge, differ from it (`highwater conform`). That says less than a promise, and is told apart.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from attrs import asdict, field, frozen

from properties.mutants.spec_mutants import SpecMutant, joined_text, source, spec_mutants
from properties.tla import InputError, SpecTree, tools
from properties.tla.processes import Finished
from properties.tla.report import Report
from properties.tla.specs import Config, cache_folder
from properties.tla.tlc import Tlc
from properties.tla.verdicts import Kind, Table, load

LIMIT_S = 900.0
HEAP_MB = 3072
DONE = 0
#: More levels than any graph has: behind them all, what was counted is told.
DEEPER = 300
NO_MEANING = "TLC: the spec has no meaning"
ANOTHER_GRAPH = "conformance"


@frozen
class Verdict:
    """By which configuration a mutant is noticed, and what notices it; None by nothing."""

    cfg: str
    by: str

    @property
    def by_promise(self) -> bool:
        return self.by not in (ANOTHER_GRAPH, NO_MEANING)

    def __str__(self) -> str:
        return f"{self.cfg}: {self.by}"


@frozen
class Trials:
    """What became of the mutants of one module, in its order."""

    module: str
    found: Mapping[str, Verdict] = field(factory=dict[str, Verdict])
    alive: tuple[str, ...] = ()
    cpu_s: float = 0.0


def judged(module: str, tree: SpecTree | None = None) -> Trials:
    """The verdict on every mutant of a module, from the cache or from TLC."""
    tree = tree or SpecTree()
    table, mutants = load(module, tree), _asked(module, tree)
    compared = {*table.scopes.conform, *table.scopes.mutants}
    found: dict[str, Verdict] = {}
    cpu_s = 0.0
    for cfg in _configurations(table):
        left = [one for one in mutants if one.name not in found or not found[one.name].by_promise]
        if not left:
            break
        outcome = _kept(module, cfg, left, tree)
        cpu_s += outcome.cpu_s
        for name, by in outcome.found.items():
            if by == ANOTHER_GRAPH and cfg not in compared:
                continue  # a count that no machine is compared with
            if name not in found or by not in (ANOTHER_GRAPH, NO_MEANING):
                found[name] = Verdict(cfg, by)
    alive = tuple(one.name for one in mutants if one.name not in found)
    names = [one.name for one in mutants if one.name in found]
    return Trials(module, {name: found[name] for name in names}, alive, cpu_s)


def _asked(module: str, tree: SpecTree) -> list[SpecMutant]:
    """Without those of a bound: that is no rule, and without it there may be no end."""
    bounds = load(module, tree).guards.bounds
    return [one for one in spec_mutants(module, tree) if one.old not in bounds]


def _configurations(table: Table) -> list[str]:
    """Those that pass, and have something to break: small ones first."""
    rows = [row for row in table.verdicts if row.kind is Kind.OK and "live" not in row.cfg]
    return [row.cfg for row in sorted(rows, key=lambda row: row.distinct or 0)]


# ----------------------------------------------------------------------------- one run of TLC


@frozen
class _Outcome:
    found: dict[str, str]
    cpu_s: float


def _kept(module: str, cfg: str, mutants: Sequence[SpecMutant], tree: SpecTree) -> _Outcome:
    names = [one.name for one in mutants]
    files = [*tree.closure(module), tree.model(module, cfg), Path(__file__)]
    key = tools.digest(files, *names, tools.find().key())
    file = cache_folder() / "spec-mutants" / f"{module}-{cfg}-{key}.json"
    if file.is_file():
        return _Outcome(**orjson.loads(file.read_bytes()))
    outcome = _run(module, cfg, mutants, tree)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(orjson.dumps(asdict(outcome)))
    return outcome


def _run(module: str, cfg: str, mutants: Sequence[SpecMutant], tree: SpecTree) -> _Outcome:
    """Ask TLC, again without each mutant in which an expression has no value."""
    found: dict[str, str] = {}
    cpu_s, asked = 0.0, set(range(1, len(mutants) + 1))
    while asked:
        finished, report = _tlc(module, cfg, mutants, asked, tree)
        cpu_s += finished.cpu_s
        for number, name in sorted(
            _noted(finished.output), key=lambda one: one[1] == ANOTHER_GRAPH
        ):
            found.setdefault(mutants[number - 1].name, name)
        if finished.code == DONE:
            for number in _another_graph(finished.output, asked):
                found.setdefault(mutants[number - 1].name, ANOTHER_GRAPH)
            break
        blamed = _blamed(finished.output)
        if blamed not in asked or finished.timed_out:
            raise InputError(f"{module}/{cfg} with mutants: {_reason(finished, report)}")
        found.setdefault(mutants[blamed - 1].name, NO_MEANING)
        asked -= {number for number in asked if mutants[number - 1].name in found}
    return _Outcome(found, cpu_s)


def _tlc(
    module: str, cfg: str, mutants: Sequence[SpecMutant], asked: set[int], tree: SpecTree
) -> tuple[Finished, Report]:
    scratch = Path(tempfile.mkdtemp(prefix="highwater-mutants-"))
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        folder = mutated.folder(module)
        original = source(module, tree).replace(f"MODULE {module} ", "MODULE Original ", 1)
        (folder / "Original.tla").write_text(original, encoding="utf-8")
        (folder / f"{module}.tla").write_text(joined_text(mutants, tree), encoding="utf-8")
        model = Config.read(tree.model(module, cfg))
        watching = _watching(module, model, mutants, asked, tree)
        (folder / "Watched.tla").write_text(watching, encoding="utf-8")
        constants = model.sections["CONSTANTS"]
        config = folder / "Watched.cfg"
        config.write_text(
            f"CONSTANTS\n  {constants}\nSPECIFICATION WatchedSpec\n"
            "INVARIANT W_Watch\nCONSTRAINT W_Unnoticed\nACTION_CONSTRAINT W_WatchStep\n",
            encoding="utf-8",
        )
        return Tlc(mutated, HEAP_MB, quick=False).run(folder, "Watched", config, LIMIT_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _watching(
    module: str, model: Config, mutants: Sequence[SpecMutant], asked: set[int], tree: SpecTree
) -> str:
    """The module that runs all mutants side by side; 0 is the spec itself."""
    steps = {name: _step(module, name, tree) for name in model.properties}
    lines = [
        f"---- MODULE Watched ----\nEXTENDS {module}, TLC\nVARIABLE tick",
        f"W_Last == {len(mutants) + 1}",
        f"W_Asked == {{0, {', '.join(map(str, sorted(asked)))}}}",
        "ASSUME TLCSet(1, {}) /\\ TLCSet(2, 0 - 1) /\\ TLCSet(3, {})",
        "ASSUME \\A m \\in W_Asked : TLCSet(10 + m, 0)",
        "W_Note(name) == TLCSet(1, TLCGet(1) \\cup {mutant})"
        ' /\\ PrintT(<<"noticed", mutant, name>>)',
        "W_Unnoticed == mutant \\notin TLCGet(1)",
        "W_Start == tick = 0 /\\ Init /\\ mutant \\in W_Asked \\cup {W_Last}",
        'W_Told(m) == m \\in W_Asked => PrintT(<<"steps", m, TLCGet(10 + m)>>)',
        "W_At == IF mutant = TLCGet(2) THEN TRUE ELSE W_Told(TLCGet(2)) /\\ TLCSet(2, mutant)"
        ' /\\ PrintT(<<"at", mutant>>)',
        "W_Go == W_At /\\ mutant' = mutant /\\"
        f" IF mutant = W_Last THEN tick < {DEEPER} /\\ tick' = tick + 1 /\\ UNCHANGED vars"
        " ELSE tick' = 0 /\\ (Next \\/ UNCHANGED vars)",
        "WatchedSpec == W_Start /\\ [][W_Go]_<<vars, mutant, tick>>",
        "W_Watch ==\n    /\\ TRUE",
        *(f'    /\\ W_Unnoticed => ({name} \\/ W_Note("{name}"))' for name in model.invariants),
        *(f"{name}Step == {step}" for name, step in steps.items()),
        "W_Count == mutant # W_Last => TLCSet(10 + mutant, TLCGet(10 + mutant) + 1)",
        "Spec0 == INSTANCE Original",
        "W_Differs == TLCSet(3, TLCGet(3) \\cup {mutant})"
        f' /\\ PrintT(<<"noticed", mutant, "{ANOTHER_GRAPH}">>)',
        "W_WatchStep ==\n    /\\ W_Count",
        "    /\\ mutant \\notin TLCGet(3) \\cup {0, W_Last} =>"
        " (Spec0!Next \\/ UNCHANGED vars \\/ W_Differs)",
        *(f'    /\\ W_Unnoticed => ({name}Step \\/ W_Note("{name}"))' for name in steps),
        "====\n",
    ]
    return "\n".join(lines)


_BODY = r"(.*?)(?=^\w+(\([^)]*\))? ==|^\(\*|^-{4}|^={4}|\Z)"


def _step(module: str, name: str, tree: SpecTree) -> str:
    """What a promise about steps says of one: `[A]_v` of `[][A]_v`, with or without `Init`."""
    text = (tree.folder(module) / f"{module}.tla").read_text(encoding="utf-8")
    body = re.search(rf"^{name} =={_BODY}", text, re.MULTILINE | re.DOTALL)
    if body is None:
        raise InputError(f"{module}: {name} is not defined in the module itself")
    said = " ".join(body[1].split()).removeprefix("Init /\\ ")
    if said.startswith("Abs!"):
        return _in_abs_log(_step("AbsLog", said.removeprefix("Abs!"), tree))
    seen = re.fullmatch(r"\[\]\[(.*)\]_(<<.*>>|\w+)", said)
    if seen is None:
        raise InputError(f"{module}: {name} does not say something about every step: {said}")
    return f"(({seen[1]}) \\/ UNCHANGED {seen[2]})"


def _in_abs_log(step: str) -> str:
    """The same where the module's instance of AbsLog is meant; its variables are expressions."""
    named = re.sub(r"\b(Evolves|Grows)\b", r"Abs!\1", step)
    return re.sub(r"UNCHANGED (\w+)", r"(Abs!\1)' = Abs!\1", named)


def _noted(output: str) -> Iterator[tuple[int, str]]:
    for number, name in re.findall(r'<<\s*"noticed",\s*(\d+),\s*"(\w+)"\s*>>', output):
        if number != "0":
            yield int(number), name
        else:
            raise InputError(f"the spec itself breaks {name}")


def _another_graph(output: str, asked: set[int]) -> list[int]:
    """The mutants with more or fewer steps than the spec, in the last count that was told."""
    told = re.findall(r'<<"steps", (\d+), (\d+)>>', output)
    steps = {int(mutant): int(number) for mutant, number in told}
    return [number for number in sorted(asked) if steps.get(number) != steps[0]]


def _blamed(output: str) -> int:
    """The mutant whose states TLC looked at when it stopped."""
    found = re.findall(r'<<"at", (\d+)>>', output)
    return int(found[-1]) if found else 0


def _reason(finished: Finished, report: Report) -> str:
    del report
    return (finished.errors.strip() or finished.output.strip())[-2000:]
