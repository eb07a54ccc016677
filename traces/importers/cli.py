"""`highwater import`: make a run of what somebody else recorded."""

from pathlib import Path

import click
from rich.console import Console

from traces.importers import otel, verifiable
from traces.importers.writer import Imported
from traces.problems import BadInput

BAD_INPUT = 2
KINDS = ("kafka-verifiable", "otel")


class Refusal(click.ClickException):
    """The user's mistake, or a source that is not what it is said to be."""

    exit_code = BAD_INPUT


@click.command("import")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="SRC…",
)
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--acks", type=click.Choice(["0", "1", "all"]), help="What the producers asked for.")
@click.option("--group", help="kafka-verifiable: the consumers' group.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="kafka-verifiable: the consumers' isolation.",
)
@click.option("--one-clock", is_flag=True, help="kafka-verifiable: all logs are of one machine.")
@click.option("--all-spans", is_flag=True, help="otel: nothing was sampled, every span is here.")
def import_(
    kind: str,
    sources: tuple[Path, ...],
    out: Path,
    acks: str | None,
    group: str | None,
    isolation: str | None,
    one_clock: bool,
    all_spans: bool,
) -> None:
    """Make a run of what somebody else recorded.

    KIND is the kind of recording: `kafka-verifiable` for the logs of kafka-verifiable-producer and
    kafka-verifiable-consumer, one file each; `otel` for OpenTelemetry's spans as OTLP JSON. What
    the source cannot tell is listed, and the checks that need it will answer *not checked*. Exits
    with 2, and writes nothing, when a source is malformed.
    """
    if out.exists() and any(out.iterdir()):
        raise Refusal(f"{out}: is not empty; an import wants a folder of its own")
    try:
        if kind == "otel":
            imported = otel.import_otel(sources, out, otel.Known(all_spans, acks))
        else:
            known = verifiable.Known(acks, group, isolation, one_clock)
            imported = verifiable.import_verifiable(sources, out, known)
    except BadInput as bad:
        raise Refusal(f"{bad.count} problems, nothing was written\n{bad}") from None
    _tell(Console(), out, imported)


def _tell(console: Console, out: Path, imported: Imported) -> None:
    calls = sum(imported.calls.values())
    console.print(f"{out}: {len(imported.calls)} processes, {calls} calls", highlight=False)
    for warning in imported.warnings:
        console.print(f"warning: {warning}", highlight=False, markup=False)
    for what, count in imported.skipped.items():
        console.print(f"not taken over: {count} {what}", highlight=False, markup=False)
    console.print("the source cannot tell:")
    for lost in imported.lost:
        console.print(f"  {lost}", highlight=False, markup=False)
