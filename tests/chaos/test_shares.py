"""Share groups in the simulator: clean runs, bugs that are found, and other seeds as they were."""

from collections import Counter
from pathlib import Path

import pytest
from attrs import evolve

from chaos.faults.script import Fault, expand
from chaos.recording import write_history
from chaos.sim.settings import SHARE_FAULTS, Settings
from chaos.simulator import Run, build, trace_hash
from highwater import check, load
from tests.chaos.share_mutants import BUGS, PLAIN
from tests.chaos.transaction_mutants import TransactionBug


def played(seed: int, **fixed: object) -> Run:
    return build(Settings.draw(seed, **{**PLAIN, **fixed}), history=True).go()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_known_bug_of_share_groups_is_found(bug: TransactionBug) -> None:
    with bug.there():
        found = bug.play(bug.seed)
    assert found.oracle == bug.oracle, found.what
    assert bug.play(bug.seed).oracle is None


def test_runs_of_every_kind_are_clean_and_meet_what_they_are_about() -> None:
    counts = Counter[str]()
    for seed, fixed in (
        (0, {}),
        (1, {"deletes": True}),
        (2, {"transactions": True, "share_isolation": "read_committed"}),
        (3, {"transactions": True, "share_isolation": "read_uncommitted"}),
        (4, {"files": True, "fault_ms": 1000}),
        (5, {"store": True, "share_delivery_limit": 2}),
        (6, {"share_acknowledge": "implicit", "share_members": 3}),
        (4, {"transactions": True, "clocks": True, "share_members": 3}),  # locks by those clocks
    ):
        run = played(seed, **fixed)
        assert run.violation is None, (seed, run.violation)
        counts += run.simulation.counts
    for what in (
        "records lent again",
        "records lent for the last time",
        "ends of records answered",
        "share partitions loaded",
        "acknowledgements answered: INVALID_RECORD_STATE",
        "share heartbeats refused: NOT_COORDINATOR",
        *(f"fault: {what}" for what in SHARE_FAULTS),
    ):
        assert counts[what], what


def test_a_state_is_initialised_after_an_answer_that_waited_for_long() -> None:
    """Its time was that of the request, and so a timer was set for a time that was over."""
    fixed = {"share_members": 2, "files": False, "fault_ms": 2000}
    assert build(Settings.draw(556, **fixed)).go().violation is None


@pytest.mark.parametrize("seed", range(3))
def test_the_checks_of_traces_judge_a_share_group(seed: int, tmp_path: Path) -> None:
    run = played(seed)
    judged = check(load(write_history(run, tmp_path)))
    verdicts = {one: judged[one].verdict for one in ("S1", "S2", "S3")}
    assert set(verdicts.values()) <= {"holds", "allowed"}, verdicts
    assert judged["S2"].verdict == "holds"


def test_a_clock_moves_only_with_a_process_that_ends() -> None:
    """Without overlap the fault asked twice whether the broker may end, and moved the clock of one
    that went on."""
    run = build(Settings.draw(720057, share_members=2, fault_ms=1500)).go()
    assert run.simulation.counts["fault: clock"]
    assert run.violation is None


def test_a_release_below_a_log_start_that_did_not_last_says_nothing() -> None:
    """Records were deleted at a leader alone; the next one had them, and gave one anew."""
    run = build(Settings.draw(720136, share_members=2, fault_ms=1500)).go()
    assert run.violation is None


def test_no_session_is_opened_on_a_connection_that_is_over() -> None:
    """A session of a connection that was over took the place of its member's next one for good."""
    assert build(Settings.draw(720148, share_members=2)).go().violation is None


def test_a_second_holder_in_a_healthy_run_is_allowed(tmp_path: Path) -> None:
    """A leader was replaced, or success below the start is no proof that a record was held."""
    run = played(90, share_members=3, fault_ms=6000)
    assert check(load(write_history(run, tmp_path)))["S1"].verdict == "allowed"


def test_a_fifth_of_the_seeds_have_a_share_group_and_the_others_do_not_depend_on_it() -> None:
    drawn = [Settings.draw(seed) for seed in range(500)]
    assert 75 < sum(one.share_members > 0 for one in drawn) < 125
    one = next(one for one in drawn if not one.share_members)
    other = evolve(one, share_lock_ms=1, share_locks=1, share_isolation="read_committed")
    assert expand(one) == expand(other)
    short = {"files": False, "fault_ms": 500}
    assert trace_hash(evolve(one, **short)) == trace_hash(evolve(other, **short))


def test_faults_of_share_groups_are_kept_in_scripts_and_told_in_words() -> None:
    script = tuple(
        fault
        for seed in range(4)
        for fault in expand(Settings.draw(seed, share_members=2, fault_ms=20_000))
    )
    assert {one.what for one in script} >= set(SHARE_FAULTS)
    assert tuple(Fault.from_json(one.as_json()) for one in script) == script
    told = " ".join(str(one) for one in script)
    for words in ("crash share member", "leave all share members", "with each record"):
        assert words in told


def test_a_share_group_does_not_go_with_faults_that_last() -> None:
    seed = next(seed for seed in range(99) if Settings.draw(seed).share_members)
    assert not Settings.draw(seed, lasting=True).share_members
    with pytest.raises(ValueError, match="lasting: expected without share_members"):
        Settings.draw(seed, lasting=True, share_members=1).check()
