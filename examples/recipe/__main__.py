"""Play the no-loss recipe, with each step and each pair of steps left out, under each fault.

    python -m examples.recipe [--jobs 6] [--row acks --row retries]

What was played is kept in results.json beside this file, and an interrupted run goes on there.
`make recipe` also builds docs/recipe.md from it.
"""

import multiprocessing
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.recipe.faults import FAULTS
from examples.recipe.page import title
from examples.recipe.playing import Outcome, play, quietly
from examples.recipe.results import Results
from examples.recipe.steps import STEPS, Row, rows

RUNS_EACH = 24
"""A process plays no more: clients of brokers that are gone go on looking for them."""


@click.command()
@click.option("--jobs", default=6, show_default=True, help="Runs at once: most of them wait.")
@click.option("--row", "chosen", multiple=True, type=click.Choice(list(STEPS)), help="Leave out.")
def main(jobs: int, chosen: tuple[str, ...]) -> None:
    """Play what has not been played yet; exit code 1 if a promise is broken."""
    if len(chosen) > 2:
        raise click.UsageError("expected --row at most twice")
    row = tuple(name for name in STEPS if name in chosen)
    wanted = [(row, fault) for row in ([row] if chosen else rows()) for fault in FAULTS]
    results = Results()
    try:
        results.load()
    except ValueError as damaged:
        raise click.UsageError(str(damaged)) from None
    if failed := _play_all(results, [one for one in wanted if one not in results.cells], jobs):
        click.echo("\n".join(failed), err=True)
        click.echo("Run it again: it goes on with these.", err=True)
        sys.exit(3)
    done = [results.cells[one] for one in wanted]
    for one in done:
        click.echo(f"{title(one.row)} | {one.fault}: {', '.join(one.words) or 'well'}")
    broken = [one for one in done if one.verdict == "violated"]
    for one in broken:
        click.echo(f"{title(one.row)} | {one.fault}: violated: {one.findings}", err=True)
    sys.exit(1 if broken else 0)


def _play_all(results: Results, left: list[tuple[Row, str]], jobs: int) -> list[str]:
    """Play what is left, and keep it; answers which runs came to no end, and why."""
    failed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("recipe", total=len(left))
        for begin in range(0, len(left), jobs * RUNS_EACH):
            for name, answer in _play(left[begin : begin + jobs * RUNS_EACH], jobs):
                progress.advance(task)
                if isinstance(answer, Outcome):
                    results.keep(answer)
                    results.write()
                else:
                    failed.append(f"{name}: {type(answer).__name__}: {answer}")
    return failed


def _play(batch: list[tuple[Row, str]], jobs: int) -> Iterator[tuple[Any, Any]]:
    """Each cell with its outcome, or with what went wrong, as they come to their ends."""
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), quietly) as pool:
        runs = {pool.submit(play, *one): one for one in batch}
        try:
            for run in as_completed(runs):
                yield runs[run], run.exception() or run.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


if __name__ == "__main__":
    main()
