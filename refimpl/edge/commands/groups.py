"""`highwater groups`: what the consumer groups of any Kafka have read, and who reads it."""

import sys
from collections.abc import Sequence
from typing import Any

import click
import orjson

from refimpl.edge.commands.group_admin import (
    ClusterError,
    GroupAdmin,
    GroupRow,
    Listed,
    NoLibraryError,
)

BAD_INPUT = 2
NOTHING = "-"


class Refusal(click.ClickException):
    """A mistake of the user, or a cluster that does not answer."""

    exit_code = BAD_INPUT


def _address(ctx: click.Context, option: click.Parameter, value: str) -> str:
    """HOST:PORT, or several with commas between."""
    for one in value.split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise click.BadParameter(f"{one!r} is no HOST:PORT", ctx, option)
    return value


def _settings(
    ctx: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    for one in values:
        if "=" not in one:
            raise click.BadParameter(f"{one!r} is no KEY=VALUE", ctx, option)
    return dict(one.split("=", 1) for one in values)


@click.command(
    "groups", short_help="Print the consumer groups of any Kafka: offsets, lag, readers."
)
@click.option(
    "--bootstrap-server",
    required=True,
    metavar="HOST:PORT",
    callback=_address,
    help="Where the cluster is.",
)
@click.option("--list", "listing", is_flag=True, help="Print the names of all groups.")
@click.option("--describe", is_flag=True, help="Print each partition's offsets and its reader.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="This group; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each row.")
@click.option(
    "--command-config",
    "conf",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_settings,
    help="More for librdkafka, as for TLS and SASL.",
)
@click.option("--timeout", default=30.0, show_default=True, help="Wait so many s for each answer.")
def groups_(
    bootstrap_server: str,
    listing: bool,
    describe: bool,
    groups: tuple[str, ...],
    as_json: bool,
    conf: dict[str, str],
    timeout: float,
) -> None:
    """Print what consumer groups have committed, how far behind they are, and who reads.

    CURRENT-OFFSET is the next offset that the group will read, LOG-END-OFFSET where the log ends,
    LAG the difference. A partition that nobody reads now has no CONSUMER-ID, a member without
    partitions no TOPIC. Exit codes: 0, or 2 where the cluster does not answer or has no such group.
    """
    if listing == describe:
        raise click.UsageError("say --list or --describe")
    if listing and groups:
        raise click.UsageError("--group goes with --describe")
    try:
        admin = GroupAdmin(bootstrap_server, conf, timeout)
        if listing:
            _print(Listed._fields, admin.groups(), as_json)
            return
        names = groups or [one.group for one in admin.groups()]
        rows = [row for name in names for row in admin.describe(name)]
    except NoLibraryError:
        raise Refusal(
            "groups asks with the package `confluent-kafka`, which is not installed: "
            "pip install confluent-kafka"
        ) from None
    except ClusterError as wrong:
        raise Refusal(str(wrong)) from None
    _print(GroupRow._fields, rows, as_json)


def _print(columns: Sequence[str], rows: Sequence[tuple[Any, ...]], as_json: bool) -> None:
    """Rows as JSON with nulls, or as a table with dashes."""
    if as_json:
        for row in rows:
            sys.stdout.write(orjson.dumps(dict(zip(columns, row, strict=True))).decode() + "\n")
        return
    heads = [column.upper().replace("_", "-") for column in columns]
    table = [heads, *([NOTHING if one is None else str(one) for one in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
