"""A year of operations on a healthy cluster: no check may report a violation.

The table of all operations: docs/everyday.md. One alone: `python -m tests.kafka.everyday NAME`.
"""

from pathlib import Path

import pytest

from chaos.real.kafka.judge import Judge
from tests.kafka.everyday.operations import OPERATIONS
from tests.kafka.everyday.playing import Played, everyday_cluster, play

#: What every run must have shown, whatever else was done, unless it is undecided there.
SHOWN = {"L1", "L2", "L3", "L4", "L5", "L8", "C1", "C2", "G8"}


@pytest.fixture(scope="module")
def played(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    runs = tmp_path_factory.mktemp("everyday")
    with everyday_cluster(tmp_path_factory.mktemp("cluster"), judge) as administrator:
        all_of_them = play(OPERATIONS.values(), administrator, runs)
    return {one.operation.name: one for one in all_of_them}


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_happened_and_nobody_is_accused(played: dict[str, Played], name: str) -> None:
    one = played[name]
    assert not one.failure, one.failure
    assert one.evidence
    assert not one.scan, one.scan
    assert not one.named("violated"), one.told()


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_other_verdicts_are_those_that_are_expected(
    played: dict[str, Played], name: str
) -> None:
    one, expected = played[name], OPERATIONS[name]
    undecided = {check for checks in one.undecided().values() for check in checks}
    assert set(one.named("allowed")) <= expected.allowed, one.told()
    assert undecided <= expected.undecided, one.undecided()
    assert SHOWN - expected.undecided - expected.allowed <= set(one.named("holds")), one.told()


def test_the_page_tells_of_every_operation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "everyday.md").read_text("utf-8")
    for one in OPERATIONS.values():
        assert f"| {one.title} | {one.played} |" in page, one.name
