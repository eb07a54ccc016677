"""A member that was fenced commits what it polled before, with its new epoch.

The finding: docs/findings/kafka-stale-batch.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME = "kafka-stale-batch"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_late_commit_names_an_epoch_in_which_nothing_was_polled(run: Path) -> None:
    calls = played.lines(run, "first#0")
    poll, sent, ended = (
        [line for line in calls if line["op"] == op][-1]
        for op in ("poll", "txn_offsets", "txn_commit")
    )
    assert poll["txn"] == sent["txn"] == ended["txn"]
    assert poll["generation"] < sent["generation"]
    assert {sent["outcome"], ended["outcome"]} == {"ok"}


def test_the_check_names_both_transactions(run: Path) -> None:
    broken = played.broken(run)
    assert set(broken) == {"T10"}
    (witness,) = broken["T10"]
    assert [event["process"] for event in witness["events"]] == ["first#0", "second#0"]


@pytest.mark.parametrize("control", ["--listener", "--classic"])
def test_a_member_that_hears_of_it_before_it_joins_commits_nothing(
    tmp_path: Path, control: str
) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, control)
