"""`highwater conform`: are the Python machines the specs, edge by edge?"""

import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import click
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from properties.conformance import conformed, scopes
from properties.conformance.discrepancy import FORBIDDEN, Discrepancy
from properties.conformance.report import MethodBudget, ScopeReport, Tick, check
from properties.conformance.scopes import WantedScope
from properties.tla import InputError
from properties.tla.errors import Unusable
from properties.tla.graph import NAMED_STEPS
from properties.tla.guards import load_false_guards
from refimpl.outputs import json_option, write_json


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--scope", "cfgs", multiple=True, metavar="CFG", help="Only this configuration.")
@click.option("--full", is_flag=True, help="The large configurations too: minutes.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the random walks.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=MethodBudget().stroll_steps,
    show_default=True,
    help="Length of the random walks in each scope.",
)
@json_option("Write the figures of every action with its arguments, and all differences")
def conform(
    modules: tuple[str, ...],
    cfgs: tuple[str, ...],
    full: bool,
    seed: int,
    steps: int,
    json_file: Path | None,
) -> None:
    """Prove the Python machines equal to the specs, edge by edge.

    For each configuration the whole state graph is laid out, and the machines must take every step
    that the spec allows, to the same state, and refuse every other without a trace: from each state
    (exhaustive), on random walks, on a tour over all edges without reloading, and driven by
    Hypothesis. Exit code 0: no difference; 1: one is found, and told as the shortest path to it;
    2: bad input or a missing tool.
    """
    console = Console()
    budget = MethodBudget(seed=seed, stroll_steps=steps)
    reports: list[ScopeReport] = []
    try:
        known = scopes.wanted(modules, cfgs)
        todo = scopes.wanted(modules, cfgs, full=full)
        for report in _reports(todo, budget, console):
            _show(report, console)
            reports.append(report)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    write_json(json_file, [report.as_json() for report in reports])
    differences = [one for report in reports for one in report.discrepancies]
    _summary(reports, differences, len(known) - len(todo), console)
    if differences:
        raise SystemExit(1)
    conformed.keep(reports)


def _reports(
    chosen: Sequence[WantedScope], budget: MethodBudget, console: Console
) -> Iterator[ScopeReport]:
    """The scopes in order, one per core at a time; machines are as they are in this process."""
    if len(chosen) == 1:
        with _progress(console, chosen[0].cfg) as tick:
            yield check(chosen[0].load(), budget, tick)
        return
    pool = ProcessPoolExecutor(os.cpu_count(), get_context("fork"))
    try:
        with console.status(f"0 of {len(chosen)} scopes") as status:
            for _ in pool.map(scopes.make_graphs, *zip(*scopes.by_module(chosen), strict=True)):
                pass
            reports = pool.map(partial(_report, budget), chosen)
            for number, report in enumerate(reports, start=1):
                status.update(f"{number} of {len(chosen)} scopes")
                yield report
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _report(budget: MethodBudget, chosen: WantedScope) -> ScopeReport:
    return check(chosen.load(), budget)


@contextmanager
def _progress(console: Console, name: str) -> Generator[Tick]:
    """A live bar on a terminal, silence elsewhere: the table comes when the scope is done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    shown = console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(name)

        def tick(method: str, done: int, total: int) -> None:
            progress.update(task, description=f"{name}: {method}", completed=done, total=total)

        yield tick


def _show(report: ScopeReport, console: Console) -> None:
    """One line per action: how many edges it has, and how many of them each method reached."""
    edges, labels = report.edges, report.labels
    heads = ("bindings", "edges", *(one.method for one in report.found))
    title = f"{report.scope}: {report.states:,} states, {edges.total():,} edges"
    grid = Grid(
        box=SIMPLE,
        title=title,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        collapse_padding=True,
    )
    grid.add_column(no_wrap=True)
    for head in heads:
        grid.add_column(head, justify="right", no_wrap=True)

    def per_action(counts: Counter[int]) -> Counter[str]:
        summed: Counter[str] = Counter()
        for number, count in counts.items():
            summed[labels[number].name] += count
        return summed

    columns = [per_action(edges), *(per_action(one.reached) for one in report.found)]
    for action in dict.fromkeys(label.name for label in labels):
        numbers = [number for number, label in enumerate(labels) if label.name == action]
        live = sum(edges[number] > 0 for number in numbers)
        bindings = f"{live}/{len(numbers)}"
        grid.add_row(action, bindings, *(f"{column[action]:,}" for column in columns))
    grid.add_section()
    grid.add_row("CPU s", "", "", *(f"{one.cpu_s:.1f}" for one in report.found))
    speeds = (f"{one.edges / one.cpu_s:,.0f}" if one.cpu_s else "" for one in report.found)
    grid.add_row("edges/CPU s", "", "", *speeds)
    if any(one.refusals for one in report.found):
        grid.add_row("refusals by name", "", "", *(f"{one.refusals:,}" for one in report.found))
    found = ("1" if one.discrepancy else "0" for one in report.found)
    grid.add_row("discrepancies", "", "", *found)
    console.print(grid)


def _summary(
    reports: Sequence[ScopeReport], differences: Sequence[Discrepancy], large: int, console: Console
) -> None:
    if differences:
        shortest = min(differences, key=lambda one: len(one.path))
        module, _, cfg = shortest.scope.partition("/")
        console.print(f"\nThe machines and {module}.tla differ:", style="bold red")
        console.print(shortest.story(), highlight=False, markup=False, soft_wrap=True)
        for guard in _false_guards(shortest, reports):
            console.print(f"  false guard: {guard}", highlight=False, markup=False, soft_wrap=True)
        console.print(f"see it again: highwater conform {module} --scope {cfg}", highlight=False)
    edges = sum(report.edges.total() for report in reports)
    reached = sum(report.found[0].edges for report in reports)
    found = [one for report in reports for one in report.found]
    cpu_s = sum(one.cpu_s for one in found)
    speed = sum(one.edges for one in found) / cpu_s if cpu_s else 0.0
    console.print(
        f"{len(reports)} scopes, {edges:,} edges, {reached:,} of them reproduced, "
        f"{len(differences)} discrepancies, {cpu_s:.1f} CPU s, {speed:,.0f} edges/CPU s "
        "by all methods together" + (f"; left to --full: {large}" if large else ""),
        highlight=False,
        soft_wrap=True,
    )


def _false_guards(found: Discrepancy, reports: Sequence[ScopeReport]) -> tuple[str, ...]:
    """The guards that forbid a step that the machines take; none if their search takes too long."""
    if found.at is None or found.spec != FORBIDDEN:
        return ()
    report = next(report for report in reports if report.scope == found.scope)
    if report.edges.total() > NAMED_STEPS:
        return ()
    module, _, cfg = found.scope.split(" ")[0].partition("/")
    return load_false_guards(module, cfg).of(*found.at)
