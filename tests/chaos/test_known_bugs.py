"""Every oracle is shown to bite: known bugs are put into the machines, and found in few seeds."""

from math import inf
from unittest.mock import patch

import pytest

from chaos.campaign import first_failing_seed
from chaos.shrink import shrink
from chaos.sim.settings import Settings
from chaos.simulator import build
from properties.mutants.catalogue import applied, catalogue
from refimpl.broker.produce import Produces

# (a mutant of the catalogue, the oracle that sees it, the first of 120 seeds that are asked; it is
# one that sees it, as long as runs stay as they are)
FOUND = [
    ("truncates_to_high_watermark", "CommittedInIsr", 11),
    ("offsets_are_enough", "CommittedInIsr", 1),
    ("follower_adopts_the_leaders_list", "LogMatching", 0),
    ("promotion_commits_everything", "CommittedInIsr", 0),
    ("promotion_resets_the_high_watermark", "HighWatermarkMonotone", 0),
    ("high_watermark_above_the_log", "HighWatermarkInLog", 0),
    ("commits_by_majority", "CommittedInIsr", 0),
    ("commits_below_min_isr", "CommittedInIsr", 6),
    ("joins_before_the_epoch_starts", "CommittedInIsr", 46),
    ("serves_older_epochs", "EndsAreTrue", 0),
    ("counts_an_earlier_incarnation", "EndsAreTrue", 1),
    ("writes_in_the_last_records_epoch", "OneLeaderPerEpoch", 0),
    ("leads_in_an_older_epoch", "EpochsAscend", 0),
    ("elects_from_outside", "LeaderInIsr", 18),
    ("leader_stays_in_the_elr", "ElrOutsideIsr", 7),
    ("crash_goes_undetected", "CommittedInIsr", 45),
    ("never_elects_from_the_elr", "Progress", 7),
    ("commits_before_processing", "AtLeastOnce", 0),
    ("processes_before_the_answer", "AtMostOnce", 12),
]


@pytest.mark.parametrize(("bug", "oracle", "seed"), FOUND)
def test_a_known_bug_is_found(bug: str, oracle: str, seed: int) -> None:
    with applied(catalogue()[bug]):
        seen: set[str | None] = set()
        at = seed
        while oracle not in seen:
            found = first_failing_seed(range(at, seed + 120), files=False)
            assert found is not None, f"only {seen} within 120 seeds"
            seen.add(found.oracle)
            at = found.seed + 1


def test_acknowledging_what_waited_before_a_demotion_is_found() -> None:
    with patch.object(Produces, "give_up"):
        found = first_failing_seed(range(98, 118), files=False)
    assert found is not None
    assert found.oracle == "AckedSurvives"


def test_a_failing_run_becomes_small_and_still_breaks_the_same_promise() -> None:
    short = {"events": 60_000, "files": False, "fault_ms": 3000, "partitions": 1}
    plain = {
        "transactions": False,
        "share_members": 0,
        "reconfigures": False,
        "static_members": False,
    }
    with applied(catalogue()["truncates_to_high_watermark"]):
        found = first_failing_seed(range(24, 54), **short)
        assert found is not None
        failed = build(Settings.draw(found.seed, **plain, **short)).go()
        small = shrink(failed, budget=40, cpu_s=inf).run
        assert small.violation is not None
        assert small.violation.oracle == found.oracle
        assert len(small.script) <= 4 < len(failed.script)
        again = build(small.settings, small.script).go()
        assert str(again.violation) == str(small.violation)
    assert build(small.settings, small.script).go().violation is None


def test_news_that_come_late_or_never_find_a_leader_that_trusts_what_it_knew() -> None:
    """Another one led in between, and cut: what followers had then is no longer there."""
    good = {"drop": 0.0, "duplicate": 0.0, "stray": 0.0, "jitter_ms": 1}
    short = {"files": False, "gap_ms": 60, "fault_ms": 4000, "budget": 200_000}
    with applied(catalogue()["keeps_what_it_knew_of_followers"]):
        found = first_failing_seed(range(22, 30), faults=("lag", "elect"), **good, **short)
        assert found is not None
        assert found.oracle == "CommittedInIsr"
        assert first_failing_seed(range(22, 28), faults=("elect",), **good, **short) is None
