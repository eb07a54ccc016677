"""What was played, in results.json beside this file: docs/recipe.md is built from it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from attrs import asdict, define, field

from examples.recipe.playing import SEED, Outcome
from examples.recipe.steps import Row

RESULTS = Path(__file__).with_name("results.json")
PLAYS = ("application", "faults", "playing", "steps")
"""The modules that decide what is played."""


@define
class Results:
    """The outcome of each cell. A file counts for the program and the seed that played it."""

    path: Path = RESULTS
    seed: int = SEED
    cells: dict[tuple[Row, str], Outcome] = field(factory=dict[tuple[Row, str], Outcome])

    def load(self) -> bool:
        """Read the file, if it is of this program and seed. Raises ValueError for a damaged one."""
        if not self.path.exists():
            return False
        try:
            found = orjson.loads(self.path.read_bytes())
            current = (found["program"], found["seed"]) == (program(), self.seed)
            cells = [_outcome(cell) for cell in found["cells"]] if current else []
        except (KeyError, TypeError, orjson.JSONDecodeError) as wrong:
            raise ValueError(
                f"{self.path}: expected what `make recipe` keeps, found {wrong!r}; delete it"
            ) from None
        for one in cells:
            self.keep(one)
        return current

    def keep(self, outcome: Outcome) -> None:
        """One more cell."""
        self.cells[outcome.row, outcome.fault] = outcome

    def write(self) -> None:
        """Replace the file. Its cells are in one order, whichever was played first."""
        ordered = sorted(self.cells.values(), key=lambda one: (len(one.row), one.row, one.fault))
        written = {"program": program(), "seed": self.seed, "cells": [asdict(o) for o in ordered]}
        beside = self.path.with_suffix(".new")
        beside.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n")
        beside.replace(self.path)


def _outcome(cell: Mapping[str, Any]) -> Outcome:
    row: Row = tuple(cell["row"])
    return Outcome(row, cell["fault"], cell["orders"], cell["verdict"], cell["findings"])


def program() -> str:
    """A hash over what plays."""
    hasher = hashlib.blake2b(digest_size=8)
    for name in PLAYS:
        hasher.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return hasher.hexdigest()
