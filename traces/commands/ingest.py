"""`highwater ingest`: make the table of operations, once, of runs that are too large for memory."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, signal
from typing import Any

import click
from rich.console import Console

from traces.commands import options
from traces.commands.options import runs_of
from traces.ingest.history import SUB_VIA, Reading
from traces.ingest.ingesting import SPLIT, ingest, ingest_history
from traces.ingest.kafka import KafkaTopic
from traces.ingest.maps import in_spark, processes
from traces.ingest.run import Run
from traces.ingest.topic import REJECTED, State, follow
from traces.ingest.whole import Map
from traces.model.output import UNWRITABLE, number_of, progress, result, staying, write_json
from traces.model.problems import BadInput, Problem

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class Size(click.ParamType[int]):
    """A number of bytes, such as 64MiB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """The number of bytes."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)\s*([kmg]i?)?b?", str(value).strip().lower())
        if found is None or not (size := int(found[1]) * _UNITS[found[2] or ""]):
            self.fail(f"expected a number of bytes, such as 64MiB, found {value!r}", param, ctx)
        return size


@click.command("ingest", short_help="Make the table of operations of large recordings.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path), metavar="RUN…")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="OPS",
    help="The folder of the table; of several runs a folder in it for each.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "spark"]),
    default="local",
    show_default=True,
    help="Processes of this machine, or a Spark session whose workers see all these folders.",
)
@click.option(
    "--split-size",
    type=Size(),
    default=SPLIT,
    show_default="64MiB",
    help="How much of a file is read in one piece. A task needs up to eight times as much memory.",
)
@click.option("--jobs", type=click.IntRange(1), help="How many processes read (local).")
@click.option(
    "--kafka",
    "bootstrap",
    metavar="HOST:PORT,…",
    help="Read a topic of trace lines from these brokers; OPS is then the folder of a run, RUN.",
)
@click.option(
    "--topic", metavar="NAME", help="The topic: a line each message, its process the key."
)
@click.option("--until-end", is_flag=True, help="Of a topic: stop at its end, instead of waiting.")
@click.option(
    "--kafka-config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the consumer, such as security.protocol=SSL.",
)
@options.sub_via
@options.cleanup_policy
@result("json", "Write what was read, and what is wrong with the rest, to FILE.")
@click.pass_context
def ingest_(
    ctx: click.Context,
    paths: tuple[Path, ...],
    out: Path,
    engine: str,
    split_size: int,
    jobs: int | None,
    bootstrap: str | None,
    topic: str | None,
    until_end: bool,
    settings: tuple[str, ...],
    sub_via: str | None,
    cleanup_policy: str,
    json_file: Path | None,
) -> None:
    """Make the table of operations of recordings, for `highwater check OPS`.

    A RUN is the folder of a run or a Jepsen history (.edn). Files are read in pieces, by several
    processes or by Spark, and pieces that were read are kept. After an interruption, or when a file
    has changed, only the missing pieces are read. One task reads a compressed file or .edn file.

    With --kafka and --topic the messages of a topic become the files of a run, which can be judged,
    ingested and watched (`highwater check --watch`) like any other. It goes on where it stopped:
    until Ctrl-C, or with --until-end to the end of the topic.

    Exits with 0 when everything was read, 2 when something cannot be.
    """
    if bootstrap or topic or until_end or settings:
        if not (bootstrap and topic) or paths:
            raise click.UsageError("a topic is read with --kafka and --topic, and without a RUN")
        ctx.exit(from_topic(bootstrap, topic, out, until_end, settings, json_file))
    if not paths:
        raise click.UsageError("expected a RUN, or --kafka and --topic")
    runs = runs_of(paths)
    reading = Reading(SUB_VIA[sub_via], cleanup_policy == "compact")
    console, bad = Console(stderr=True), False
    listed: list[dict[str, Any]] = []
    with _engine(engine, jobs) as over, progress() as bar:
        for path, target in _targets(runs, out):
            task = bar.add_task(f"reading {path.name}", total=None)

            def tick(done: int, all: int, task: Any = task) -> None:
                bar.update(task, completed=done, total=all)

            try:
                run = one(path, target, split_size, over, tick, reading)
            except BadInput as error:
                bad = True
                listed.append({"path": str(path), "errors": [str(p) for p in error.problems]})
                console.print(str(error), style="red", highlight=False, soft_wrap=True)
            else:
                for warning in run.warnings:
                    console.print(f"warning: {warning}", style="yellow", soft_wrap=True)
                console.print(
                    f"{target}: {number_of(run.calls, 'call')}, {number_of(run.rows, 'row')}",
                    soft_wrap=True,
                )
                said = {"calls": run.calls, "rows": run.rows}
                warned = {"warnings": [str(warning) for warning in run.warnings]}
                listed.append({"path": str(path), "out": str(target), **said, **warned})
            bar.remove_task(task)
    if json_file is not None:
        write_json(json_file, {"runs": listed})
    ctx.exit(2 if bad else 0)


def one(
    path: Path,
    out: Path,
    size: int,
    over: Map,
    tick: Callable[[int, int], None],
    reading: Reading,
) -> Run:
    """Ingest a run or a history."""
    try:
        if path.suffix == ".edn":
            return ingest_history(path, out, reading)
        return ingest(path, out, size, over, tick)
    except OSError as error:
        what = error.strerror or str(error)
        where = error.filename or (out if error.errno in UNWRITABLE else path)
        raise BadInput([Problem(str(where), None, "", what)], 1) from error


def _targets(runs: list[Path], out: Path) -> Iterator[tuple[Path, Path]]:
    """Pair each run with the path of its table."""
    if len(runs) == 1:
        yield runs[0], out
        return
    names = [path.name.removesuffix(".edn") for path in runs]
    for path, name in zip(runs, names, strict=True):
        if names.count(name) > 1:
            raise click.UsageError(f"two runs are called {name}: give each an --out of its own")
        yield path, out / name


@contextmanager
def _engine(engine: str, jobs: int | None) -> Generator[Map]:
    if engine == "local":
        with processes(jobs) as over:
            yield over
        return
    from traces.engines.session import session

    with session() as spark:
        yield in_spark(spark)


def from_topic(
    bootstrap: str,
    name: str,
    run: Path,
    until_end: bool,
    settings: tuple[str, ...],
    json_file: Path | None = None,
) -> int:
    """Write a topic into the folder of a run."""
    given = {key: value for key, _, value in (setting.partition("=") for setting in settings)}
    topic, console = KafkaTopic(bootstrap, name, given), Console(stderr=True)
    with staying(run), interrupted() as stop, progress() as bar:
        task = bar.add_task(f"reading {name}", total=None)

        def tick(state: State) -> None:
            bar.update(task, description=f"reading {name}: {state.lines:,} lines")

        try:
            state = follow(topic, run, until_end, stop, tick)
        except BadInput as error:
            console.print(str(error), style="red", highlight=False, soft_wrap=True)
            return 2
        finally:
            topic.close()
    more = {
        "duplicates dropped": state.duplicates,
        "lines missing": state.given_up,
        f"messages that are no lines, in {REJECTED}": state.rejected,
        "lines waiting for earlier ones": sum(len(p.waiting) for p in state.processes.values()),
    }
    summary = "".join(f", {count:,} {what}" for what, count in more.items() if count)
    processes = len(state.processes)
    if json_file is not None:
        counts = {"lines": state.lines, "processes": processes, "rejected": state.rejected}
        dropped = {"duplicates": state.duplicates, "missing": state.given_up}
        write_json(json_file, {"run": str(run), **counts, **dropped})
    console.print(
        f"{run}: {number_of(state.lines, 'line')} of {number_of(processes, 'process')}{summary}",
        soft_wrap=True,
    )
    return 2 if state.rejected else 0


@contextmanager
def interrupted() -> Generator[Callable[[], bool]]:
    """A function that returns True once Ctrl-C was pressed: work in progress is then completed."""
    asked: list[int] = []
    before = signal(SIGINT, lambda number, _: asked.append(number))
    try:
        yield lambda: bool(asked)
    finally:
        signal(SIGINT, before)
