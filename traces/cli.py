"""`highwater check`: judge what clients did and saw, promise by promise."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from traces.ingest.run import Run, process_files, read_trace
from traces.problems import BadInput, Problem
from traces.report import BAD_INPUT, Judged, show, write_json
from traces.verdict import VIOLATED


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="PATH…"
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--strict", is_flag=True, help="What the configuration permits is violated, too.")
@click.pass_context
def check(
    ctx: click.Context, paths: tuple[Path, ...], json_file: Path | None, strict: bool
) -> None:
    """Judge recorded runs: is anything lost, doubled, reordered, skipped, made up?

    PATH is the folder of a run in trace format v1, or a folder of such folders. Exits with 0 when
    nothing is violated, 1 when something is, 2 when an input cannot be read.
    """
    console = Console()
    judged = [Judged(path) for path in sorted_runs(paths)]
    with progress(console) as bar:
        _read_all(judged, bar)
        _judge_all([one for one in judged if one.run is not None], strict, bar)
    for one in judged:
        show(console, one)
    if json_file is not None:
        write_json(judged, json_file)
    verdicts = {one.verdict for one in judged}
    ctx.exit(2 if BAD_INPUT in verdicts else 1 if VIOLATED in verdicts else 0)


def sorted_runs(paths: tuple[Path, ...]) -> list[Path]:
    """The runs that these paths name; a path that holds none is an error of the user."""
    runs: list[Path] = []
    for path in paths:
        found = list(runs_in(path))
        if not found:
            raise click.UsageError(
                f"{path}: expected a run folder (with meta.json) or a folder of them"
            )
        runs += found
    return runs


def runs_in(path: Path) -> Iterator[Path]:
    """The run at a path, or the runs right below it."""
    if (path / "meta.json").is_file():
        yield path
    elif path.is_dir():
        for below in sorted(path.iterdir()):
            if (below / "meta.json").is_file() or (below.is_dir() and process_files(below)):
                yield below


@contextmanager
def progress(console: Console) -> Iterator[Progress]:
    """A line that says what is being done, gone when it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar
    _ = console


def _read_all(judged: list[Judged], bar: Progress) -> None:
    for n, one in enumerate(judged, 1):
        task = bar.add_task(f"reading {one.path.name} ({n} of {len(judged)})", total=None)
        try:
            one.run = read_trace(one.path)
        except BadInput as error:
            one.error = error
        except OSError as error:
            what = error.strerror or str(error)
            one.error = BadInput([Problem(str(error.filename or one.path), None, "", what)], 1)
        bar.remove_task(task)


def _judge_all(judged: list[Judged], strict: bool, bar: Progress) -> None:
    if not judged:
        return
    import pyarrow.parquet as pq

    from traces.session import session
    from traces.spark import find, read_ops
    from traces.verdict import judge, tally

    runs: list[Run] = [one.run for one in judged if one.run is not None]
    task = bar.add_task("starting Spark", total=None)
    with tempfile.TemporaryDirectory(prefix="highwater-") as folder, session() as spark:
        rows = 0
        for number, run in enumerate(runs):
            table = run.table(number)
            rows += table.num_rows
            pq.write_table(table, f"{folder}/{number:05}.parquet", compression="zstd")
        bar.update(task, description=f"judging {len(runs)} runs, {rows} rows")
        contexts = {number: run.context for number, run in enumerate(runs)}
        found = [
            row.asDict(recursive=True) for row in find(read_ops(spark, folder), contexts).collect()
        ]
    tallies = tally(found)
    for number, one in enumerate(judged):
        assert one.run is not None
        one.verdicts = judge(one.run, tallies.get(number, {}), strict)
