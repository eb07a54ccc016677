"""Run clients' own test suites on our broker and on Kafka 4.3.1: `make test-suites`.

No test that passes on Kafka may fail here, but for a reason that the catalogue gives. What became
of each test is kept in `tests/suites/results.json`, from which docs/wire.md has its table. Needs
Maven, Go and Git, and half an hour. Exit 1 where a test fails here without a reason.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.kafka.judge import Broker, Judge, free_port
from tests.suites.catalogue import SETTINGS, SUITES
from tests.suites.results import everything, keep, unexplained


@contextmanager
def kafka() -> Generator[str]:
    """Kafka 4.3.1, a broker of one node; answers its address."""
    with tempfile.TemporaryDirectory() as name:
        tools = Judge.start()
        broker = Broker(Path(name), {**SETTINGS, "log.cleaner.enable": "false"})
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{broker.address}"
        broker.format(tools)
        tools.stop()
        with broker.running():
            yield broker.address


@contextmanager
def ours() -> Generator[str]:
    """`highwater broker`, with its logs in files; answers its address."""
    highwater = Path(sys.executable).with_name("highwater")
    port = free_port()
    settings = {**SETTINGS, "offsets.topic.num.partitions": "2"}
    settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    given = [f"--set={name}={value}" for name, value in settings.items()]
    with tempfile.TemporaryDirectory() as name:
        command = [highwater, "broker", "--port", str(port), "--data", name, *given]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            process.wait(60)


SYSTEMS: Mapping[str, Callable[[], AbstractContextManager[str]]] = {"kafka": kafka, "ours": ours}


def main() -> int:
    """Run, keep and compare."""
    parser = argparse.ArgumentParser(prog="make test-suites", description=__doc__)
    parser.add_argument("--suite", nargs="*", choices=SUITES, default=list(SUITES))
    parser.add_argument("--on", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--sources", type=Path, help="a folder of checkouts, by suite")
    given = parser.parse_args()
    broken: list[str] = []
    for name in given.suite:
        suite = SUITES[name]
        for system in given.on:
            folder = suite.folder(given.sources)
            with SYSTEMS[system]() as address:
                found = dict(sorted(suite.run(suite, folder, address).items()))
            print(
                f"{name} {suite.version} on {system}: {dict(Counter(found.values()))}", flush=True
            )
            results = everything()
            results.setdefault(name, {})[system] = found
            keep(results)
        kept = everything()[name]
        if kept.keys() >= SYSTEMS.keys():
            missed = unexplained(name, kept["kafka"], kept["ours"])
            broken += [f"{name}: {test} passes on Kafka, and here it has not" for test in missed]
    print("\n".join(broken) or "no test that passes on Kafka fails here without a reason")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
