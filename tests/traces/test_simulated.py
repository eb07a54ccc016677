"""Runs of the simulator whose oracles see no broken promise: no check calls one violated either."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from chaos.recording import write_history
from chaos.sim.settings import Settings
from chaos.simulator import build
from tests.traces.judging import SEEDED, examples, judged, said


@given(seed=st.integers(0, 10**6), deletes=st.booleans(), unclean=st.booleans())
@example(seed=10, deletes=True, unclean=False)  # L1: of two records at one offset both were deleted
@example(seed=1021, deletes=False, unclean=False)  # G7, G9: a late commit's copy put the group back
@example(seed=1043, deletes=False, unclean=False)  # G1, G4, G7: its log lost a generation
@example(seed=3, deletes=True, unclean=True)  # all is deleted, and what is left may be lost
@settings(max_examples=examples(3), phases=SEEDED)
def test_what_the_oracles_let_pass_no_check_calls_violated(
    seed: int, deletes: bool, unclean: bool
) -> None:
    held = {"unclean": True} if unclean else {}  # otherwise as the seed has it
    drawn = Settings.draw(seed, store=False, files=False, deletes=deletes, **held)
    run = build(drawn, history=True).go()
    assert run.violation is None
    with TemporaryDirectory() as folder:
        one = judged(write_history(run, Path(folder)))
    assert one.error is None
    assert said(one, "violated") == set()


def test_what_a_run_deleted_is_judged(tmp_path: Path) -> None:
    """Polls tell log starts, the purger its calls, and the scan where logs begin."""
    drawn = Settings.draw(1, store=False, files=False, deletes=True)
    one = judged(write_history(build(drawn, history=True).go(), tmp_path))
    assert {"A2", "L4", "L20"} <= said(one, "holds")
