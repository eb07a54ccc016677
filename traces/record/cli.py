"""`highwater record-scan`: end a recording by reading everything that the log holds."""

import importlib
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from traces.output import Refusal, result, standard_output, staying, write_json
from traces.record.cluster import Cluster, ClusterError, NoLibraryError, describe, library
from traces.record.contents import SCANNER, Contents, contents, scan_files
from traces.record.ids import IdOf
from traces.record.journal import SUFFIX
from traces.record.meta import BadMetaError, merged, read, write
from traces.record.process import open_process
from traces.record.run import TAKEN
from traces.record.scan import Library, Scan
from traces.record.settling import NotAJournalError, StillRunningError, settle

BAD_INPUT = 2
ISOLATIONS = {"read_uncommitted": "scan-ru", "read_committed": "scan-rc"}


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
    "--conf", multiple=True, metavar="KEY=VALUE", help="More for librdkafka, as for TLS and SASL."
)
@click.option(
    "--id",
    "id_of",
    metavar="MODULE:FUNCTION",
    help="What tells the id of a message, if the clients were recorded with one.",
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
    conf: tuple[str, ...],
    id_of: str | None,
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
            running = _settle_all(run, console)
            found, before = contents(run), read(run)
            wanted = (
                [name for name in topics.split(",") if name] if topics else sorted(found.topics)
            )
            ids = _id_function(id_of, found)
            settings = {"bootstrap.servers": bootstrap, **dict(map(_setting, conf))}
            used = library()
            cluster = describe(used, settings, _some(wanted))
        except NoLibraryError:
            raise Refusal(
                "record-scan reads with the package `confluent-kafka`, which is not installed: "
                "pip install confluent-kafka"
            ) from None
        except (ClusterError, BadMetaError) as wrong:
            raise Refusal(str(wrong)) from None
        for file in scan_files(run):
            file.unlink()  # it was not the final scan after all
        counts = {name: topic["partitions"] for name, topic in cluster.topics.items()}
        unread: list[str] = []
        for level in _isolations(isolation, found):
            unread += _scan(run, level, used, settings, ids, found.hashes, timeout, counts)
        again = contents(run)
        names = [*again.names, *(_scan_name(file) for file in scan_files(run))]
        complete = not (running or unread or cluster.headless)
        write(run, merged(before, run.name, again.processes, names, cluster, complete))
        _tell(console, len(again.names), cluster, running, unread)
        if json_file is not None:
            lacking = {"running": running, "without_leader": cluster.headless, "unread": unread}
            made = {"run": str(run), "complete": complete, "processes": len(again.names), **lacking}
            write_json(json_file, made | {"partitions": counts})
        ctx.exit(0 if complete else BAD_INPUT)


def _settle_all(run: Path, console: Console) -> list[str]:
    """Make process files of what killed processes left; returns who is still running."""
    running: list[str] = []
    for journal in sorted(run.glob(f"*{SUFFIX}")):
        try:
            done = settle(journal)
        except StillRunningError:
            running.append(journal.name.removesuffix(SUFFIX))
        except NotAJournalError as wrong:
            raise Refusal(str(wrong)) from None
        else:
            how = {"crash": "was killed", "cut": "is cut off", "close": "was closed"}[done.ended]
            console.print(
                f"{done.file.name}: {how}; {done.calls} calls, {done.unanswered} unanswered"
            )
    return running


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
    both = asked == "both" or found.transactional
    return list(ISOLATIONS) if both else ["read_uncommitted"]


def _scan(
    run: Path,
    isolation: str,
    used: Library,
    settings: dict[str, str],
    ids: IdOf | None,
    hashes: bool,
    timeout: float,
    counts: dict[str, int],
) -> list[str]:
    head: dict[str, Any] = {"role": "scan", "client": SCANNER, "configured": {}}
    process = open_process(run, ISOLATIONS[isolation], head, TAKEN, settle)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(isolation, total=None)
        read = 0

        def progress(records: int) -> None:
            nonlocal read
            read += records
            if read % 1000 == 0:
                bar.update(task, description=f"{isolation}: {read} records")

        return Scan(used, process, isolation, settings, ids, hashes, timeout, progress).run(counts)


def _scan_name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".ndjson")


def _tell(
    console: Console,
    processes: int,
    cluster: Cluster,
    running: list[str],
    unread: list[str],
) -> None:
    topics = cluster.topics.values()
    partitions = sum(topic["partitions"] for topic in topics)
    console.print(f"{processes} processes; {len(topics)} topics, {partitions} partitions scanned")
    for name in running:
        console.print(f"not complete: {name} is still running")
    for name in cluster.headless:
        console.print(f"not complete: {name} has no leader")
    for name in dict.fromkeys(unread):
        console.print(f"not complete: the scan did not reach the end of {name}")
