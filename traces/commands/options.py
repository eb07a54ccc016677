"""Options that several commands have, and the runs that their paths name."""

from collections.abc import Iterator
from pathlib import Path

import click

from traces.ingest.ingesting import is_ops
from traces.ingest.lines import JOURNAL

# What an .edn history does not tell of itself.
sub_via = click.option(
    "--sub-via",
    type=click.Choice(["assign", "subscribe"]),
    default=None,
    show_default="subscribe where any does, else assign",
    help="How the consumers of an .edn history got their partitions.",
)
cleanup_policy = click.option(
    "--cleanup-policy",
    type=click.Choice(["delete", "compact"]),
    default="delete",
    show_default=True,
    help="The cleanup policy of the topics of an .edn history.",
)


def runs_of(paths: tuple[Path, ...]) -> list[Path]:
    """The runs that these paths name; a path that holds none is a mistake of its owner."""
    runs: list[Path] = []
    for path in paths:
        try:
            found = list(_runs_at(path))
        except OSError as error:
            raise click.UsageError(f"{error.filename}: {error.strerror}") from None
        if not found:
            raise click.UsageError(
                f"{path}: expected the folder of a run (with meta.json), an .edn file, "
                "or a folder of them"
            )
        runs += found
    return list(dict.fromkeys(runs))


def _runs_at(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix == ".edn":
            yield path
    elif is_ops(path) or (path / "meta.json").is_file() or _recorded(path):
        yield path
    else:
        yield from filter(_is_run, sorted(path.iterdir()))


def _recorded(path: Path) -> bool:
    return any(path.glob("*.ndjson*")) or any(path.glob(f"*{JOURNAL}"))


def _is_run(path: Path) -> bool:
    """True if a path may be a run. One that cannot be read counts, so that the error names it."""
    try:
        return path.suffix == ".edn" or is_ops(path) or (path / "meta.json").is_file()
    except OSError:
        return True
