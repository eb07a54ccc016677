"""CPU-seconds of reading and judging traces of four sizes, without Spark.

Usage: python -m bench.bench_sizes [--rounds 15] [--messages 3000 300000]

Tests of applications judge traces of a few calls many times over; a large trace is judged once.
The first trace has nine calls. The second is the fixture of the tests: forty files of a dozen calls
each. Traces of N messages are generated (`highwater generate`). The least of all rounds counts,
because the machine may be busy with other things.
"""

import argparse
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

from bench.bench_check import made_up
from bench.measuring import conditions
from tests.traces.fixture import fixture, write
from traces.engines import local
from traces.ingest.run import Run, read_trace
from traces.verdicts.judged import Judged

small: Any = import_module("tests.traces.small")
SEED = 3
BUSY_S = 3.0  # a large trace has fewer rounds


def tiny(folder: Path) -> Path:
    """Two producers' records, read by one consumer: nine calls with those that close."""
    sent = [small.sent(f"p{n % 2}#0", n + 1, n) for n in range(3)]
    records = [small.record(n + 1, n) for n in range(3)]
    lines, meta = small.trace(*sent, small.polled("c0#0", *records), small.scan(*records, end=3))
    return write(folder, lines, meta)


def of_fixture(folder: Path) -> Path:
    """The fixture of the tests."""
    made = fixture(SEED)
    return write(folder, made.lines, made.meta)


def least(rounds: int, work: Callable[[], Any]) -> float:
    """CPU-seconds of the cheapest round."""
    times: list[float] = []
    while len(times) < (rounds if not times or sum(times) < BUSY_S else 2):
        begun = process_time()
        work()
        times.append(process_time() - begun)
    return min(times)


def settled(run: Run, found: list[dict[str, Any]]) -> Judged:
    """The verdicts of a run."""
    one = Judged(run.path, run)
    one.settle(found, strict=False)
    return one


def measure(path: Path, rounds: int) -> None:
    """Print a line for this trace."""
    run = read_trace(path)
    table, rows = run.table(0), run.rows
    found = local.find(table, {0: run.context})
    costs = {
        "read": least(rounds, lambda: read_trace(path)),
        "judge": least(rounds, lambda: local.find(run.table(0), {0: run.context})),
        "settle": least(rounds, lambda: settled(run, found)),
    }
    whole = sum(costs.values())
    print(f"{path.name:<10} {run.calls:>9,} calls {rows:>10,} rows", end="")
    for name, cost in costs.items():
        print(f"  {name} {1000 * cost:9.1f} ms", end="")
    print(f"  all {1000 * whole:9.1f} CPU-ms", flush=True)


def main() -> None:
    """Print a line for each trace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--messages", type=int, nargs="*", default=[3_000, 300_000])
    args = parser.parse_args()
    print(conditions())
    with tempfile.TemporaryDirectory(prefix="highwater-bench-") as scratch:
        folder = Path(scratch)
        measure(tiny(folder / "tiny"), args.rounds)
        measure(of_fixture(folder / "fixture"), args.rounds)
        for messages in args.messages:
            measure(made_up(folder / f"{messages}", messages), args.rounds)


if __name__ == "__main__":
    main()
