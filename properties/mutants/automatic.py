"""`highwater mutants --auto`: the generated mutants, how the gates did, and what lives."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from attrs import evolve
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from properties.mutants import auto
from properties.mutants.auto import GateTally, MutantJob, Runners
from properties.mutants.generated import GeneratedMutant
from properties.mutants.suite import CollectedTests, with_suite
from properties.tla import InputError
from properties.tla.errors import Unusable
from refimpl.outputs import write_json

T = TypeVar("T")


def automatic(
    names: tuple[str, ...],
    listed: bool,
    quick: bool,
    sample: tuple[int, int] | None,
    json_file: Path | None,
    console: Console,
) -> bool:
    """Run them, or only list them; whether everything is found or explained.

    With a `sample` only so many of each file, and the seed by which they are drawn.
    """
    try:
        todo = auto.jobs(names)
        if sample:
            todo = auto.sampled(todo, *sample)
        if quick:
            todo = [evolve(job, gates={}) for job in todo]
        if listed:
            for job in todo:
                told = f"{job.mutant.place}: {job.mutant.kind}: {job.mutant.name}"
                console.print(told, highlight=False, markup=False, emoji=False, soft_wrap=True)
            write_json(json_file, [_told(job.mutant) for job in todo])
            return True
        tally = _asked(todo, console)
        stale = [] if names or sample else auto.stale_explanations(job.mutant.name for job in todo)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    _write(tally, json_file)
    _gates(tally, console)
    _files(tally, console)
    return _judged(tally, stale, console)


def _asked(todo: Sequence[MutantJob], console: Console) -> GateTally:
    def asked(suite: CollectedTests) -> GateTally:
        results = auto.run(todo, os.cpu_count() or 1, Runners.seen(suite, todo))
        return auto.tally(todo, watched(results, len(todo), "generated mutants", console))

    folders = [
        folder
        for package, of in auto.TESTS.items()
        if any(job.mutant.function.startswith(package) for job in todo)
        for folder in of
    ]
    return with_suite(folders, asked)


def _told(mutant: GeneratedMutant) -> dict[str, str]:
    return {"place": mutant.place, "kind": mutant.kind, "name": mutant.name}


def _write(tally: GateTally, json_file: Path | None) -> None:
    files = {
        file: {"killed": killed, "alive": alive} for file, (killed, alive) in tally.files.items()
    }
    gates = {
        gate: {"asked": asked, "killed": tally.killed[gate], "cpu_s": tally.cpu_s[gate]}
        for gate, asked in tally.asked.items()
    }
    survivors = [_told(mutant) for mutant in tally.survivors]
    told = {"gates": gates, "files": files, "equivalent": tally.equivalent}
    write_json(json_file, {**told, "survivors": survivors})


def _files(tally: GateTally, console: Console) -> None:
    """The kill rate of each file, without mutants that are known to be equivalent."""
    grid = Grid("file", "mutants", "killed", "rate", box=SIMPLE)
    for column in grid.columns[1:]:
        column.justify = "right"
    for file, (killed, alive) in sorted(tally.files.items()):
        rate = f"{killed / max(1, killed + alive):.1%}"
        grid.add_row(file, f"{killed + alive:,}", f"{killed:,}", rate)
    console.print(grid)


def _gates(tally: GateTally, console: Console) -> None:
    grid = Grid("gate", "asked", "killed", "rate", "CPU s", box=SIMPLE)
    for column in grid.columns[1:]:
        column.justify = "right"
    for gate, asked in tally.asked.items():
        killed = tally.killed[gate]
        grid.add_row(
            gate, f"{asked:,}", f"{killed:,}", f"{killed / asked:.1%}", f"{tally.cpu_s[gate]:,.0f}"
        )
    console.print(grid)


def _judged(tally: GateTally, stale: list[str], console: Console) -> bool:
    """Print the surviving mutants, by file and line, and errors in their explanations."""

    def say(line: str) -> None:
        console.print(line, style="red", highlight=False, markup=False, emoji=False, soft_wrap=True)

    for place, alike in groupby(tally.survivors, lambda mutant: mutant.place):
        for mutant in alike:
            say(f"{place}: lives: {mutant.kind}: {mutant.name}")
    for name in tally.wrongly_explained:
        say(f"{auto.SURVIVORS.name} explains what is found: {name}")
    for name in stale:
        say(f"{auto.SURVIVORS.name} explains what is no mutant any more: {name}")
    found = tally.killed.total()
    console.print(
        f"{found + len(tally.survivors) + tally.equivalent} generated mutants: {found} killed "
        f"({tally.rate:.1%} of those not known to be equivalent), {tally.equivalent} equivalent, "
        f"{len(tally.survivors)} alive",
        highlight=False,
        soft_wrap=True,
    )
    return not (tally.survivors or tally.wrongly_explained or stale)


def watched(rows: Iterable[T], total: int, what: str, console: Console) -> Iterator[T]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    started = time.process_time()
    live = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not live) as progress:
        task = progress.add_task(what, total=total)
        for number, row in enumerate(rows, start=1):
            yield row
            progress.advance(task)
            if not live and number % 10 == 0:
                console.print(f"{number} of {total} {what}", highlight=False)
    spent = time.process_time() - started
    console.print(f"{total} {what}, {spent:.1f} CPU s in this process", highlight=False)
