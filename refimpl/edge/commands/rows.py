"""Rows as a table with dashes, or as JSON with nulls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from refimpl.outputs import write_json

NOTHING = "-"
#: Kafka's heads that are not the column's name in capitals
HEADS = {
    "coordinator": "COORDINATOR (ID)",
    "members": "#MEMBERS",
    "partitions": "#PARTITIONS",
}


def show(columns: Sequence[str], rows: Sequence[Sequence[Any]], json_file: Path | None) -> None:
    """Print a table with Kafka's heads, and write the same rows to a file where one is named."""
    heads = [HEADS.get(one, one.upper().replace("_", "-")) for one in columns]
    table = [heads, *([NOTHING if one is None else str(one) for one in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    write_json(json_file, [dict(zip(columns, row, strict=True)) for row in rows])
