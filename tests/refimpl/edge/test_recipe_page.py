"""docs/recipe.md says what happens when steps of the no-loss recipe are left out."""

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from examples.recipe.faults import FAULTS
from examples.recipe.page import page, read, title
from examples.recipe.playing import Outcome, judged, play
from examples.recipe.steps import STEPS, Row, rows

PAGE = Path(__file__).parents[3] / "docs" / "recipe.md"
CELLS = read(PAGE.read_text(encoding="utf-8"))
#: One of each kind: steps of the topic, of the producer, of the consumer, and pairs of them
PLAYED: list[tuple[Row, str]] = [
    ((), "leader cut off"),
    ((), "two in sync die"),
    ((), "worker dies"),
    (("acks",), "leader cut off"),
    (("idempotence",), "answer lost"),
    (("unclean off",), "two in sync die"),
    (("commit after",), "worker fails"),
    (("reset",), "late start"),
    (("min.insync", "unclean off"), "last in sync dies"),
    (("callback", "retries"), "send refused"),
]


def test_the_page_has_every_row_and_every_fault() -> None:
    """But for pairs of which it says that they were not played."""
    text = PAGE.read_text(encoding="utf-8")
    said = re.search(r"^Not played yet: (.*)\.$", text, re.MULTILINE)
    unplayed = set(said[1].split("; ")) if said else set[str]()
    assert len(rows()) == 1 + 9 + 36
    assert unplayed <= {title(row) for row in rows() if len(row) == 2}
    played = [row for row in rows() if title(row) not in unplayed]
    assert CELLS.keys() == {(row, fault) for row in played for fault in FAULTS}


def test_the_recipe_loses_and_skips_nothing() -> None:
    for fault in FAULTS:
        assert not {"lost", "skipped"} & set(CELLS[(), fault]), fault


def test_what_stands_out_is_measured() -> None:
    assert not any("lost" in CELLS[("min.insync",), fault] for fault in FAULTS)
    assert "lost" in CELLS[("min.insync", "unclean off"), "last in sync dies"]
    assert not any("lost" in CELLS[("retries",), fault] for fault in FAULTS)
    assert "lost" in CELLS[("callback", "retries"), "send refused"]
    assert "lost" in CELLS[("acks",), "last in sync dies"]
    assert "lost" not in CELLS[("acks", "min.insync"), "last in sync dies"]
    assert "lost" in CELLS[("unclean off",), "two in sync die"]


def test_no_step_is_superfluous() -> None:
    """Left out alone, or as a second one, it permits what is not permitted with it."""
    for name in STEPS:
        more = [
            set(CELLS[row, fault]) - set(CELLS[tuple(n for n in row if n != name), fault])
            for row in rows()
            if name in row
            for fault in FAULTS
            if (row, fault) in CELLS
        ]
        assert any({"lost", "skipped", "repeated"} & words for words in more), name


@pytest.mark.parametrize(("row", "fault"), PLAYED, ids=str)
def test_a_cell_is_what_is_measured(row: Row, fault: str) -> None:
    outcome = play(row, fault)
    assert outcome.words == CELLS[row, fault]
    assert outcome.verdict != "violated"


def test_a_page_is_read_as_it_was_written() -> None:
    said = {"lost": ["order 1"], "repeated": ["order 2"]}
    cells = {
        (row, fault): Outcome(row, fault, said if len(row) == 2 else {})
        for row in rows()
        for fault in FAULTS
    }
    found = read(page(cells))
    assert found == {one: outcome.words for one, outcome in cells.items()}


def test_what_became_of_orders_is_told_apart() -> None:
    shop: Any = SimpleNamespace(kept={"a", "b", "c", "d"}, refused={"e"})
    told = judged(shop, ["b", "c", "c", "d", "e"], Counter({"c": 1, "d": 2}))
    assert told == {
        "lost": ["a"],
        "skipped": ["b", "e"],
        "repeated": ["c", "d"],
        "unavailable": ["e"],
    }
