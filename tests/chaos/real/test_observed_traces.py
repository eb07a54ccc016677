"""The steps that are left out of the traces of broker processes."""

from chaos.real.stored.observed_traces import without_repeated_fetches
from chaos.recorders.protocol_events import SubjectTrace, TracePlace


def steps(*actions: str) -> list[TracePlace]:
    """Of one partition: `lost 2` is a fetch of broker 2 that brings nothing."""
    trace = SubjectTrace("Replication", "orders:0", {})
    for action in actions:
        kind, _, follower = action.partition(" ")
        params = {"f": int(follower or 0), "l": 1}
        if kind == "lost":
            trace.reserve(0, params, "FetchLost")
        elif kind == "nothing":
            trace.reserve(0, params, None)
        else:
            trace.add(0, kind, params)
    return trace.steps


def told(found: list[TracePlace]) -> list[str]:
    return [f"{one.action or one.otherwise} {one.params['f']}" for one in found]


def test_a_fetch_that_brings_nothing_is_told_once_in_each_state() -> None:
    found = [*without_repeated_fetches(steps("lost 2", "lost 3", "lost 2", "nothing", "lost 3"))]
    assert told(found) == ["FetchLost 2", "FetchLost 3", "None 0"]


def test_behind_any_step_it_is_told_again() -> None:
    found = [*without_repeated_fetches(steps("lost 2", "Write", "lost 2", "Fetch 2", "lost 2"))]
    assert told(found) == ["FetchLost 2", "Write 0", "FetchLost 2", "Fetch 2", "FetchLost 2"]
