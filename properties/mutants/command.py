"""`highwater mutants`: put known bugs in, and show which check kills each."""

from collections.abc import Mapping
from pathlib import Path

import click
from attrs import asdict
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid

from properties.mutants import guards, spec_command
from properties.mutants import matrix as matrices
from properties.mutants.automatic import automatic, watched
from properties.mutants.catalogue import Mutant, catalogue, stale
from properties.mutants.matrix import COLUMNS, Matrix
from properties.tla import InputError
from properties.tla.errors import Unusable
from refimpl.outputs import json_option, write_json


@click.command()
@click.argument("names", nargs=-1, metavar="[MUTANT]...")
@click.option(
    "--matrix",
    is_flag=True,
    help="Ask every check about every mutant, and about the guards of the specs as well.",
)
@click.option(
    "--only",
    type=click.Choice(["machines", "guards"]),
    help="Of the matrix: only the machines' mutants, or only the specs' guards; of these all, or "
    "those whose names begin with one of the arguments: a module, or Module.Action.",
)
@click.option("--update", is_flag=True, help="Keep the matrix that is found as what is expected.")
@click.option("--list", "listed", is_flag=True, help="Name the mutants, and what is wrong.")
@click.option(
    "--auto",
    is_flag=True,
    help="Instead of known bugs every small mutant of the machines and of the node, or of those "
    "functions whose names hold one of the arguments. What was done before is not done again.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="With --auto: ask the tests alone, and neither conformance nor the simulator.",
)
@click.option(
    "--sample",
    metavar="N",
    type=click.IntRange(min=1),
    help="With --auto: of each file only so many, drawn by --seed.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the sample.")
@json_option("Write what became of each mutant")
@click.option(
    "--promises",
    "of_promises",
    is_flag=True,
    help="Instead of the machines' bugs every small mutant of the specs' promises, or of those of "
    "the modules that the arguments name. What was asked before is not asked again.",
)
@click.option(
    "--specs",
    "of_specs",
    is_flag=True,
    help="Instead of the machines' bugs every small mutant of the specs, or of the modules that "
    "the arguments name. What was asked before is not asked again.",
)
def mutants(
    names: tuple[str, ...],
    matrix: bool,
    only: str | None,
    update: bool,
    listed: bool,
    auto: bool,
    quick: bool,
    sample: int | None,
    seed: int,
    json_file: Path | None,
    of_specs: bool,
    of_promises: bool,
) -> None:
    """Put known bugs in and show that each is found.

    Each mutant of the machines is asked of the cheapest check that is known to find it. With
    --matrix every check is asked, each guard of the specs is dropped in turn as well, and some
    verdict must change; the kill matrix must be the one that is kept: a mutant that lives is a
    difference, and so is one that is killed by a check that used to miss it. Exit code 0: all as
    expected; 1: something differs; 2: bad input or a missing tool.

    With --auto every comparison, boundary, guard, branch and assignment is changed in turn, and the
    gates are asked one after the other until one notices. What none notices must be explained in
    properties/mutants/survivors.toml. Rooms beside the machines and the node, such as
    refimpl.storage, chaos.oracles or traces.checks, are asked if they are named, by tests
    alone.

    With --specs every conjunct of the specs' actions is dropped, every comparison shifted and every
    assignment left out, and some promise must notice, or the machines' conformance. What none
    notices must be explained in properties/mutants/spec_survivors.toml.

    With --promises every promise is weakened in turn, and some row that broke it must not do so any
    more. What none notices must be explained in properties/mutants/promise_survivors.toml.
    """
    console = Console()
    if of_specs or of_promises:
        noticed = spec_command.of_specs(names, listed, update, json_file, console, of_promises)
        if of_promises and update:  # the table of rates is there as well
            matrices.PAGE.write_text(matrices.page(Matrix.read()), encoding="utf-8")
        if not noticed:
            raise SystemExit(1)
        return
    if auto:
        drawn = (sample, seed) if sample else None
        if not automatic(names, listed, quick, drawn, json_file, console):
            raise SystemExit(1)
        return
    known = catalogue()
    if listed:
        for mutant in known.values():
            told = f"{mutant.name}: {mutant.why} {mutant.kafka}".rstrip()
            console.print(told, highlight=False, soft_wrap=True)
        write_json(json_file, [{"name": one.name, "why": one.why} for one in known.values()])
        return
    try:
        if not (matrix or only or update):
            wrong = _gate(_chosen(names, known), json_file, console)
        else:
            found = _recomputed(names, known, only, console)
            _show(found, console)
            write_json(json_file, asdict(found))
            if update:
                _keep(found, console)
            wrong = _judged(found, console, names=bool(names))
    except InputError as error:
        raise Unusable(str(error)) from None
    if wrong:
        raise SystemExit(1)


def _gate(chosen: list[Mutant], json_file: Path | None, console: Console) -> bool:
    """Ask about each mutant until it is found; whether anything is not as expected."""
    results = matrices.first_killers(chosen, Matrix.read())
    found = list(watched(results, len(chosen), "mutants of the machines", console))
    write_json(
        json_file,
        [{"name": one.name, "killers": one.killers, "cpu_s": one.cpu_s} for one in found],
    )
    wrong = [line for result in found for line in matrices.missed(result)]
    for line in wrong:
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    killed = sum(bool(result.killers) for result in found)
    console.print(
        f"{len(chosen)} mutants: {killed} killed, {len(chosen) - len(found)} known to be "
        f"equivalent, {len(found) - killed} alive; "
        f"{sum(result.cpu_s for result in found):.0f} CPU s",
        highlight=False,
        soft_wrap=True,
    )
    return bool(wrong)


def _chosen(names: tuple[str, ...], known: Mapping[str, Mutant]) -> list[Mutant]:
    for name in names:
        if name not in known:
            raise InputError(f"no mutant {name!r}; `highwater mutants --list` names them all")
    chosen = [known[name] for name in names or known]
    if wrong := stale(chosen):
        raise InputError("\n".join(wrong))
    return chosen


def _recomputed(
    names: tuple[str, ...], known: Mapping[str, Mutant], only: str | None, console: Console
) -> Matrix:
    found = Matrix()
    if only != "guards":
        chosen = _chosen(names, known)
        rows = matrices.machine_rows(chosen)
        found.machines.update(watched(rows, len(chosen), "mutants of the machines", console))
    if only == "guards" or not (only or names):
        dropped = matrices.all_guards(names)
        rows = matrices.guard_rows(dropped)
        found.guards.update(watched(rows, len(dropped), "guards of the specs", console))
    return found


def _show(found: Matrix, console: Console) -> None:
    if found.machines:
        grid = Grid(box=SIMPLE)
        grid.add_column(no_wrap=True)
        for column in COLUMNS:
            grid.add_column(column, justify="center", max_width=10)
        for name, row in found.machines.items():
            grid.add_row(name, *("✓" if row[column] else "–" for column in COLUMNS))
        grid.add_section()
        totals = matrices.totals(found.machines)
        grid.add_row("killed", *(str(totals[column]) for column in COLUMNS))
        console.print(grid)
    caught = sum(map(guards.tells, found.guards.values()))
    if found.guards:
        console.print(f"{caught} of {len(found.guards)} dropped guards change a verdict")


def _keep(found: Matrix, console: Console) -> None:
    kept = Matrix.read()
    known = catalogue()
    machines = {
        name: {**kept.machines, **found.machines}[name]
        for name in known
        if name in kept.machines or name in found.machines
    }
    judged = {n: why for n, why in found.guards.items() if why is None or guards.tells(why)}
    of_guards = {**kept.guards, **judged}
    there = [guard.name for guard in matrices.all_guards()]
    merged = Matrix(machines, {name: of_guards[name] for name in there if name in of_guards})
    merged.write()
    matrices.PAGE.write_text(matrices.page(merged), encoding="utf-8")
    console.print(f"written: verdicts.toml of each module and docs/{matrices.PAGE.name}")


def _judged(found: Matrix, console: Console, names: bool) -> bool:
    """Say everything that is not as it should be; whether there was anything."""
    expected = Matrix.read()
    wrong = matrices.differences(expected, found)
    wrong += [f"{name}: lives" for name in found.survivors()]
    wrong += [f"{name}: is said to be equivalent, and is killed" for name in found.revived()]
    if not names:
        gone = expected.machines.keys() - found.machines.keys() if found.machines else set[str]()
        gone |= expected.guards.keys() - found.guards.keys() if found.guards else set[str]()
        wrong += [f"{name}: in the matrix, and nowhere else" for name in sorted(gone)]
    for one in wrong:
        console.print(one, style="red", highlight=False, markup=False, soft_wrap=True)
    if wrong:
        console.print(
            "see it again: highwater mutants --matrix [MUTANT]", highlight=False, markup=False
        )
    asked = len(found.machines) + len(found.guards)
    killed = sum(any(row.values()) for row in found.machines.values())
    killed += sum(map(guards.tells, found.guards.values()))
    lives = len(found.survivors())
    console.print(
        f"{asked} mutants: {killed} killed, {asked - killed - lives} known to be equivalent, "
        f"{lives} alive; {len(wrong)} differences from the matrix",
        highlight=False,
        soft_wrap=True,
    )
    return bool(wrong)
