"""Rows as a table with dashes, or as JSON with nulls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from refimpl.outputs import write_json

Rows = Sequence[Sequence[Any]]
Table = tuple[Sequence[str], Rows]
NOTHING = "-"
#: Kafka's heads that are not the column's name in capitals
HEADS = {
    "coordinator": "COORDINATOR (ID)",
    "members": "#MEMBERS",
    "partitions": "#PARTITIONS",
}


def show(columns: Sequence[str], rows: Rows, json_file: Path | None) -> None:
    """Print a table with Kafka's heads, and write the same rows to a file where one is named."""
    show_all([(columns, rows)], json_file)


def show_all(tables: Sequence[Table], json_file: Path | None) -> None:
    """Print tables, an empty line between two; their rows are one list in the file."""
    for number, (columns, rows) in enumerate(tables):
        if number:
            click.echo()
        _print(columns, rows)
    found = [dict(zip(names, row, strict=True)) for names, rows in tables for row in rows]
    write_json(json_file, found)


def _print(columns: Sequence[str], rows: Rows) -> None:
    heads = [HEADS.get(one, one.upper().replace("_", "-")) for one in columns]
    table = [heads, *([NOTHING if one is None else str(one) for one in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
