"""Makes a failing run small: fewer faults, then shorter ones, then a simpler cluster.

A smaller run counts if it breaks the same promise. It draws other random numbers, because every
message draws some. So each step is tried, and kept only if the run still fails.
"""

from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from attrs import evolve, field, frozen

from chaos.faults.script import Fault, Script
from chaos.sim.settings import Settings
from chaos.simulator import Run, build

Progress = Callable[[int, int], None]

# Each makes the cluster or its surroundings simpler; what does not help is left as it was.
SIMPLER: tuple[dict[str, Any], ...] = (
    {"partitions": 1},
    {"acks": ("all",)},
    {"consumers": 1},
    {"drop": 0.0},
    {"duplicate": 0.0},
    {"stray": 0.0},
    {"idempotence": False},
    {"jitter_ms": 0},
    {"delay_ms": 1},
    {"elr": False},
    {"unclean": False},
    {"lossy": False},
    {"fetch_limit": 10},
)


@frozen
class Shrunk:
    """The smallest failing run that was found, and after how many runs."""

    run: Run
    runs: int
    faults_before: int


class _Spent(Exception):
    """The budget is spent; the best result so far is used."""


@frozen
class _Search:
    oracle: str
    best: list[Run]
    budget: int
    until: float
    progress: Progress | None
    runs: list[int] = field(factory=lambda: [0])

    def fails(self, settings: Settings, script: Script) -> bool:
        """Run it; if it breaks the same promise, it is the best so far."""
        if self.runs[0] >= self.budget or process_time() > self.until:
            raise _Spent
        self.runs[0] += 1
        tried = build(settings, script).go()
        if tried.violation is None or tried.violation.oracle != self.oracle:
            return False
        self.best[0] = tried
        if self.progress is not None:
            self.progress(self.runs[0], len(script))
        return True


def shrink(
    failed: Run, *, budget: int = 600, cpu_s: float = 20.0, progress: Progress | None = None
) -> Shrunk:
    """A run that breaks the same promise with as little as could be found."""
    assert failed.violation is not None
    search = _Search(failed.violation.oracle, [failed], budget, process_time() + cpu_s, progress)
    try:
        while True:
            before = _size(search.best[0])
            _fewer_faults(search)
            _smaller_faults(search)
            _shorter_waits(search)
            _simpler_cluster(search)
            if _size(search.best[0]) == before:
                break
    except _Spent:
        pass
    return Shrunk(search.best[0], search.runs[0], len(failed.script))


def _size(run: Run) -> tuple[int, int, Settings]:
    return len(run.script), sum(f.for_ms + f.at_ms for f in run.script), run.settings


def _fewer_faults(search: _Search) -> None:
    """Delta debugging: leave out ever smaller pieces (ddmin)."""
    pieces = 2
    while search.best[0].script:
        script = search.best[0].script
        size = max(1, len(script) // pieces)
        for start in range(0, len(script), size):
            if search.fails(search.best[0].settings, script[:start] + script[start + size :]):
                pieces = max(2, pieces - 1)
                break
        else:
            if size == 1:
                return
            pieces = min(len(script), pieces * 2)


def _smaller_faults(search: _Search) -> None:
    for index in range(len(search.best[0].script)):
        for smaller in _smaller(search.best[0].script[index]):
            settings, script = search.best[0].settings, search.best[0].script
            if search.fails(settings, (*script[:index], smaller, *script[index + 1 :])):
                break


def _smaller(fault: Fault) -> Iterator[Fault]:
    for for_ms in (10, fault.for_ms // 4, fault.for_ms // 2):
        if 0 < for_ms < fault.for_ms:
            yield evolve(fault, for_ms=for_ms)


def _shorter_waits(search: _Search) -> None:
    """Let everything from a fault on happen earlier."""
    for index in range(len(search.best[0].script)):
        script = search.best[0].script
        wait = script[index].at_ms - (script[index - 1].at_ms if index else 0)
        for less in (wait - wait // 8, wait - wait // 4, wait // 2):
            moved = tuple(evolve(fault, at_ms=fault.at_ms - less) for fault in script[index:])
            if less and search.fails(search.best[0].settings, script[:index] + moved):
                break


def _simpler_cluster(search: _Search) -> None:
    run = search.best[0]
    end = min(run.settings.fault_ms, run.now_ms + 1)
    slower = {"produce_ms": run.settings.produce_ms * 2} if run.settings.produce_ms < 200 else {}
    for change in ({"fault_ms": end}, *SIMPLER, slower):
        settings = search.best[0].settings
        simpler = evolve(settings, **change)
        script = tuple(f for f in search.best[0].script if f.at_ms < simpler.fault_ms)
        if change.get("consumers") and any(f.what.startswith("member") for f in script):
            continue
        if simpler != settings:
            search.fails(simpler, script)
