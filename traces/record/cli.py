"""`highwater record-scan`: end a recording by reading everything that the log holds."""

import importlib
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from traces.model.output import Refusal, number_of, result, standard_output, staying, write_json
from traces.record.cluster import ClusterError, NoLibraryError
from traces.record.command_config import command_config as settings_of
from traces.record.contents import Contents, contents
from traces.record.final_scan import ISOLATIONS, FinalScan, Scanned, isolations, settle_all
from traces.record.ids import IdOf
from traces.record.journal import SUFFIX
from traces.record.meta import BadMetaError
from traces.record.settling import ASIDE, Settled

BAD_INPUT = 2


@click.command("record-scan")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--bootstrap", required=True, metavar="HOST:PORT", help="Where the cluster is.")
@click.option("--topics", metavar="NAME,…", help="These topics; otherwise all that the run names.")
@click.option(
    "--isolation",
    type=click.Choice(["auto", "both", *ISOLATIONS]),
    default="auto",
    help="`auto` reads uncommitted, and committed as well where the run has transactions.",
)
@click.option(
    "--command-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings of Kafka's own tools, as for TLS and SASL.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="More for librdkafka; comes before the file's.",
)
@click.option(
    "--id",
    "id_of",
    metavar="MODULE:FUNCTION",
    help="What tells the id of a message, if the clients were recorded with one.",
)
@click.option(
    "--senders",
    type=click.Choice(["all", "some"]),
    help="Whether all who send to the topics were recorded; otherwise by what was read.",
)
@click.option("--timeout", default=30.0, show_default=True, help="Give up after so many quiet s.")
@result("json", "Write what was read, and what is not complete, to FILE.")
@click.pass_context
def record_scan(
    ctx: click.Context,
    run: Path,
    bootstrap: str,
    topics: str | None,
    isolation: str,
    command_config: Path | None,
    conf: tuple[str, ...],
    id_of: str | None,
    senders: str | None,
    timeout: float,
    json_file: Path | None,
) -> None:
    """End a recording by reading everything that the log holds.

    RUN is the folder that the recorder wrote to. First every journal that a killed process left
    there becomes a process file; last comes meta.json, and then the run can be judged. It is
    complete when no client runs any more and the scan has reached the end of every partition;
    otherwise the exit code is 2, and nothing in the run can be called lost.
    """
    with staying(run):
        console = standard_output()
        try:
            left = settle_all(run)
            for done in left.settled:
                _tell_of(console, done)
            found = contents(run)
            scan = FinalScan(
                run=run,
                conf={
                    "bootstrap.servers": bootstrap,
                    **({} if command_config is None else settings_of(command_config)),
                    **dict(map(_setting, conf)),
                },
                topics=_some(_named(topics) or sorted(found.topics)),
                isolations=_isolations(isolation, found),
                id_of=_id_function(id_of, found),
                stalled_after_s=timeout,
                senders=senders,
                showing=_showing,
            )
            done = scan.read(found, left)
        except NoLibraryError:
            raise Refusal(
                "record-scan reads with the package `confluent-kafka`, which is not installed: "
                "pip install confluent-kafka"
            ) from None
        except (ClusterError, BadMetaError) as wrong:
            raise Refusal(str(wrong)) from None
        for note in done.notes:
            console.print(note)
        _tell(console, done)
        if json_file is not None:
            lacking = {"running": done.running, "damaged": done.damaged}
            lacking |= {"without_leader": done.headless, "unread": done.unread}
            made = {"run": str(run), "complete": done.complete, "processes": done.processes}
            write_json(json_file, made | lacking | {"partitions": done.partitions})
        ctx.exit(0 if done.complete else BAD_INPUT)


def _tell_of(console: Console, done: Settled) -> None:
    """The end of a process that left a journal."""
    how = {"crash": "was killed", "cut": "is cut off", "close": "was closed"}[done.ended]
    calls = number_of(done.calls, "call")
    console.print(f"{done.file.name}: {how}; {calls}, {done.unanswered} unanswered")
    if done.damage:
        console.print(f"{done.damage}; all before it was read; kept as *{SUFFIX}{ASIDE}")


def _named(topics: str | None) -> list[str]:
    return [name for name in (topics or "").split(",") if name]


def _some(names: list[str]) -> list[str]:
    if not names:
        raise Refusal("no process file of the run names a topic: give them with --topics")
    return names


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise Refusal(f"--conf: expected KEY=VALUE, found {text!r}")
    return key, value


def _id_function(named: str | None, found: Contents) -> IdOf | None:
    if found.proxied:
        raise Refusal(
            "`highwater proxy` recorded this run, and ends it: "
            "highwater proxy --target HOST:PORT --record RUN --finish"
        )
    if named is None:
        if found.own_ids:
            raise Refusal(
                "clients of this run were recorded with the application's own ids; the scan needs "
                "the same function: --id MODULE:FUNCTION"
            )
        return None
    module, _, function = named.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise Refusal(f"--id {named}: expected MODULE:FUNCTION: {error}") from None
    finally:
        sys.path.pop(0)


def _isolations(asked: str, found: Contents) -> list[str]:
    if asked in ISOLATIONS:
        return [asked]
    return list(ISOLATIONS) if asked == "both" else isolations(found)


@contextmanager
def _showing(isolation: str) -> Generator[Callable[[int], None]]:
    """The number of records read so far, shown while they are read."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(isolation, total=None)
        read = 0

        def progress(records: int) -> None:
            nonlocal read
            read += records
            if read % 1000 == 0:
                bar.update(task, description=f"{isolation}: {read} records")

        yield progress


def _tell(console: Console, done: Scanned) -> None:
    topics, partitions = len(done.partitions), sum(done.partitions.values())
    console.print(
        f"{number_of(done.processes, 'process')}; {number_of(topics, 'topic')}, "
        f"{number_of(partitions, 'partition')} scanned"
    )
    for name in done.running:
        console.print(f"not complete: {name} is still running")
    for damage in done.damaged.values():
        console.print(f"not complete: {damage}")
    for name in done.headless:
        console.print(f"not complete: {name} has no leader")
    for name in dict.fromkeys(done.unread):
        console.print(f"not complete: the scan did not reach the end of {name}")
