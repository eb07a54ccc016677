"""`highwater dump-log`: what is in the files of a partition, line by line as Kafka's own tool.

DumpLogSegments is what operators know, so its words, its order and its options are kept. It ends
with 0 whatever it finds; this ends with 1 where something is broken.
"""

from collections.abc import Iterator
from pathlib import Path

import click
from attrs import frozen

from refimpl.dump.batches import Decoder, as_text, batch_line, record_lines
from refimpl.dump.coordinator_json import group_record, share_record, transaction_record
from refimpl.dump.findings import Findings
from refimpl.dump.indexes import (
    offset_index_lines,
    snapshot_lines,
    time_index_lines,
    transaction_index_lines,
)
from refimpl.dump.metadata_json import metadata_record
from refimpl.errors import CorruptFile, StorageDamage
from refimpl.outputs import json_option, write_json
from refimpl.storage.format.logfile import base_offset_of, batches_of, mapped, placed_at

BROKEN = 1
EVERYTHING = 2**31 - 1


@frozen
class Wishes:
    """The options of the verb."""

    decoder: Decoder | None
    deep: bool
    sanity: bool
    silent: bool
    bare: bool
    limit: int


def log_lines(path: Path, wishes: Wishes, findings: Findings) -> Iterator[str]:
    """A log, batch by batch, and record by record where that is asked for."""
    yield _title(path)
    log, end, last_offset = mapped(path)[: wishes.limit], 0, -1
    for position, header in batches_of(path, log):
        with placed_at(path, position):
            line = batch_line(log, position, header)
            findings.damaged |= line.endswith("false")
            yield line
            end = position + header.size
            if not wishes.deep:
                continue
            for offset, line in record_lines(log, position, header, wishes.decoder, wishes.bare):
                if offset != last_offset + 1:
                    findings.gaps[path.absolute()].append((last_offset, offset))
                last_offset = offset
                yield line
    if end < len(log) and wishes.limit == EVERYTHING:
        findings.damaged = True
        yield f"Found {len(log) - end} invalid bytes at the end of {path.name}"


def _title(path: Path) -> str:
    if path.suffix == ".log":
        return f"Log starting offset: {base_offset_of(path)}"
    if path.name == "bootstrap.checkpoint":
        return "KRaft bootstrap snapshot"
    offset, _, epoch = path.stem.partition("-")
    if not (offset.isdecimal() and epoch.isdecimal()):
        raise CorruptFile(str(path), 0, "its name is not made of an offset and an epoch")
    return f"Snapshot end offset: {int(offset)}, epoch: {int(epoch)}"


def lines_of(path: Path, wishes: Wishes, findings: Findings) -> Iterator[str]:
    """All that is to be said of a file, by what its name says it is."""
    match path.suffix:
        case ".log" | ".checkpoint":
            yield from log_lines(path, wishes, findings)
        case ".index":
            yield from offset_index_lines(
                path, findings, sanity=wishes.sanity, silent=wishes.silent
            )
        case ".timeindex":
            yield from time_index_lines(path, findings, sanity=wishes.sanity, silent=wishes.silent)
        case ".snapshot":
            yield from snapshot_lines(path)
        case ".txnindex":
            yield from transaction_index_lines(path)
        case _:
            click.echo(f"Ignoring unknown file {path}", err=True)


@click.command("dump-log", short_help="Print what is in the files of a partition, as Kafka does.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--deep-iteration", is_flag=True, help="Print each record, not only each batch.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too, as text.")
@click.option("--offsets-decoder", is_flag=True, help="Read them as those of __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", is_flag=True, help="Read them as those of __transaction_state."
)
@click.option(
    "--share-group-state-decoder", is_flag=True, help="Read them as those of __share_group_state."
)
@click.option(
    "--cluster-metadata-decoder", is_flag=True, help="Read them as those of __cluster_metadata."
)
@click.option("--index-sanity-check", is_flag=True, help="Only say whether an index is sane.")
@click.option("--verify-index-only", is_flag=True, help="Hold indexes against the log, silently.")
@click.option("--skip-record-metadata", is_flag=True, help="Print nothing but keys and values.")
@click.option(
    "--max-message-size",
    type=int,
    expose_value=False,
    metavar="BYTES",
    help="Accepted, as Kafka's tool has it; here batches may have any size.",
)
@click.option("--max-bytes", default=EVERYTHING, metavar="BYTES", help="Stop after so much of it.")
@json_option("What does not fit together, and whether anything is broken")
@click.pass_context
def dump_log(
    ctx: click.Context,
    json_file: Path | None,
    files: tuple[Path, ...],
    deep_iteration: bool,
    print_data_log: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    share_group_state_decoder: bool,
    cluster_metadata_decoder: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    skip_record_metadata: bool,
    max_bytes: int,
) -> None:
    """Print what is in FILES: .log, .index, .timeindex, .txnindex, .snapshot.

    Says what Kafka's DumpLogSegments says, line by line. Exit codes: 0 all is well; 1 something
    is broken; 2 bad input.
    """
    asked = (
        (offsets_decoder, group_record),
        (transaction_log_decoder, transaction_record),
        (cluster_metadata_decoder, metadata_record),
        (share_group_state_decoder, share_record),
        (print_data_log, as_text),
    )
    decoder = next((decoder for wanted, decoder in asked if wanted), None)
    wishes = Wishes(
        decoder=decoder,
        deep=deep_iteration or decoder is not None,
        sanity=index_sanity_check,
        silent=verify_index_only,
        bare=skip_record_metadata,
        limit=max_bytes,
    )
    findings = Findings()
    for path in files:
        click.echo(f"Dumping {path}")
        try:
            for line in lines_of(path, wishes, findings):
                click.echo(line, color=True)  # a payload is shown as it is, escapes and all
        except StorageDamage as damage:
            findings.damaged = True
            click.echo(f"Error: {damage}", err=True)
        except OSError as missing:
            raise click.ClickException(f"{missing.filename}: {missing.strerror}") from None
    for line in findings.lines():
        click.echo(line, err=True)
    write_json(json_file, findings.as_json())
    ctx.exit(BROKEN if findings.are_bad else 0)
