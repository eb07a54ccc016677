"""The catalogue of checks: what each entry consists of, and how many files one touches."""

from collections import Counter
from pathlib import Path

from traces.checks.catalogue import CHECKS
from traces.verdicts.sentences import found

ROOT = Path(__file__).parents[2]


def test_every_guarantee_of_the_table_is_answered() -> None:
    families = Counter(id[0] for id in CHECKS)
    assert list(CHECKS) == [f"{one}{n + 1}" for one, many in families.items() for n in range(many)]
    assert list(families) == list("LPTCGSA")


def test_a_check_stands_in_four_files() -> None:
    """So many are touched by whoever adds one, as CONTRIBUTING.md shows with this one."""
    files = (ROOT / "traces").rglob("*.py")
    named = [str(file.relative_to(ROOT)) for file in files if '"G12"' in file.read_text()]
    assert sorted(named) == [
        "traces/checks/fencing.py",
        "traces/generate/scenarios/exactly.py",
        "traces/generate/small/exactly_once.py",
        "traces/second_checker/handover.py",
    ]
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    assert all(file in contributing for file in named)


def test_there_is_a_sentence_for_every_check() -> None:
    for id in CHECKS:
        assert "{" not in found(id, 1) + found(id, 2)
    assert found("L4", 2_732) == "2,732 acknowledged records are missing from the log at the end"
