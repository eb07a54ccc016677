"""Quote a definition of a spec, a page of rules and a list of promises, each from its own file."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from properties.tla.specs import CHECKOUT, SpecTree

PROMISES = CHECKOUT / "docs" / "promises.toml"
KAFKA = CHECKOUT / "docs" / "kafka-diff.md"


_TYPES = re.compile(r"^ *\\\* @type(?:Alias)?: .*\n", re.MULTILINE)
"""Parts for type checkers only."""
_LINK = re.compile(r"\[(`[^`]+`)\]\[[\w.]+\]")
"""A symbol of Kafka with its line."""


@frozen
class Quote:
    """Lines of a file, quoted."""

    file: Path
    line: int
    text: str


def definition(module: str, name: str, tree: SpecTree) -> Quote | None:
    """A TLA+ definition with the comment above it, up to the next empty line; None if the module
    itself does not define it."""
    file = tree.folder(module) / f"{module}.tla"
    above = r"(?:^\(\*.*\*\)\n|^\\\* @.*\n)*"
    pattern = rf"{above}^{re.escape(name)}(?:\(.*\))? ==(?:.*\n)(?:^(?! *$).*\n)*"
    text = file.read_text(encoding="utf-8")
    found = re.search(pattern, text, re.MULTILINE)
    if found is None:
        return None
    quoted = _TYPES.sub("", found.group()).rstrip()
    return Quote(file, text.count("\n", 0, found.start()) + 1, quoted)


@frozen
class KafkaRule:
    """A row of docs/kafka-diff.md."""

    rule: str
    kafka: str
    here: str


def kafka_rules(module: str) -> Sequence[KafkaRule]:
    """A module's rules in Kafka; none if the docs are not installed."""
    if not KAFKA.is_file():
        return ()
    section = re.search(
        rf"^## {module}\b.*?(?=^## |\Z)",
        KAFKA.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    rows = re.findall(r"^\| (.*) \|$", section.group() if section else "", re.MULTILINE)
    cells = [[_LINK.sub(r"\1", cell.strip()) for cell in row.split(" | ")] for row in rows]
    return [KafkaRule(*three) for three in cells if len(three) == 3 and three[0].startswith("`")]


@frozen
class Promise:
    """A section of docs/promises.md: its title, and each rule with the function that is it."""

    title: str
    formula: str
    rules: tuple[tuple[str, str], ...]
    checks: tuple[str, ...]


def promises() -> Sequence[Promise]:
    """The promises; none if the docs are not installed."""
    if not PROMISES.is_file():
        return ()
    rows = tomllib.loads(PROMISES.read_text(encoding="utf-8"))["promise"]
    return [
        Promise(
            row["title"],
            row["formula"],
            tuple((rule, function) for rule, function in row["rules"]),
            tuple(row["checks"]),
        )
        for row in rows
    ]
