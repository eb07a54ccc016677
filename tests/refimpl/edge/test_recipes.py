"""The recipes of docs/testing.md do what they say."""

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_every_recipe_does_what_it_says() -> None:
    ran = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.REPORT_NDIFF, encoding="utf-8"
    )
    assert ran.attempted >= 12
    assert ran.failed == 0
