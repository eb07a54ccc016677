"""Cost of the pytest plugin, in CPU seconds: the first test of a run, each further one, judging.

    python bench/bench_plugin.py [--rounds 5] [--tests 50]

Each figure is of a whole run of pytest in a process of its own, with the bytecode that an earlier
run has written, as after an installation. The first test is held against a
run whose one test does nothing, and a further one is what `--tests` of them cost beyond one, for
each. Rounds alternate and the least of each counts: the machine may be busy with other things.
Judging is measured in this process, around `Trace.finish`: clients closed, log read, all checks.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

ck: Any = import_module("confluent_kafka")

PLAIN = "def test(): pass\n"
FURTHER = "import pytest\n@pytest.mark.parametrize('n', range({count}))\ndef test(n{more}): pass\n"
#: A cluster that has a topic and is ready for groups
CLUSTERS: Mapping[str, str] = {
    "one broker": "",
    "three brokers": "pytestmark = pytest.mark.kafka(brokers=3)\n",
}


def cpu_of(folder: Path, text: str) -> float:
    """CPU seconds of a run of pytest on this file."""
    (folder / "test_it.py").write_text(text)
    before = getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=_environment(folder))
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environment(folder: Path) -> dict[str, str]:
    """Bytecode is kept, whatever this machine says: who installs a package has it compiled."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def cases(tests: int) -> dict[str, str]:
    """Test files by their names."""
    found = {"plain": PLAIN, "plain, many": FURTHER.format(count=tests, more="")}
    for name, marker in CLUSTERS.items():
        for many, count in (("", 1), (", many", tests)):
            body = FURTHER.format(count=count, more=", kafka, kafka_topic")
            found[name + many] = body.replace("import pytest\n", f"import pytest\n{marker}")
    return found


def judging(rounds: int, folder: Path) -> dict[str, float]:
    """CPU seconds of a trace's end in this process, and how long the last ones took at least."""
    from refimpl.edge.testing.kafka import Kafka
    from traces.testing import Trace

    spent: list[float] = []
    took: list[float] = []
    for number in range(rounds + 1):
        with Kafka(brokers=3, topics={"orders": 1}) as kafka:
            trace = Trace(kafka, folder / f"run-{number}")
            _work(kafka, trace)
            begin, started = time.process_time(), time.perf_counter()
            told = trace.finish()
            spent.append(time.process_time() - begin)
            took.append(time.perf_counter() - started)
            assert told is None, told
    further = {"each further one": min(spent[1:]), "that one's wall time": min(took[1:])}
    return {"the first, with imports": spent[0], **further}


def _work(kafka: Any, trace: Any) -> None:
    """A producer and a consumer: ten records, each processed and committed."""
    producer = trace.record(ck.Producer, kafka.conf(acks="all", log_level=0))
    for number in range(10):
        producer.produce("orders", b"%d" % number)
    producer.flush(30)
    conf = kafka.conf(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer = trace.record(ck.Consumer, conf, commit_order="process_then_commit")
    consumer.subscribe(["orders"])
    for _ in range(10):
        message = consumer.poll(30)
        consumer.processed(message)
        consumer.commit(message=message, asynchronous=False)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description="What the pytest plugin costs.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=50)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cost: dict[str, float] = {}
        for text in cases(1).values():
            cpu_of(folder, text)
        for _ in range(args.rounds):
            for case, text in cases(args.tests).items():
                cost[case] = min(cost.get(case, 1e9), cpu_of(folder, text))
        print(f"{'pytest with one test that does nothing':48}{cost['plain']:8.3f} CPU-s")
        many = args.tests - 1
        for case in CLUSTERS:
            first = cost[case] - cost["plain"]
            nothing = (cost["plain, many"] - cost["plain"]) / many
            further = (cost[f"{case}, many"] - cost[case]) / many - nothing
            print(f"{f'first test, {case}, a topic, groups':48}{first:8.3f} CPU-s more")
            print(f"{f'each further test, {case}, a topic, groups':48}{further * 1000:8.1f} ms")
        for which, seconds in judging(4 * args.rounds, folder).items():
            print(f"{f'judging a trace of 10 records, {which}':48}{seconds * 1000:8.1f} ms")


if __name__ == "__main__":
    main()
