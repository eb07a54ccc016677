"""`highwater check`: judge what clients did and saw, promise by promise."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from rich.progress import Progress

from traces.checks.catalogue import CHECKS
from traces.commands import options
from traces.commands.options import runs_of
from traces.engines.modes import MODES
from traces.ingest.history import SUB_VIA, Reading
from traces.ingest.inputs import read_input
from traces.ingest.run import read_trace
from traces.model.output import (
    UNWRITABLE,
    progress,
    result,
    standard_output,
    staying,
    write_json,
    write_result,
)
from traces.model.problems import BadInput, Problem
from traces.verdicts.judged import BAD_INPUT, Judged
from traces.verdicts.judging import ENGINES, cache, judge_all
from traces.verdicts.junit import junit
from traces.verdicts.report import show
from traces.verdicts.second import ROWS, SMALL, ask_again
from traces.verdicts.terminal import screen
from traces.verdicts.verdict import ALLOWED, NOT_CHECKED, VIOLATED

FAILURES = ("violated", "allowed")
INCOMPLETE = 4  # is added to the exit code


def _list_checks(json_file: Path | None) -> None:
    """Print every promise; as JSON, with all that its check declares."""
    click.echo("\n".join(f"{check.id:4}{check.title}" for check in CHECKS.values()))
    if json_file is not None:
        listed = [
            {
                "id": check.id,
                "title": check.title,
                "formula": check.formula,
                "allowed_if": check.unless or None,
                "needs": check.needs,
                "cannot_do_without": check.closed,
                "looks_at": check.looks_at,
                "jepsen": check.kinds,
            }
            for check in CHECKS.values()
        ]
        write_json(json_file, {"checks": listed})


@click.command(short_help="Judge recorded client histories, promise by promise.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="PATH…")
@result("json", "Write verdicts, counts and witnesses to FILE.")
@result("html", "Write one page with verdicts, witnesses and plots to FILE.")
@result("junit", "Write the verdicts to FILE as JUnit's XML, for CI systems.")
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Judge in this process, or in Spark; auto takes Spark above two million rows.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="exact",
    show_default=True,
    help="Quick adds up and summarises what no check needs to see together, and looks exactly only "
    "where the sums differ; what it does not cover is not checked. Auto takes it above fifty "
    "million rows.",
)
@click.option(
    "--watch",
    "watched",
    is_flag=True,
    help="Judge a run while it is written, until every process has ended and the final scan was "
    "made, or until Ctrl-C.",
)
@click.option(
    "--until",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --watch: end when nothing has come for so long, too.",
)
@click.option(
    "--recheck/--no-recheck",
    default=None,
    help="Judge each witness again by a second, slow checker.  "
    f"[default: up to {SMALL:,} calls and {ROWS:,} rows]",
)
@click.option("--strict", is_flag=True, help="What the configuration permits is violated, too.")
@click.option(
    "--fail-on",
    type=click.Choice(FAILURES),
    default="violated",
    show_default=True,
    help="Exit with 1 also where something happened that the configuration allows.",
)
@click.option(
    "--allow-incomplete",
    is_flag=True,
    help="Do not add 4 to the exit code where a file is missing, or cannot be read to its end.",
)
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="List all promises that are checked, and exit; with --json, with their formulas.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Tell before that every promise, its witnesses, and what was not checked.",
)
@options.sub_via
@click.option(
    "--ww-deps",
    is_flag=True,
    help="The .edn history may be read with write-write edges. Cycles of such edges are legal in "
    "Kafka, which does not order transactions across partitions, so no verdict depends on it.",
)
@options.cleanup_policy
@click.pass_context
def check(
    ctx: click.Context,
    paths: tuple[Path, ...],
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    engine: str,
    mode: str,
    watched: bool,
    until: float | None,
    recheck: bool | None,
    strict: bool,
    fail_on: str,
    allow_incomplete: bool,
    listed: bool,
    verbose: bool,
    sub_via: str | None,
    ww_deps: bool,
    cleanup_policy: str,
) -> None:
    """Judge recorded client histories, promise by promise.

    PATH is the folder of a run in trace format v1 (meta.json and one file per process), a Jepsen
    history (.edn), what `highwater ingest` made of either, or a folder of them. Each promise holds,
    is violated, was broken as the configuration in meta.json allows, or is not checked, with the
    reason. Findings of several promises with one cause are reported once, as an incident.

    Exits with 0 when nothing is violated, 1 when something is, 2 when an input cannot be judged
    or nothing in it was, and 3 when a second checker refutes what the first one found: then one of
    them is wrong. If a file of a run is missing or cut short, 4 is added to 0 or 1, because no
    verdict covers the missing rows. So 5 is violated, and there may be more.
    """
    if listed:
        _list_checks(json_file)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH…'.")
    if html_file is not None:
        _look_for_what_draws()
    pictures = dict[int, Any]()
    if until is not None and not watched:
        raise click.UsageError("--until says when --watch ends, and there is no --watch")
    if watched:
        _watch(ctx, paths, strict, json_file, until)
    reading = Reading(SUB_VIA[sub_via], cleanup_policy == "compact", ww_deps)
    judged = [Judged(path) for path in runs_of(paths)]
    scratch = Path(ctx.with_resource(TemporaryDirectory(prefix="highwater-", dir=cache())))
    with staying(scratch), progress() as bar:
        read_all(judged, reading, bar, scratch)
        if html_file is not None:
            pictures = pictures_of(judged)
        judge_all([one for one in judged if one.run is not None], strict, bar, engine, mode)
    if recheck is not False:
        for one in judged:
            ask_again(one, always=recheck is True, compacted=cleanup_policy == "compact")
    console = standard_output()
    for one in judged if verbose else ():
        show(console, one)
    screen(console, judged, verbose)
    if json_file is not None:
        write_json(json_file, {"runs": [one.as_json() for one in judged]})
    if junit_file is not None:
        write_result(junit_file, junit(judged))
    if html_file is not None:
        from traces.html.page import page

        write_result(html_file, page(judged, pictures or pictures_of(judged)))
    for one in judged:
        for line in unjudged(one):
            console.print(line, style="red", soft_wrap=True, highlight=False, markup=False)
        for line in unread(one, allow_incomplete):
            console.print(line, style="red", soft_wrap=True, highlight=False, markup=False)
    verdicts = {one.verdict for one in judged}
    if any(one.contradictions for one in judged):
        ctx.exit(3)
    unknown = {BAD_INPUT, NOT_CHECKED} & verdicts
    failed = VIOLATED in verdicts or (fail_on == ALLOWED and ALLOWED in verdicts)
    lacking = INCOMPLETE if not allow_incomplete and any(o.incomplete for o in judged) else 0
    ctx.exit(2 if unknown else lacking + failed)


def unread(one: Judged, allowed: bool) -> Iterator[str]:
    """Report the unreadable part of a run, and its effect on the exit code."""
    if one.incomplete and not allowed:
        yield (
            f"{one.path}: not all of it was there to be judged: {'; '.join(one.incomplete)}. "
            "The exit code says so (4); with --allow-incomplete it does not"
        )


def unjudged(one: Judged, most: int = 8) -> Iterator[str]:
    """The reasons why nothing of a run was judged, and the fields that its recorder must write."""
    if one.verdict != NOT_CHECKED:
        return
    yield f"{one.path}: nothing was judged. What the checks lack, and how many of them:"
    counts = Counter(reason for v in one.verdicts for reason in v.reason.split("; "))
    for reason, count in counts.most_common(most):
        yield f"  {count:>3}  {reason}"
    yield (
        "Record of each message its `id`, `topic`, `partition` and `offset`, where it is sent and "
        "where it is polled, and end with a `scan` of every partition (highwater record-scan)"
    )


def _look_for_what_draws() -> None:
    """Say before the work, not after it, that a package of the extra `html` is not installed."""
    try:
        import traces.html.page  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("traces"):
            raise
        raise click.UsageError(
            f"--html needs the package `{missing.name}`, which is not installed. "
            "It comes with the extra `html`: pip install 'highwatermark[html]'"
        ) from missing


def pictures_of(judged: list[Judged]) -> dict[int, Any]:
    """Gather the data of these runs' plots while their rows are in memory."""
    from traces.html.picture import picture

    pictures = dict[int, Any]()
    for number, one in enumerate(judged):
        if (run := one.run) is not None:
            # A run that was watched has given its rows away; its files are still there.
            here = run.parts or run.columns
            pictures[number] = picture(run if here else read_trace(one.path))
    return pictures


def _watch(
    ctx: click.Context,
    paths: tuple[Path, ...],
    strict: bool,
    json_file: Path | None,
    until: float | None,
) -> None:
    """Wait until the run can be judged as a whole; where it is not awaited, this is the end."""
    from traces.watch import Loop, Watch

    path, *others = paths
    if others or not path.is_dir():
        raise click.UsageError("--watch follows one run: give it the folder that is written to")
    watch = Watch(path, strict)
    if not Loop(watch, standard_output(), json_file, until).run():
        ctx.exit(1 if watch.violated else 2 if watch.folder.meta_problem else 0)


def read_all(judged: list[Judged], reading: Reading, bar: Progress, scratch: Path) -> None:
    """Read every run; one that cannot be read keeps the reason.

    The rows of one that is too large for memory go to a folder in `scratch`.
    """
    task = bar.add_task("reading", total=len(judged))
    for number, one in enumerate(judged):
        bar.update(task, description=f"reading {one.path.name}")
        try:
            one.run = read_input(one.path, reading, scratch / f"{number}")
        except BadInput as error:
            one.error = error
        except OSError as error:
            what = error.strerror or str(error)
            where = error.filename or (scratch if error.errno in UNWRITABLE else one.path)
            one.error = BadInput([Problem(str(where), None, "", what)], 1)
        bar.advance(task)
    bar.remove_task(task)
