"""`highwater explain`: one verb for the checks of recordings and the properties of the specs.

What is known of either is told by its room, which is imported when it is asked: the checks need no
TLA+ tools and no Hypothesis.
"""

import textwrap
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import click

from refimpl.extras import missing_extra_named
from refimpl.outputs import json_option, write_json

EXPLAINERS = "highwatermark.explainers"
_WIDTH = 80


@click.command(short_help="Say all that is known of a check, or of a property of the specs.")
@click.argument("name", metavar="CHECK | PROPERTY")
@click.argument("cfg", metavar="[CONFIG | MODULE/CONFIG]", required=False)
@json_option("Write all of it but the story")
@click.option("--no-story", is_flag=True, help="Do not run TLC for a counterexample.")
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
@click.pass_context
def explain(
    ctx: click.Context,
    name: str,
    cfg: str | None,
    json_file: Path | None,
    no_story: bool,
    specs: Path | None,
) -> None:
    """Say all that is known of a check, or of one property of the specs.

    CHECK is an id that `highwater check` prints, such as L4: what it promises, what permits a
    finding, its usual causes, and what to look at next.

    PROPERTY is the name of an invariant or a temporal property, `CommittedInIsr` or
    `Truncation.CommittedInIsr`. Shown are its formula, the configurations that keep and break it,
    the rules behind it with the Python function that is each rule and Kafka's class for it, the
    known bugs of those functions with what finds them, and the shortest counterexample, or that of
    CONFIG. Exit code 0; 2: no such check, property or configuration, or a missing tool.
    """
    if not _may_be_a_check(name):
        module = _room("properties")
        ctx.invoke(module, name=name, cfg=cfg, json_file=json_file, no_story=no_story, specs=specs)
        return
    checks = _room("traces")
    id = checks.known(name)
    if id is None:
        near = checks.nearest(name)
        hint = f"; the nearest are\n{checks.listed(near)}" if near else "; highwater check --list"
        raise click.UsageError(f"there is no check {name!r}{hint}")
    if json_file is not None:
        write_json(json_file, checks.as_json(id))
    for line in checks.lines_of(id):
        click.echo(_wrapped(line))


def _may_be_a_check(name: str) -> bool:
    """An id (L4), or words of what one promises; properties begin with a capital."""
    return name[:1].islower() or (len(name) <= 3 and name[1:].isdigit()) or len(name) == 1


def _wrapped(line: str) -> str:
    """Lines of a terminal; names of commands stay whole."""
    return textwrap.fill(line, _WIDTH, subsequent_indent=_indent(line), break_on_hyphens=False)


def _indent(line: str) -> str:
    return "    " if line.startswith("  - ") else " " * 14 if ":" in line[:14] else ""


def _room(name: str) -> Any:
    (offer,) = entry_points(group=EXPLAINERS, name=name)
    with missing_extra_named(EntryPoint("explain", offer.value, offer.group)):
        return offer.load()
