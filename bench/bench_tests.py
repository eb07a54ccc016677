"""CPU-seconds of each test with all its parameters, and the list of those that are slow.

Usage: python -m bench.bench_tests [--write] [PYTEST ARGUMENTS]

Without arguments it runs all tests. `--write` makes `tests/slow.txt` anew: `make test` leaves these
tests to `make test-slow`. What a test starts and awaits is its own; a fixture that several share is
the first one's.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLOW = ROOT / "tests/slow.txt"
FOLDER = "HIGHWATER_CPU_SECONDS"
#: A test that takes longer is slow.
LIMIT_S = 6.0
HEAD = """\
# Tests that take more than six CPU-seconds: `make test-slow` runs them, and those with Spark;
# `make test` does not.
# `python -m bench.bench_tests --write` makes this list.
"""
#: Tests of the whole repository stay in `make test`: they report stale pages at once.
NEVER = ("tests/test_",)


def spent() -> float:
    """CPU-seconds of this process and of those that it has awaited."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write down what a test took, in a file of this worker's own."""
    folder = os.environ.get(FOLDER)
    begun = spent()
    answer = yield
    if folder:
        name = item.nodeid.partition("[")[0].partition("@")[0]
        with (Path(folder) / str(os.getpid())).open("a") as file:
            file.write(f"{spent() - begun:.3f} {name}\n")
    return answer


def measured(arguments: list[str]) -> Mapping[str, float]:
    """Run the tests; what each took."""
    everything = ["-m", "not kafka and not cluster and not newer_tlc"]
    workers = ["--numprocesses", "2", "--dist", "loadgroup"]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-p", "bench.bench_tests", *workers]
        environment = {**os.environ, FOLDER: folder}
        subprocess.run([*command, *everything, *arguments], check=True, cwd=ROOT, env=environment)
        return read(Path(folder))


def read(folder: Path) -> Mapping[str, float]:
    """The seconds of each test, as the workers wrote them down."""
    seconds: dict[str, float] = defaultdict(float)
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            took, name = line.split(" ", 1)
            seconds[name] += float(took)
    return seconds


def main() -> None:
    """Measure, print, and write the list if it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="make the list of slow tests anew")
    options, arguments = parser.parse_known_args()
    seconds = measured(arguments)
    slow = {name: s for name, s in seconds.items() if s > LIMIT_S and not name.startswith(NEVER)}
    for name, took in sorted(slow.items(), key=lambda one: -one[1]):
        print(f"{took:8.1f} {name}")
    print(f"{sum(seconds.values()):8.1f} in all, of which {sum(slow.values()):.1f} are slow")
    if options.write:
        SLOW.write_text(HEAD + "".join(f"{name}\n" for name in sorted(slow)))


if __name__ == "__main__":
    main()
