"""Words that the code once had of its own, where the field has a term: no name uses them again."""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("traces", "tests/traces")
FORMER = {
    "place": "partition, offset or location",
    "placed": "partition, offset or location",
    "unplaced": "of unknown partition, or of unknown offset",
    "told": "reported",
    "lie": "anomaly",
    "lies": "anomaly",
    "world": "fixture",
    "scene": "scenario",
    "parcel": "packed batch",
    "stint": "range",
    "survey": "statistics",
    "rejudge": "second checker",
    "dice": "rng",
    "shelf": "catalogue",
    "tier": "pre-check",
}
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")


def words(name: str) -> set[str]:
    """The words of a name, in singular: `_by_place`, `UnknownPlace` and `PLACES` all say place."""
    parts = {part.lower() for part in _PART.findall(name)}
    return parts | {part.removesuffix("s") for part in parts}


def names(path: Path) -> Iterator[str]:
    """The names in a module, with its own; a test's name is a sentence of plain English."""
    yield path.stem
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.NAME and not token.string.startswith("test_"):
                yield token.string


@pytest.mark.parametrize("name", ["place", "_by_place", "UnknownPlace", "MOST_TOLD", "tiers"])
def test_a_former_word_is_found_in_every_spelling(name: str) -> None:
    assert words(name) & FORMER.keys()


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_uses_a_word_that_the_field_does_not(room: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}, say {FORMER[word]}"
        for path in (ROOT / room).rglob("*.py")
        for name in names(path)
        for word in words(name) & FORMER.keys()
    }
    assert not found, "\n".join(sorted(found))
