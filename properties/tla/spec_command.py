"""`highwater spec`: run the models and hold each against its expected verdict."""

import os
from pathlib import Path
from typing import Any

import click
import orjson
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid

from properties.tla import runner
from properties.tla.errors import InputError, Unusable
from properties.tla.progress import watching
from properties.tla.runner import Result
from properties.tla.specs import SpecTree
from properties.tla.tlc import HEAP_MB
from properties.tla.values import to_json
from properties.tla.verdicts import pin


@click.command()
@click.argument("targets", nargs=-1, metavar="[MODULE | MODULE/CFG]...")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Runs at a time.  [default: cores]")
@click.option(
    "--heap-mb",
    type=click.IntRange(64),
    default=HEAP_MB,
    show_default=True,
    help="Memory limit of each run.",
)
@click.option("--update", is_flag=True, help="Pin the figures found, and say what changed.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write outcomes and counterexamples as JSON.",
)
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
def spec(
    targets: tuple[str, ...],
    jobs: int | None,
    heap_mb: int,
    update: bool,
    json_file: Path | None,
    specs: Path | None,
) -> None:
    """Run the TLA+ models and compare with the expected verdicts.

    Each configuration of each module (or only those named) is checked by TLC, and its verdict,
    the property violated, the length of the shortest counterexample, the number of distinct
    states and the depth are compared with the module's verdicts.toml. Exit code 0: all as
    expected; 1: something differs; 2: bad input or a missing tool.
    """
    console = Console()
    tree = SpecTree(specs.resolve()) if specs else SpecTree()
    try:
        results = _run(targets, tree, jobs or os.cpu_count() or 1, heap_mb, console)
        if update:
            results = _update(results, console)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    if json_file is not None:
        json_file.write_bytes(orjson.dumps([_as_json(r) for r in results], option=_PRETTY))
    _report(results, console)
    if any(result.differences for result in results):
        raise SystemExit(1)


_PRETTY = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def _run(
    targets: tuple[str, ...], tree: SpecTree, parallel: int, heap_mb: int, console: Console
) -> list[Result]:
    todo = runner.jobs(targets, tree)
    found: dict[str, Result] = {}
    with watching(console, len(todo)) as watcher:
        for result in runner.run_all(
            todo, tree, parallel, heap_mb, lambda job: watcher.started(job.name)
        ):
            found[result.job.name] = result
            watcher.finished(result.job.name, _line(result))
    return [found[job.name] for job in todo]


def _line(result: Result) -> str:
    outcome = result.outcome
    verdict = " ".join(filter(None, (outcome.status.value, outcome.violated)))
    mark = "DIFFERS" if result.differences else "as expected"
    return f"{result.job.name}: {verdict}, {outcome.cpu_s:.1f} CPU s, {mark}"


def _update(results: list[Result], console: Console) -> list[Result]:
    """Pin the figures of runs with the right verdict: a wrong one never becomes the expected."""
    right = [
        r for r in results if all(d.what not in ("verdict", "property") for d in r.differences)
    ]
    for table in {id(result.job.table): result.job.table for result in right}.values():
        outcomes = {r.job.verdict.cfg: r.outcome for r in right if r.job.table is table}
        for change in pin(table, outcomes):
            console.print(f"pinned {change}", highlight=False, soft_wrap=True)
    return [Result(r.job, r.outcome, ()) if r in right else r for r in results]


def _report(results: list[Result], console: Console) -> None:
    grid = Grid("", "verdict", "length", "distinct", "depth", "CPU s", "reproduces", "", box=SIMPLE)
    for column in grid.columns[2:6]:
        column.justify = "right"
        column.no_wrap = True
    module = ""
    for result in results:
        if result.job.table.module != module:
            module = result.job.table.module
            grid.add_section()
            grid.add_row(f"[bold]{module}[/bold]")
        row, outcome = result.job.verdict, result.outcome
        figures = (outcome.length, outcome.distinct, outcome.depth)
        grid.add_row(
            row.cfg,
            " ".join(filter(None, (outcome.status.value, outcome.violated))),
            *("" if figure is None else f"{figure:,}" for figure in figures),
            f"{outcome.cpu_s:.1f}",
            " ".join(filter(None, (row.kip, row.jira))),
            "[red]✗[/red]" if result.differences else "[green]✓[/green]",
        )
    console.print(grid)
    for result in results:
        if not result.differences:
            continue
        console.print(f"{result.job.name} differs:", style="bold red", soft_wrap=True)
        for difference in result.differences:
            console.print(f"  {difference}", highlight=False, markup=False, soft_wrap=True)
        console.print(f"  see it again: {result.again}", highlight=False, soft_wrap=True)
    wrong = sum(bool(result.differences) for result in results)
    cpu_s = sum(result.outcome.cpu_s for result in results)
    summary = f"{wrong} differ" if wrong else "all as expected"
    console.print(f"{len(results)} verdicts, {summary}, {cpu_s:.1f} CPU s", highlight=False)


def _as_json(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    return {
        "module": result.job.table.module,
        "cfg": result.job.verdict.cfg,
        "as_expected": not result.differences,
        "differences": [str(difference) for difference in result.differences],
        "verdict": outcome.status.value,
        "property": outcome.violated,
        "length": outcome.length,
        "distinct": outcome.distinct,
        "generated": outcome.generated,
        "depth": outcome.depth,
        "cpu_s": round(outcome.cpu_s, 3),
        "wall_s": round(outcome.wall_s, 3),
        "reason": outcome.reason,
        "back_to": outcome.back_to,
        "counterexample": [
            {
                "action": step.action,
                "params": None if step.params is None else _values(step.params),
                "state": _values(step.state),
            }
            for step in outcome.steps
        ],
    }


def _values(values: Any) -> dict[str, Any]:
    return {name: to_json(value) for name, value in values.items()}
