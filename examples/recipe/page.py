"""The page: each step, and each pair of steps, left out under each fault."""

import re
from collections.abc import Iterable, Mapping

from examples.recipe.faults import FAULTS
from examples.recipe.playing import WORDS, Outcome
from examples.recipe.steps import STEPS, Row, rows

Cells = Mapping[tuple[Row, str], Outcome]
NONE = "–"
HEAD = """\
# The no-loss recipe, step by step

The recipe: read the callback of each send, `acks=all`, idempotence, retries without end within
`delivery.timeout.ms`, replication factor 3, `min.insync.replicas=2`, no unclean election, commit
after processing, `auto.offset.reset=earliest`. Each row leaves out a step, or two. Each cell is one
run of real clients (librdkafka) on a cluster of its own, with one fault. `make recipe` plays them
and writes this page; `make test` plays ten of them again. The program is
[examples/recipe](../examples/recipe/steps.py).

- **lost**: the shop takes the order for stored, and it is not in the log at the end. Without a
  callback the shop takes every order for stored.
- **skipped**: the order is in the log. The worker read to the end and never processed it.
- **repeated**: the order is in the log, or was processed, more than once.
- **unavailable**: the shop was told that the order is not stored, or may not be. Its customer can
  order again.

A cell tells one run, not all that can happen: "–" means that none of the four did. Seven orders are
sent.

## The steps

| step | left out |
|---|---|
"""
FAULT_HEAD = """
## The faults

| fault | what happens |
|---|---|
"""
PAIRS_HEAD = """
## Pairs of steps

A word is bold where the pair does what neither of its steps does alone.

"""
OUT = """
## What stands out

- `min.insync.replicas=1` alone loses nothing: the last replica in sync stays the leader. With
  unclean election it loses, when the last in sync dies.
- `retries=0` alone loses nothing either: it refuses. Where nobody reads the callback as well, each
  refused order is lost.
- `acks=1` loses without unclean election. Followers that fell behind below `min.insync.replicas`
  stay eligible to lead (KIP-966), and lack what one replica acknowledged.
- Two brokers that die at once lose nothing of the recipe. With unclean election the third one
  leads, and what the two acknowledged is lost.
"""
FOUND_HEAD = """
## Witnesses

For each step, and for each pair that does more than its steps: the orders, and what
`highwater check` says of the recorded run, with the line of the configuration that permits it.
*Not checked* means that the partition had no leader at the end.
A send that nobody acknowledged breaks no promise, so the check finds nothing where the shop
believed what it was not told.

"""


def page(cells: Cells) -> str:
    """All of it, of the outcomes of all cells."""
    faults = "".join(f"| {name} | {_sentence(fault.__doc__)} |\n" for name, fault in FAULTS.items())
    single = [row for row in rows() if len(row) < 2]
    pairs = [row for row in rows() if len(row) == 2]
    told = [row for row in single if row] + [row for row in pairs if any(_adds(cells, row))]
    witnesses = "".join(_witnesses(cells, row) for row in told)
    steps = "".join(f"| {name} | {step.left_out} |\n" for name, step in STEPS.items())
    tables = ("\n## One step\n\n", _table(cells, single), PAIRS_HEAD, _table(cells, pairs))
    text = "".join((HEAD, steps, FAULT_HEAD, faults, *tables, OUT, FOUND_HEAD, witnesses))
    return text.rstrip("\n") + "\n"


def _sentence(doc: str | None) -> str:
    return " ".join((doc or "").split())


def _table(cells: Cells, chosen: Iterable[Row]) -> str:
    lines = [f"| left out | {' | '.join(FAULTS)} |", "|---|" + "---|" * len(FAULTS)]
    for row in chosen:
        said = [_cell(cells, row, fault) for fault in FAULTS]
        lines.append(f"| {title(row)} | {' | '.join(said)} |")
    return "\n".join(lines) + "\n"


def title(row: Row) -> str:
    """A row's name on the page."""
    return " + ".join(row) or "nothing: the recipe"


def _cell(cells: Cells, row: Row, fault: str) -> str:
    words = cells[row, fault].words
    new = _new(cells, row, fault)
    return ", ".join(f"**{word}**" if word in new else word for word in words) or NONE


def _new(cells: Cells, row: Row, fault: str) -> set[str]:
    """What a pair does that neither of its steps does alone."""
    if len(row) < 2:
        return set()
    alone = {word for name in row for word in cells[(name,), fault].words}
    return set(cells[row, fault].words) - alone


def _adds(cells: Cells, row: Row) -> Iterable[bool]:
    return (bool(_new(cells, row, fault)) for fault in FAULTS)


def _witnesses(cells: Cells, row: Row) -> str:
    """What a row does that the recipe, or each of its steps alone, does not."""
    settings = " and ".join(STEPS[name].left_out for name in row)
    lines: list[str] = []
    for fault in FAULTS:
        one = cells[row, fault]
        words = _new(cells, row, fault) if len(row) == 2 else set(one.words)
        said = [f"{word} {', '.join(one.orders[word])}" for word in WORDS if word in words]
        if said and (len(row) == 2 or set(one.words) - set(cells[(), fault].words)):
            found = " ".join(f"{check}: {text}" for check, _, text in one.findings)
            verdict = found or f"{one.verdict.capitalize()}."
            lines.append(f"- *{fault}*: {'; '.join(said)}. {verdict}\n")
    return "".join((f"**{title(row)}** ({settings})\n\n", *lines, "\n")) if lines else ""


def read(text: str) -> dict[tuple[Row, str], tuple[str, ...]]:
    """The words of each cell of a page."""
    found: dict[tuple[Row, str], tuple[str, ...]] = {}
    named = {title(row): row for row in rows()}
    for line in text.splitlines():
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        if first in named and len(cells) == len(FAULTS):
            for fault, cell in zip(FAULTS, cells, strict=True):
                found[named[first], fault] = tuple(re.findall("|".join(WORDS), cell))
    return found
