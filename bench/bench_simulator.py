"""The simulator with the real node and all oracles: events per CPU-second, in memory and on files.

A yardstick runs beside it, because a shared machine is not the same machine twice: named tuples
made and put through a heap.
"""

import sys
from heapq import heappop, heappush
from time import process_time
from typing import Any

from chaos.sim.settings import Settings
from chaos.simulator import build
from refimpl.messages.broker import Request

SEEDS = {"memory": 30, "files": 6}


def rate(seeds: int, **fixed: Any) -> float:
    """Events per CPU-second over so many seeds; every one of them has to be clean."""
    start, events = process_time(), 0
    for seed in range(seeds):
        run = build(Settings.draw(seed, **fixed)).go()
        if run.violation is not None:
            sys.exit(f"seed {seed}: {run.violation}")
        events += run.events
    return events / (process_time() - start)


def yardstick(count: int = 300_000) -> float:
    """Messages made, pushed and popped per CPU-second."""
    start = process_time()
    heap: list[tuple[int, int, Request]] = []
    for number in range(count):
        heappush(heap, (number % 97, number, Request(1, 2, number, None)))
        if len(heap) > 100:
            heappop(heap)
    return count / (process_time() - start)


def main() -> None:
    """Print the three rates."""
    print(f"yardstick  {yardstick():>9,.0f} messages per CPU-second")
    for disk, seeds in SEEDS.items():
        for transactions in (False, True):
            found = rate(seeds, files=disk == "files", store=False, transactions=transactions)
            what = f"{disk}, with transactions" if transactions else disk
            print(f"{what:<25} {found:>9,.0f} events per CPU-second, {seeds} seeds")


if __name__ == "__main__":
    main()
