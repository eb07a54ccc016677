"""Measurements: CPU-seconds and memory of this process and of all below it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Event, Thread
from typing import Any, TypeVar

import psutil
from attrs import define, field, frozen

Answer = TypeVar("Answer")
_SECONDS = 0.2  # between two looks at the memory


@frozen
class Cost:
    """CPU-seconds and memory of a piece of work."""

    cpu: float  # seconds
    wall: float  # seconds
    memory: int  # bytes of all processes together, at most
    python: int  # bytes of the largest Python process

    def rate(self, rows: int) -> float:
        """Millions of rows per CPU-second."""
        return rows / max(self.cpu, 0.01) / 1e6


@define
class _Peaks:
    memory: int = 0
    python: int = 0
    done: Event = field(factory=Event)

    def watch(self) -> None:
        """Look now and then, until it is done."""
        while True:
            total = 0
            for process in _living():
                with suppress(psutil.NoSuchProcess):
                    size = process.memory_info().rss
                    total += size
                    if "python" in process.name():
                        self.python = max(self.python, size)
            self.memory = max(self.memory, total)
            if self.done.wait(_SECONDS):
                return


def cpu_seconds() -> float:
    """Of the whole tree so far, with processes that have ended."""
    total = 0.0
    for process in _living():
        with suppress(psutil.NoSuchProcess):
            times: Any = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def spent(work: Callable[[], Answer]) -> tuple[Answer, Cost]:
    """Do it, and say what it cost."""
    peaks = _Peaks()
    watcher = Thread(target=peaks.watch)
    watcher.start()
    try:
        cpu, wall = cpu_seconds(), time.perf_counter()
        answer = work()
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    finally:
        peaks.done.set()
        watcher.join()
    return answer, Cost(cpu, wall, peaks.memory, peaks.python)


def timed(what: str, rows: int, work: Callable[[], Answer]) -> tuple[Answer, Cost]:
    """As `spent`, and print it as a line of a table."""
    answer, cost = spent(work)
    print(
        f"  {what:<34} {cost.cpu:8.2f} CPU-s {cost.wall:8.2f} s {cost.rate(rows):7.3f} M rows"
        f" per CPU-s {cost.memory / 1e6:7,.0f} MB, {cost.python / 1e6:6,.0f} in one Python",
        flush=True,
    )
    return answer, cost


def conditions() -> str:
    """The machine of a measurement, and its other load."""
    cores, load = psutil.cpu_count(), psutil.getloadavg()[0]
    return f"Python {sys.version.split()[0]}, {cores} cores, load {load:.1f}"


def _living() -> Iterator[psutil.Process]:
    me = psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        if process.is_running():
            yield process
