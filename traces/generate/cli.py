"""`highwater generate`: make a trace in which it is known what is wrong."""

import errno
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from traces.generate.catalogue import ANOMALIES
from traces.generate.lines import write_lines
from traces.generate.plan import Plan
from traces.generate.schedule import NoRoom, plan_of
from traces.generate.small import small_run, write_small
from traces.generate.write import Generated, write_parquet
from traces.model.output import (
    Refusal,
    number_of,
    progress,
    result,
    standard_output,
    staying,
    write_json,
)

FORMATS = {"ndjson": write_lines, "parquet": write_parquet}
FEWEST_ROWS = 20_000
"""Fewer rows have no room for a transaction in every generation."""


class Injected(click.ParamType[tuple[str, int]]):
    """The name of an anomaly, and how often it is wanted: `duplicate` or `duplicate:3`."""

    name = "anomaly"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        """The name and the number."""
        name, _, count = str(value).partition(":")
        if name not in ANOMALIES:
            self.fail(f"no anomaly is called {name!r}; --list names all", param, ctx)
        if count and not (count.isdecimal() and int(count)):
            self.fail(f"expected a number above 0 behind {name}:, found {count!r}", param, ctx)
        return name, int(count or 1)


@click.command("generate", short_help="Make a trace of any size with known anomalies.")
@click.argument("out", required=False, type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--rows",
    type=click.FloatRange(FEWEST_ROWS),
    default=1e5,
    show_default=True,
    help="About so many rows of operations; a send or a record that is read is a row.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="One seed is one trace.")
@click.option(
    "--anomalies",
    "each",
    type=click.IntRange(0),
    help="So many of each kind; 0 for a trace that keeps every promise. [default: 1]",
)
@click.option(
    "--anomaly",
    "chosen",
    type=Injected(),
    multiple=True,
    metavar="NAME[:COUNT]",
    help="Only anomalies of this kind; may be given again.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(list(FORMATS)),
    default="ndjson",
    show_default=True,
    help="Trace format v1, a file per process; or the table of operations in Parquet.",
)
@click.option(
    "--small",
    is_flag=True,
    help="Some hundred calls, with one anomaly or none, to read and to judge in no time.",
)
@click.option("--list", "listed", is_flag=True, help="Name the anomalies, and end.")
@result("json", "Write what was injected, or the list, to FILE.")
def generate(
    out: Path | None,
    rows: float,
    seed: int,
    each: int | None,
    chosen: tuple[tuple[str, int], ...],
    kind: str,
    small: bool,
    listed: bool,
    json_file: Path | None,
) -> None:
    """Make a trace of any size, with anomalies of known number and position, to try a checker on.

    OUT is a run, as `highwater check OUT` reads it (or its table, in OUT/ops). OUT/truth.json lists
    the injected anomalies, with the offset and the id of each one's record, and the number of
    findings due from each check. Everything else in the run is correct. For a small run it lists
    the checks that have to find the anomaly, and those that may do so, too.

    Exits with 2 when OUT is there already, or the anomalies do not fit into so few rows.
    """
    if listed:
        _list(json_file)
        return
    if out is None:
        raise click.UsageError("expected a folder to make: OUT")
    if each is not None and chosen:
        raise click.UsageError("--anomalies is of each kind, --anomaly of one: give one of them")
    if out.exists():
        raise click.UsageError(f"{out} is there already")
    if small:
        if each or sum(count for _, count in chosen) > 1 or kind != "ndjson":
            raise click.UsageError("--small makes lines, with one --anomaly or none")
        name, _ = chosen[0] if chosen else (None, 1)
        _make_small(out, seed, name, json_file)
        return
    if absent := [name for name, _ in chosen if ANOMALIES[name].large is None]:
        raise click.UsageError(f"{absent[0]} is made with --small alone")
    plan = plan_of(int(rows), seed, dict(chosen) or (1 if each is None else each))
    made = _make_large(plan, kind, out)
    if json_file:
        write_json(json_file, _summary(made, seed))
    print(f"{out}: {made.rows:,} rows, {number_of(len(made.injected), 'anomaly')}, seed {seed}")


def _make_small(out: Path, seed: int, name: str | None, json_file: Path | None) -> None:
    anomaly = ANOMALIES[name] if name else None
    if anomaly and anomaly.small is None:
        raise click.UsageError(f"{name} is made in large traces alone: leave out --small")
    lines, meta = small_run(seed, anomaly and anomaly.small)
    planted = [anomaly.in_small()] if anomaly else []
    truth = {"seed": seed, "anomalies": planted}
    _whole(out, lambda folder: write_small(folder, lines, meta, truth))
    if json_file:
        write_json(json_file, truth)
    calls = sum(map(len, lines.values()))
    print(f"{out}: {number_of(calls, 'call')}, {number_of(len(planted), 'anomaly')}, seed {seed}")


def _make_large(plan: Plan, kind: str, out: Path) -> Generated:
    try:
        with progress() as bar:
            task = bar.add_task("generating", total=plan.chunks)
            made = Generated(plan, on_chunk=lambda: bar.advance(task))
            _whole(out, lambda folder: FORMATS[kind](made, folder))
    except NoRoom as refusal:
        raise click.UsageError(f"{refusal}, with --rows") from refusal
    return made


def _whole(out: Path, make: Callable[[Path], object]) -> None:
    """Make the trace beside its place and move it there, whole or not at all."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    except OSError as refused:
        raise click.UsageError(f"{out.parent}: {refused.strerror}") from None
    try:
        with staying(beside, out):
            make(beside / "run")
            (beside / "run").rename(out)
    except OSError as refused:
        if refused.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise Refusal(f"{out} is there already") from None
        if refused.filename is not None:
            raise
        raise Refusal(f"{out}: {refused.strerror}") from refused  # of a full disk, no file is named
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _summary(made: Generated, seed: int) -> dict[str, Any]:
    return {
        "rows": made.rows,
        "seed": seed,
        "counts": made.truth,
        "anomalies": made.injected,
    }


def _list(json_file: Path | None) -> None:
    if json_file:
        write_json(
            json_file,
            [
                {
                    "anomaly": one.name,
                    "what": one.summary,
                    "counts": one.large.counts if one.large else None,
                    "small": one.in_small() if one.small else None,
                }
                for one in ANOMALIES.values()
            ],
        )
        return
    table = Table("anomaly", "what", "found by", "made", box=None)
    for one in ANOMALIES.values():
        made = [way for way, is_made in (("large", one.large), ("small", one.small)) if is_made]
        table.add_row(one.name, one.summary, " ".join(one.checks), ", ".join(made))
    standard_output().print(table)
