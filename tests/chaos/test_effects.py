"""A fault that is ordered and does nothing is noticed: a campaign demands the effects of faults."""

from typing import Any

import pytest

from chaos.campaign import SOMETIMES, Orders, Tally, results
from properties.mutants.edits import compiled, edited, function_at, patched, tree_of

# The effect, and an edit that takes it from the fault; settings in which a few seeds meet it
EFFECTS: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "messages that waited for a paused node": (
        "chaos.faults.nemesis:Nemesis._pause",
        "fault.for_ms",
        "0",
        {"faults": ("pause",)},
    ),
    "messages on slow links": (
        "chaos.faults.nemesis:Nemesis._slow",
        "network.slow_links(links, by_ms)",
        "network.slow_links([], by_ms)",
        {"faults": ("slow",)},
    ),
    "messages overtaken by others": (
        "chaos.sim.network:Network._strays_ms",
        "int(self._random() * STRAY_MS)",
        "0",
        {"faults": ("noise",), "stray": 0.05},
    ),
    "sends repeated": (
        "chaos.clients.producer:Producer._tick",
        "self._attempt(sending)",
        "pass",
        {"faults": ("crash",)},
    ),
    "sessions expired": (
        "chaos.faults.nemesis:Nemesis._cut",
        "network.cut_links(links)",
        "network.cut_links([])",
        {"faults": ("cut",), "session_ms": 120, "heartbeat_ms": 40},
    ),
}


def never(**fixed: Any) -> list[str]:
    tally = Tally()
    short = {
        "files": False,
        "store": False,
        "transactions": False,
        "share_members": 0,
        "fault_ms": 3000,
    }
    for result in results(range(3), Orders({**short, "reconfigures": False, **fixed})):
        tally.add(result)
    return tally.never()


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_fault_without_effect_is_noticed(effect: str) -> None:
    path, old, new, fixed = EFFECTS[effect]
    assert SOMETIMES[effect] not in never(**fixed)
    function = function_at(path)
    with patched({function: compiled(function, edited(tree_of(function), old, new))}):
        assert SOMETIMES[effect] in never(**fixed)
