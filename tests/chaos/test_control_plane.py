"""Controllers that a store elects: deposed, cut off and fenced, while all else goes wrong."""

from collections import Counter

from chaos.sim.settings import Settings
from chaos.simulator import build

SEEDS = range(15)
PLAIN = {
    "store": True,
    "transactions": False,
    "share_members": 0,
    "reconfigures": False,
    "static_members": False,
}


def test_every_promise_holds_while_controllers_come_and_go() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        run = build(Settings.draw(seed, store=True)).go()
        assert run.violation is None, f"seed {seed}: {run.violation}"
        counts += run.simulation.counts
    for met in (
        "controllers elected",
        "controllers deposed",
        "controllers that do not know that they are deposed",
        "a deposed controller's write refused: BADVERSION",
        "decisions of an earlier controller",
        "elections from the ELR",
        "reassignments begun",
        "reassignments over",
        "Fence",
        "GoOffline",
        "controlled shutdowns",
    ):
        assert counts[met] > 0, met


def test_a_process_whose_first_registration_nobody_saw_has_not_crashed() -> None:
    """It named its own epoch of before, which no controller knew, as that of the process before
    it: it lost its place in the ELR, and nobody led."""
    runs = [build(Settings.draw(seed, **PLAIN)).go() for seed in range(74751, 74756)]
    assert [run.violation for run in runs] == [None] * len(runs)
    assert sum(run.simulation.counts["elections from the ELR"] for run in runs) > 0
