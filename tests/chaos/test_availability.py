"""Progress is demanded while faults last, and not only when all is well again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import pytest

from chaos.campaign import first_failing_seed
from chaos.sim.settings import LASTING, Settings
from chaos.simulator import build
from refimpl.broker.fetch import Fetches
from refimpl.broker.leader import Leader
from refimpl.broker.partition import Partition
from refimpl.broker.produce import Produces
from refimpl.controller.controller import Controller

HEALTHY = 5


def an_isr_that_never_shrinks() -> AbstractContextManager[object]:
    """A leader waits for ever for who has left."""
    return patch.object(Partition, "laggards", lambda self, since: [])  # pyright: ignore


def a_session_that_never_ends() -> AbstractContextManager[object]:
    """The controller waits for ever for who is silent."""
    return patch.object(Controller, "_end_sessions")


def an_answer_that_is_never_given() -> AbstractContextManager[object]:
    """Leave Produce requests unanswered after their records are committed."""
    return patch.object(Produces, "committed")


Bug = Callable[[], AbstractContextManager[object]]


@pytest.mark.parametrize("seed", range(HEALTHY))
def test_what_a_lasting_fault_does_not_hit_goes_on(seed: int) -> None:
    run = build(Settings.draw(seed, files=False, lasting=True)).go()
    assert run.violation is None
    assert {fault.what for fault in run.script} <= set(LASTING)
    assert run.progress.availability is not None


@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        (an_isr_that_never_shrinks, 4),
        (a_session_that_never_ends, 0),
        (an_answer_that_is_never_given, 0),
    ],
)
def test_a_bug_that_healing_hides_is_found_while_a_fault_lasts(bug: Bug, seed: int) -> None:
    with bug():
        found = first_failing_seed(range(seed, seed + 20), files=False, lasting=True)
        assert build(Settings.draw(seed, files=False)).go().violation is None
    assert found is not None
    assert found.oracle == "Availability"


def test_a_leader_alone_in_sync_that_does_not_commit_is_found_before_the_healing() -> None:
    """As it was found to survive once: followers that fetch, or that leave, hide it later."""

    def appended(self: Leader, now: int, partition: Partition) -> None:
        Fetches.check(self.fetches, now, partition)

    with patch.object(Leader, "appended", appended):
        run = build(Settings.draw(3, files=False)).go()
    assert run.settings.min_isr == 1
    assert run.violation is not None
    assert run.violation.oracle == "Progress"
    assert run.progress.healed_at < 0


def test_faults_that_last_want_a_controller_that_does_not_fail() -> None:
    assert not Settings.draw(0, store=False, lasting=True).store
    with pytest.raises(ValueError, match="lasting"):
        Settings(store=True, lasting=True).check()
