"""`highwater import`: make a run of recordings from other sources."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click
import orjson
from rich.console import Console

from traces.importers import otel, verifiable
from traces.importers.identify import UnknownIdSource, identify
from traces.importers.writer import Imported
from traces.model.meta import Topic
from traces.model.output import Refusal, number_of, result, standard_output, write_json
from traces.model.problems import BadInput

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group("import")
def import_() -> None:
    """Make a run of what somebody else recorded.

    Evidence that the source lacks is listed, and the checks that need it will answer *not checked*.
    Exits with 2, and writes nothing, when a source is malformed.
    """


def _sources(command: Command) -> Command:
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    command = _json(command)
    command = click.option("--out", required=True, type=_FOLDER, help="The run to make.")(command)
    return click.argument("sources", nargs=-1, required=True, type=kind, metavar="SRC…")(command)


_json = result("json", "Write what was made, and what the source cannot tell, to FILE.")
_FOLDER = click.Path(file_okay=False, path_type=Path)
_ACKS = click.option(
    "--acks", type=click.Choice(["0", "1", "all"]), help="What the producers asked for."
)


@import_.command("kafka-verifiable")
@_sources
@_ACKS
@click.option("--group", help="The consumers' group.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="The consumers' isolation.",
)
@click.option("--one-clock", is_flag=True, help="All logs are of one machine.")
@click.option("--all-senders", is_flag=True, help="All who send to the topics are here.")
def kafka_verifiable(
    sources: tuple[Path, ...],
    out: Path,
    acks: str | None,
    group: str | None,
    isolation: str | None,
    one_clock: bool,
    all_senders: bool,
    json_file: Path | None,
) -> None:
    """Logs of kafka-verifiable-producer and kafka-verifiable-consumer, one file each."""
    known = verifiable.ToolSettings(acks, group, isolation, one_clock, all_senders)
    _make(out, lambda: verifiable.import_verifiable(sources, out, known), json_file)


@import_.command("otel")
@_sources
@_ACKS
@click.option("--all-spans", is_flag=True, help="Nothing was sampled, every span is here.")
def spans(
    sources: tuple[Path, ...],
    out: Path,
    acks: str | None,
    all_spans: bool,
    json_file: Path | None,
) -> None:
    """OpenTelemetry's messaging spans as OTLP JSON."""
    _make(
        out, lambda: otel.import_otel(sources, out, otel.SpanSettings(all_spans, acks)), json_file
    )


def _id_source(ctx: click.Context, option: click.Parameter, id_source: str | None) -> str | None:
    try:
        identify(id_source)
    except UnknownIdSource as unknown:
        raise click.BadParameter(str(unknown)) from None
    return id_source


_NO_SETTINGS = {"partitions", "replication_factor", "senders", "earlier"}


def _settings(ctx: click.Context, option: click.Parameter, given: Iterable[str]) -> dict[str, Any]:
    """`name=value` as in meta.json; a value that is no number and no bool is a string."""
    settings: dict[str, Any] = {}
    known = sorted(attrs.fields_dict(Topic).keys() - _NO_SETTINGS)
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name not in known:
            raise click.BadParameter(f"expected one of {', '.join(known)} = a value, found {one!r}")
        try:
            settings[name] = orjson.loads(value)
        except orjson.JSONDecodeError:
            settings[name] = value
    return settings


@import_.command("segments")
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR…",
)
@click.option("--out", type=_FOLDER, help="The run to make.")
@click.option("--into", type=_FOLDER, help="A run of clients, to which the dumps are added.")
@click.option(
    "--id",
    "id_source",
    metavar="PLACE",
    callback=_id_source,
    help="Where a message has its id: key, value, header:NAME or json:FIELD (of the value). "
    "By default in the header that the recorder adds.",
)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only these topics.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_settings,
    help="A setting of the topics as meta.json names it, such as cleanup_policy=delete.",
)
@_json
def segments(
    folders: tuple[Path, ...],
    out: Path | None,
    into: Path | None,
    id_source: str | None,
    topics: tuple[str, ...],
    settings: dict[str, Any],
    json_file: Path | None,
) -> None:
    """Log directories of brokers, as they are on their disks.

    DIR is a broker's log directory, or one partition's folder in it. Each broker becomes a process
    that dumps its logs batch by batch. Nothing is written to DIR. Damage is reported by file
    and position, and stays in the run as records that equal no others.
    """
    from traces.importers.segments import SegmentSettings, import_segments

    if (out is None) == (into is None):
        raise click.UsageError("expected --out for a new run, or --into for one that is there")
    known = SegmentSettings(id_source, topics, settings)
    if into is not None:
        if not (into / "meta.json").is_file():
            raise Refusal(f"{into}: expected the folder of a run, with meta.json")
        _run(into, lambda: import_segments(folders, into, known, into=True), json_file)
    elif out is not None:
        _make(out, lambda: import_segments(folders, out, known), json_file)


def _make(out: Path, make: Callable[[], Imported], json_file: Path | None) -> None:
    if out.exists() and any(out.iterdir()):
        raise Refusal(f"{out}: is not empty; an import wants a folder of its own")
    _run(out, make, json_file)


def _run(out: Path, make: Callable[[], Imported], json_file: Path | None) -> None:
    try:
        imported = make()
    except BadInput as bad:
        raise Refusal(f"{bad.count} problems, nothing was written\n{bad}") from None
    except OSError as error:
        raise Refusal(f"{error.filename or out}: {error.strerror}; nothing was written") from None
    _tell(standard_output(), out, imported)
    if json_file is not None:
        warned = {"warnings": [str(warning) for warning in imported.warnings]}
        lacking = {"skipped": dict(imported.skipped), "cannot_tell": list(imported.lost)}
        write_json(json_file, {"run": str(out), "calls": imported.calls, **warned, **lacking})


def _tell(console: Console, out: Path, imported: Imported) -> None:
    calls = sum(imported.calls.values())
    console.print(
        f"{out}: {number_of(len(imported.calls), 'process')}, {number_of(calls, 'call')}",
        highlight=False,
    )
    for warning in imported.warnings:
        console.print(f"warning: {warning}", highlight=False, markup=False, soft_wrap=True)
    for what, count in imported.skipped.items():
        console.print(f"not taken over: {count} {what}", highlight=False, markup=False)
    console.print("the source cannot tell:")
    for lost in imported.lost:
        console.print(f"  {lost}", highlight=False, markup=False)
