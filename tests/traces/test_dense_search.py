"""The law of evidence in small random traces of all kinds of calls, of which fixtures have none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.dense import dense_trace
from tests.traces.dense_search import contradicts, every_removal, searched
from tests.traces.evidence import Removal
from tests.traces.judging import SEEDED
from tests.traces.needs import looked
from traces.checks.catalogue import CHECKS
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED

FEW = 8  # removals of a trace; the search takes more


@given(seed=st.integers(0, 10**9))
@settings(max_examples=max(1, settings().max_examples // 10), phases=SEEDED)
def test_less_evidence_turns_no_verdict_round_where_findings_meet(seed: int) -> None:
    assert not [str(find) for find in searched(seed, FEW).finds]


@pytest.mark.parametrize(
    ("seed", "removal", "check", "verdict"),
    [
        # two records of one id at offsets that nobody tells are not known to be one
        (513122899, Removal("records.offset", "c1#0 0"), "G9", HOLDS),
        # a tombstone that an empty scan did not find may have been old
        (690481382, Removal("returned_ns", "scan"), "L18", VIOLATED),
        # a member that was told where to begin, nobody knows when, may have begun at the end
        (239401521, Removal("invoked_ns", "assign"), "G6", NOT_CHECKED),
        # whose file is cut off may have learnt that the log begins above
        (820211596, Removal("tail", "c0#0 1"), "L18", VIOLATED),
        (347427347, Removal("tail", "c0#0 0"), "L4", HOLDS),
        # a head was deleted only below what the final scan begins with
        (91821233, Removal("tail", "c0#0 3"), "L4", VIOLATED),
        # at which age a tombstone goes nobody tells: it may have been too young
        (640206153, Removal("meta", "topics/t/delete_retention_ms"), "L4", ALLOWED),
        # or old enough, and a reader that passed over it did not skip it
        (914590178, Removal("meta", "topics/t/delete_retention_ms"), "C1", VIOLATED),
        # who was assigned nobody knows where need not have begun where its group had committed
        (811625792, Removal("offsets", "c0#0 0"), "C6", VIOLATED),
        # what lies at an answer contradicts it, whatever may have been deleted below
        (953318102, Removal("invoked_ns", "q0#0"), "L16", VIOLATED),
        # a log start that was reported nobody knows when need not have been before a reset
        (626757339, Removal("returned_ns", "broker-1"), "C6", VIOLATED),
        # when a commit was done that nobody answered its return does not tell
        (919546138, Removal("returned_ns", "commit"), "S5", HOLDS),
        # what was read here was stored here, whatever its unanswered send tells
        (260157207, Removal("records.partition", "p0#0 2"), "L18", ALLOWED),
        # a reader passed over what the final scan found below a start that another was told
        (156701239, Removal("tail", "c0#0 0"), "C3", NOT_CHECKED),
        # a record that was sent twice may lie where nobody tells, and have replaced another
        (678403795, Removal("records.offset", "p0#0 5"), "L4", HOLDS),
        # a seek that failed nobody knows when may have been while a poll ran
        (667047143, Removal("invoked_ns", "seek"), "C2", VIOLATED),
        # an assignment that does not report its group may be one in the group
        (293165369, Removal("group", "assigned"), "G10", NOT_CHECKED),
        # one that does not report its member may be of another member, of a group made again
        (570626977, Removal("member", "c1#0 3"), "G1", VIOLATED),
        # a commit that returned nobody knows when may have been done after the first read
        (389315725, Removal("returned_ns", "commit"), "G10", ALLOWED),
    ],
    ids=str,
)
def test_nor_does_this_removal(seed: int, removal: Removal, check: str, verdict: str) -> None:
    trace = dense_trace(seed)
    before, after = (looked(one).verdict(CHECKS[check]) for one in (trace, removal(trace)))
    assert before.verdict == verdict
    assert not contradicts(after, before, removal)


def test_a_loss_may_be_compaction_where_nobody_tells_the_cleanup_policy() -> None:
    """A record that a tombstone may have replaced is undecided with and without the policy."""
    removal = Removal("meta", "topics/t/cleanup_policy")
    trace = dense_trace(887852031)
    for check in "L3", "L4":
        verdicts = [looked(one).verdict(CHECKS[check]) for one in (trace, removal(trace))]
        assert [(one.verdict, one.count) for one in verdicts] == [(NOT_CHECKED, 1)] * 2


def test_an_instance_that_a_process_tells_once_is_not_taken_away() -> None:
    """A process that names its instance nowhere is no static member: that is another trace."""
    taken = [str(removal) for removal in every_removal(dense_trace(231150789))]
    assert "instance of c1#0 0" not in taken
    assert "instance of c0#0 0" in taken


def test_many_promises_are_broken_there() -> None:
    runs = [looked(dense_trace(seed)) for seed in range(60)]
    broken = {id for id, c in CHECKS.items() for one in runs if one.verdict(c).verdict == VIOLATED}
    assert len(broken) >= 30
