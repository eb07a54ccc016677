"""`highwater spec`: run the models and hold each against its expected verdict."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from properties.tla import spec_report as report
from properties.tla.checker import Status
from properties.tla.diagram import draw
from properties.tla.errors import InputError, Unusable
from properties.tla.progress import watching
from properties.tla.runner import JobResult, ModelJob, Options, jobs, run_all
from properties.tla.specs import SpecTree
from properties.tla.tlc import HEAP_MB
from properties.tla.verdicts import pin, repinned
from refimpl.outputs import FileToWrite, json_option, write_json


@click.command()
@click.argument("targets", nargs=-1, metavar="[MODULE | MODULE/CFG]...")
@click.option(
    "-j", "--jobs", "parallel", type=click.IntRange(1), help="Runs at a time.  [default: cores]"
)
@click.option(
    "--heap-mb",
    type=click.IntRange(64),
    default=HEAP_MB,
    show_default=True,
    help="Memory limit of each run.",
)
@click.option(
    "--story", is_flag=True, help="Tell the counterexample of each violation, step by step."
)
@click.option(
    "--svg", type=FileToWrite(), help="Draw the one counterexample as a sequence diagram."
)
@json_option("Write outcomes and counterexamples")
@click.option("--full", is_flag=True, help="The large configurations too: minutes.")
@click.option("--apalache", is_flag=True, help="Run the symbolic checks too, if it is there.")
@click.option("--update", is_flag=True, help="Pin the figures found, and say what changed.")
@click.option("--because", default="", help="Why pinned figures change; kept beside them.")
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
def spec(
    targets: tuple[str, ...],
    parallel: int | None,
    heap_mb: int,
    story: bool,
    svg: Path | None,
    json_file: Path | None,
    full: bool,
    apalache: bool,
    update: bool,
    because: str,
    specs: Path | None,
) -> None:
    """Run the TLA+ models and compare with the expected verdicts.

    Each configuration of each module (or only those named) is checked by TLC, and its verdict,
    the property violated, the length of the shortest counterexample, the number of distinct
    states and the depth are compared with the module's verdicts.toml. Those that it marks as large
    are run with --full, or when they are named. Exit code 0: all as expected; 1: something
    differs; 2: bad input or a missing tool.
    """
    console = report.console()
    tree = SpecTree(specs.resolve()) if specs else SpecTree()
    explain = story or svg is not None or json_file is not None
    options = Options(tree, parallel or os.cpu_count() or 1, heap_mb, explain)
    try:
        known = jobs(targets, tree, apalache)
        todo = known if full else [job for job in known if _asked(job, targets)]
        results = _run(todo, options, console)
        if update:
            results = _update(results, because, console)
        if svg is not None:
            svg.write_text(_drawing(results), encoding="utf-8")
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    write_json(json_file, [report.as_json(result) for result in results])
    _say(results, story, len(known) - len(todo), console)
    if any(result.differences for result in results):
        raise SystemExit(1)


def _asked(job: ModelJob, targets: Sequence[str]) -> bool:
    """True if a configuration is small, or named."""
    verdict = job.verdict
    return not verdict.full or f"{job.table.module}/{verdict.cfg}" in targets


def _run(todo: Sequence[ModelJob], options: Options, console: Console) -> list[JobResult]:
    found: dict[str, JobResult] = {}
    with watching(console, len(todo)) as watcher:
        for result in run_all(todo, options, lambda job: watcher.started(job.name)):
            found[result.job.name] = result
            watcher.finished(result.job.name, report.line(result))
    return [found[job.name] for job in todo]


def _update(results: list[JobResult], because: str, console: Console) -> list[JobResult]:
    """Pin the figures of runs with the right verdict: a wrong one never becomes the expected.

    A figure that is pinned already changes only for a reason: a promise may have become weaker.
    """
    right = [
        r
        for r in results
        if r.job.apalache is None
        and all(d.what not in ("verdict", "property") for d in r.differences)
    ]
    tables = {result.job.table.path: result.job.table for result in right}
    found = {
        path: {r.job.verdict.cfg: r.outcome for r in right if r.job.table is table}
        for path, table in tables.items()
    }
    changed = [line for path, table in tables.items() for line in repinned(table, found[path])]
    if changed and not because.strip():
        what = "\n  ".join(changed)
        raise InputError(f"pinned figures change only with --because REASON:\n  {what}")
    for path, table in tables.items():
        for change in pin(table, found[path], because.strip()):
            console.print(f"pinned {change}", soft_wrap=True, markup=False)
    return [JobResult(r.job, r.outcome, ()) if r in right else r for r in results]


def _drawing(results: Sequence[JobResult]) -> str:
    violated = [result for result in results if result.outcome.status is Status.VIOLATED]
    if len(violated) != 1:
        raise InputError(
            f"--svg draws one counterexample, and there are {len(violated)}; name the "
            "configuration, for example: highwater spec MODULE/CFG --svg FILE"
        )
    result = violated[0]
    return draw(report.title(result), result.outcome, result.job.table.diagram)


def _say(results: Sequence[JobResult], story: bool, large: int, console: Console) -> None:
    console.print(report.table(results))
    told = [result for result in results if story and result.outcome.status is Status.VIOLATED]
    paragraphs = [report.story(result) for result in told]
    paragraphs += [report.differences(result) for result in results if result.differences]
    paragraphs += [lines] if (lines := report.not_checked(results)) else []
    for lines in paragraphs:
        console.print("\n".join([*lines, ""]), soft_wrap=True, markup=False)
    left = f"; left to --full: {large}" if large else ""
    console.print(report.summary(results) + left, soft_wrap=True, markup=False)
