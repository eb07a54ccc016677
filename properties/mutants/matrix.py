"""The kill matrix: which check finds which mutant. Kept as a file, recomputed, compared."""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

from attrs import field, frozen

from properties.conformance.conformed import conformed
from properties.modules.descriptor import module, modules
from properties.mutants import forked, guards, methods, spec_command
from properties.mutants.catalogue import FOLDER, Mutant, applied, catalogue
from properties.mutants.forked import Gate, GateAnswer, Kept, MutantResult, Trial, unbroken
from properties.mutants.guards import Guard
from properties.tla import InputError
from properties.tla.processes import stop_all
from properties.tla.specs import CHECKOUT, SpecTree
from properties.tla.verdicts import Table, load, pin_mutants

PAGE = CHECKOUT / "docs" / "mutants.md"
SAMPLES = FOLDER.parent / "samples.toml"

METHODS: dict[str, Gate] = {
    "exhaustive": methods.by_exhaustion,
    "walk": methods.by_walk,
    "tour": methods.by_tour,
    "Hypothesis": methods.by_hypothesis,
    "chaos": methods.by_chaos,
}
TRACES = "TLC on traces"
COLUMNS = (*METHODS, TRACES)

Row: TypeAlias = dict[str, bool]
#: The sources of the machines' rows: the code, the specs, and the mutants themselves.
ROOMS = "refimpl", "chaos", "spec", "properties", *sorted(FOLDER.glob("*.toml"))


@frozen
class Matrix:
    """The methods that kill each mutant, and the verdict that detects each dropped guard."""

    machines: dict[str, Row] = field(factory=dict[str, Row])
    guards: dict[str, str | None] = field(factory=dict[str, str | None])

    @classmethod
    def read(cls) -> "Matrix":
        """The expected results: `[mutants]` and `[guards.missed]` of every `verdicts.toml`."""
        tables = _tables()
        expected = {name: killers for table in tables for name, killers in table.mutants.items()}
        machines = {
            name: {column: column in expected[name] for column in COLUMNS}
            for name in [*catalogue(), *expected]
            if name in expected
        }
        guards: dict[str, str | None] = dict.fromkeys(equivalent_guards())
        for table in tables:
            guards |= {f"{table.module}.{place}": why for place, why in table.guards.missed.items()}
        known = [guard.name for guard in all_guards()]
        return cls(machines, {name: guards[name] for name in [*known, *guards] if name in guards})

    def write(self) -> None:
        """Make this the expected result. A mutant of several modules is kept with the first."""
        known = catalogue()
        for table in _tables():
            killers = {
                name: [column for column in COLUMNS if row[column]]
                for name, row in self.machines.items()
                if known[name].modules[0] == table.module
            }
            missed = {
                name.removeprefix(f"{table.module}."): why
                for name, why in self.guards.items()
                if why is not None and name.startswith(f"{table.module}.")
            }
            pin_mutants(table, killers, missed)

    def survivors(self) -> list[str]:
        """The mutants that survive everything and are not known to be equivalent."""
        mutants, equivalent = catalogue(), equivalent_guards()
        machines = [n for n, row in self.machines.items() if not any(row.values())]
        living = [name for name, why in self.guards.items() if why is None]
        return [name for name in machines if not mutants[name].equivalent] + [
            name for name in living if name not in equivalent
        ]

    def revived(self) -> list[str]:
        """The mutants that are declared equivalent and were killed."""
        mutants, equivalent = catalogue(), equivalent_guards()
        return [
            name
            for name, row in self.machines.items()
            if mutants[name].equivalent and any(row.values())
        ] + [name for name, why in self.guards.items() if guards.tells(why) and name in equivalent]


def differences(expected: Matrix, found: Matrix) -> list[str]:
    """Every cell in which the two are not the same, as a sentence."""
    return [*_machines(expected, found), *_guards(expected, found)]


def _machines(expected: Matrix, found: Matrix) -> Iterator[str]:
    for name, row in found.machines.items():
        known = expected.machines.get(name)
        if known is None:
            yield f"{name}: not in the matrix"
            continue
        for method in row:
            if row[method] and not known.get(method):
                yield f"{name}: killed by {method}, which used to miss it"
            elif known.get(method) and not row[method]:
                yield f"{name}: no longer killed by {method}"


def _guards(expected: Matrix, found: Matrix) -> Iterator[str]:
    equivalent = equivalent_guards()
    for name, why in found.guards.items():
        if name not in expected.guards:
            yield f"{name}: not in the matrix"
        elif why is not None and not guards.tells(why) and name in equivalent:
            continue  # what is argued stays so
        elif expected.guards[name] != why:
            yield f"{name}: {expected.guards[name] or 'missed by nothing'} -> {why or 'nothing'}"


def machine_rows(mutants: Sequence[Mutant]) -> Iterator[tuple[str, Row]]:
    """The rows of the Python mutants, one by one; TLC's column comes first, for all at once."""
    rejected = methods.by_traces(mutants)
    trials = [_trial(mutant, METHODS, thorough=True) for mutant in mutants]
    kept = Kept.of("matrix", dict.fromkeys(METHODS, ROOMS))
    for result in forked.run(trials, kept, os.cpu_count() or 1, methods.prepare):
        row = {name: name in result.killers for name in METHODS}
        yield result.name, {**row, TRACES: result.name in rejected}


def first_killers(mutants: Sequence[Mutant], expected: Matrix) -> Iterator[MutantResult]:
    """The gate: each mutant is asked of the checks that are expected to find it, until one does.

    One that no check is expected to find is for the whole matrix to try.
    """
    trials = [
        _trial(mutant, {name: METHODS[name] for name in METHODS if row[name]})
        for mutant in mutants
        if any((row := expected.machines.get(mutant.name, _ANY)).values())
    ]
    kept = Kept.of("gate", dict.fromkeys(METHODS, ROOMS))
    _keep_what_conforms({name for trial in trials for name in trial.modules}, kept)
    yield from forked.run(trials, kept, os.cpu_count() or 1, methods.prepare)


def _keep_what_conforms(names: Iterable[str], kept: Kept) -> None:
    """Without a mutant two gates ask what `highwater conform` asks, so its answer is theirs."""
    shown, known = conformed(), kept.read()
    for name in names:
        scopes = module(name).table().scopes
        asked = {"exhaustive": scopes.mutants, "tour": scopes.tour}
        before = known.get(unbroken([name]), MutantResult(unbroken([name])))
        answers = {
            gate: GateAnswer(found=False, cpu_s=0.0)
            for gate, cfgs in asked.items()
            if shown.issuperset((f"{name}/{cfg}", gate) for cfg in cfgs)
        }
        kept.add(MutantResult(before.name, answers), before)


def missed(result: MutantResult) -> Iterator[str]:
    """The gate's unexpected results, as sentences."""
    for name in result.asked:
        if name not in result.killers:
            yield f"{result.name}: no longer killed by {name}"
    if not result.killers:
        yield f"{result.name}: lives"


_ANY: Row = dict.fromkeys(METHODS, True)


def _trial(mutant: Mutant, gates: Mapping[str, Gate], *, thorough: bool = False) -> Trial:
    return Trial(mutant.name, partial(applied, mutant), mutant.modules, gates, thorough)


def kills(method: Gate, mutant: Mutant) -> bool:
    """True if a method finds this bug."""
    with applied(mutant):
        return bool(method(mutant.modules))


def guard_rows(found: Sequence[Guard]) -> Iterator[tuple[str, str | None]]:
    """The detector of each dropped guard, in order; TLC runs once per core."""
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        names = [guard.name for guard in found]
        yield from zip(names, pool.map(guards.remembered, found), strict=True)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        stop_all()


def all_guards(wanted: Sequence[str] = ()) -> list[Guard]:
    """The guards of all modules that are rules, not bounds, where some configuration is asked.

    With `wanted` only those whose name begins with one of these. Raises `InputError` if none does.
    """
    known = [
        guard
        for table in _tables()
        if table.scopes.guards
        for guard in guards.guards(table.module)
        if guard.text not in table.guards.bounds
    ]
    found = [guard for guard in known if not wanted or guard.name.startswith(tuple(wanted))]
    if not found:
        raise InputError(f"no guard's name begins with {' or '.join(wanted)}")
    return found


def _tables() -> list[Table]:
    """The tables of modules with machines, and of modules that compose them."""
    tree = SpecTree()
    return [load(name, tree) for name in dict.fromkeys((*modules(), *tree.modules()))]


def equivalent_guards() -> dict[str, str]:
    """The guards that may go, by their full name, and why."""
    return {
        f"{table.module}.{place}": why
        for table in _tables()
        if table.scopes.guards
        for place, why in table.guards.equivalent.items()
    }


def page(matrix: Matrix) -> str:
    """The matrix as a page of the docs."""
    parts = (
        *(_head(matrix), _machine_table(matrix), _samples(), _promises()),
        _guard_table(matrix),
    )
    return "\n".join([line for part in parts for line in part]) + "\n"


def _head(matrix: Matrix) -> Iterator[str]:
    killed = sum(any(row.values()) for row in matrix.machines.values())
    caught = sum(map(guards.tells, matrix.guards.values()))
    yield "# Mutants: known bugs, and which check finds each"
    yield ""
    yield "Written by `highwater mutants --update`; the figures are held by `highwater mutants`."
    yield ""
    yield (
        f"{killed} of {len(matrix.machines)} mutants of the machines are killed. Dropping a guard "
        f"is detected for {caught} of {len(matrix.guards)} guards of the specs, by a changed "
        "verdict or by conformance. "
        "Survivors are listed with the reason why they equal the original."
    )
    yield ""


def _machine_table(matrix: Matrix) -> Iterator[str]:
    mutants = catalogue()
    yield "## The machines"
    yield ""
    yield f"| mutant | what is wrong | {' | '.join(COLUMNS)} |"
    yield f"|---|---|{'---|' * len(COLUMNS)}"
    for name, row in matrix.machines.items():
        mutant = mutants[name]
        why = mutant.why + (f" ({mutant.kafka})" if mutant.kafka else "")
        if mutant.equivalent:
            why += f" *Equivalent:* {mutant.equivalent}"
        cells = " | ".join("✓" if row[column] else "–" for column in COLUMNS)
        yield f"| `{name}` | {why} | {cells} |"
    yield ""


def _samples() -> Iterator[str]:
    """The samples of generated mutants, as they are kept."""
    yield "## Samples of generated mutants"
    yield ""
    yield (
        "`highwater mutants --auto` changes every comparison, boundary, guard, branch and "
        "assignment of a room; of these a seed draws some of each file. *Killed at first* was by "
        "the tests as they were then; what lived got a test, or a reason in `survivors.toml`."
    )
    yield ""
    yield "| sample | drawn | killed at first | killed now | equivalent | rate |"
    yield "|---|---|---|---|---|---|"
    for one in tomllib.loads(SAMPLES.read_text(encoding="utf-8"))["sample"]:
        drawn, killed, equivalent = one["drawn"], one["killed"], one["equivalent"]
        rate = f"{100 * killed / (drawn - equivalent):.0f} %"
        cells = (f"`{one['asked']}`", drawn, one["killed_at_first"], killed, equivalent, rate)
        yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _promises() -> Iterator[str]:
    yield "## The promises of the specs"
    yield ""
    yield (
        "Each promise is [weakened](promise-mutants.md) in turn, and some row that broke it must "
        "not do so any more."
    )
    yield ""
    yield from spec_command.promise_table(spec_command.known_promises())
    yield ""


def _guard_table(matrix: Matrix) -> Iterator[str]:
    reasons = equivalent_guards()
    yield "## The guards of the specs"
    yield ""
    yield "| guard | dropped, what tells it |"
    yield "|---|---|"
    for name, why in matrix.guards.items():
        told = why or f"nothing: {reasons.get(name, 'not explained')}"
        action, _, text = name.partition(": ")
        yield f"| {action}: `{_escaped(text)}` | {_escaped(told)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def totals(rows: Mapping[str, Row]) -> dict[str, int]:
    """The number of mutants that each method kills."""
    return {name: sum(row[name] for row in rows.values()) for name in COLUMNS}
