"""Every oracle is shown to bite: known bugs are put into the machines, and found in few seeds."""

from unittest.mock import patch

import pytest

from chaos.campaign import first_failing_seed
from chaos.settings import Settings
from chaos.shrink import shrink
from chaos.sim.simulator import build
from properties.mutants.catalogue import applied, catalogue
from refimpl.broker.produce import Produces

# (a mutant of the catalogue, the oracle that sees it at one of the first 120 seeds)
FOUND = [
    ("truncates_to_high_watermark", "CommittedInIsr"),
    ("offsets_are_enough", "CommittedInIsr"),
    ("follower_adopts_the_leaders_list", "LogMatching"),
    ("promotion_commits_everything", "CommittedInIsr"),
    ("promotion_resets_the_high_watermark", "HighWatermarkMonotone"),
    ("high_watermark_above_the_log", "HighWatermarkInLog"),
    ("commits_by_majority", "CommittedInIsr"),
    ("commits_below_min_isr", "CommittedInIsr"),
    ("joins_before_the_epoch_starts", "CommittedInIsr"),
    ("serves_older_epochs", "EndsAreTrue"),
    ("counts_an_earlier_incarnation", "EndsAreTrue"),
    ("writes_in_the_last_records_epoch", "OneLeaderPerEpoch"),
    ("leads_in_an_older_epoch", "EpochsAscend"),
    ("elects_from_outside", "LeaderInIsr"),
    ("leader_stays_in_the_elr", "ElrOutsideIsr"),
    ("crash_goes_undetected", "CommittedInIsr"),
    ("never_elects_from_the_elr", "Progress"),
    ("zombies_commit", "CommitFenced"),
    ("overtaken_commits_count", "CommittedMonotone"),
    ("anybody_is_the_owner", "OneOwner"),
    ("commits_before_processing", "AtLeastOnce"),
    ("processes_before_the_answer", "AtMostOnce"),
]


@pytest.mark.parametrize(("bug", "oracle"), FOUND)
def test_a_known_bug_is_found(bug: str, oracle: str) -> None:
    with applied(catalogue()[bug]):
        seen: set[str | None] = set()
        at = 0
        while oracle not in seen:
            found = first_failing_seed(range(at, 120), files=False)
            assert found is not None, f"only {seen} within 120 seeds"
            seen.add(found.oracle)
            at = found.seed + 1


def test_acknowledging_what_waited_before_a_demotion_is_found() -> None:
    with patch.object(Produces, "give_up"):
        found = first_failing_seed(range(120), files=False)
    assert found is not None
    assert found.oracle == "AckedSurvives"


def test_a_failing_run_becomes_small_and_still_breaks_the_same_promise() -> None:
    with applied(catalogue()["truncates_to_high_watermark"]):
        found = first_failing_seed(range(120), events=60_000, files=False)
        assert found is not None
        failed = build(Settings.draw(found.seed, events=60_000, files=False)).go()
        small = shrink(failed).run
        assert small.violation is not None
        assert small.violation.oracle == found.oracle
        assert len(small.script) <= 4 < len(failed.script)
        again = build(small.settings, small.script).go()
        assert str(again.violation) == str(small.violation)
    assert build(small.settings, small.script).go().violation is None
