"""Options that several commands have."""

from pathlib import Path
from typing import Any

import click

# What an .edn history does not tell of itself.
sub_via = click.option(
    "--sub-via",
    type=click.Choice(["assign", "subscribe"]),
    default="assign",
    show_default=True,
    help="How the consumers of an .edn history got their partitions.",
)
cleanup_policy = click.option(
    "--cleanup-policy",
    type=click.Choice(["delete", "compact"]),
    default="delete",
    show_default=True,
    help="The cleanup policy of the topics of an .edn history.",
)


def result(name: str, help: str) -> Any:
    """An option for a file that the command writes: `--json FILE` is `json_file`."""
    kind = click.Path(path_type=Path, dir_okay=False, writable=True)
    return click.option(f"--{name}", f"{name}_file", type=kind, metavar="FILE", help=help)
