"""CPU-seconds and seconds in which brokers make many partitions, stop cleanly, and start again.

    python bench/bench_stop.py [--partitions 50,300,1000] [--system ours|processes|kafka]
                               [--profile FOLDER]

Three brokers, three replicas, logs in files. Each partition is given a record of 100 B; then
SIGTERM goes to all processes, and the time runs until the last of them has ended. A start is on
what that stop has left, until the first record is acknowledged. `processes` is `highwater broker
--processes`. Kafka needs Maven and a JDK. With --profile, py-spy writes down where a stop's time
goes, a line for each stack.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from bench_beside import System, many_partitions  # noqa: E402
from bench_broker import AS_INSTALLED, first_acknowledgement  # noqa: E402

BROKERS = 3
LIMIT_S = 600.0
HIGHWATER = str(Path(sys.executable).with_name("highwater"))


@contextmanager
def ours(folder: Path, *more: str) -> Generator[System]:
    """`highwater broker`, on what the folder has."""
    command = [HIGHWATER, "broker", "--brokers", str(BROKERS), "--port", "0", "--data", str(folder)]
    command += [f"--set=default.replication.factor={BROKERS}", *more]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=AS_INSTALLED, text=True)
    try:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().split()[1]
        first_acknowledgement(bootstrap)
        started = time.perf_counter() - began
        parent = psutil.Process(process.pid)
        yield System("ours", bootstrap, [parent, *parent.children()], started)
    finally:
        process.terminate()
        process.wait(LIMIT_S)


@contextmanager
def kafka(folder: Path) -> Generator[System]:
    """Kafka 4.3.1, a process for each broker; stopped, it is not started again."""
    judge: Any = import_module("chaos.real.kafka.judge")
    cluster: Any = import_module("chaos.real.kafka.cluster")
    tools = judge.Judge.start()
    try:
        with cluster.cluster(folder, tools) as running:
            processes = [psutil.Process(one.process.pid) for one in running.nodes.values()]
            yield System("kafka", running.bootstrap, processes, 0.0)
    finally:
        tools.stop()


def stopped(system: System, profile: Path | None) -> tuple[float, float]:
    """CPU-seconds and seconds from SIGTERM to the end of the last process."""
    watched = None
    if profile is not None:
        pid = str(system.processes[0].pid)
        command = ["py-spy", "record", "-n", "-r", "200", "-d", "60", "-f", "raw", "-o"]
        watched = subprocess.Popen([*command, str(profile), "-p", pid], stderr=subprocess.DEVNULL)
        time.sleep(2)  # until it samples
    parent, spent = system.processes[0], dict[int, float]()
    before, began = system.cpu(), time.perf_counter()
    for one in system.processes if system.name == "kafka" else [parent]:
        one.send_signal(signal.SIGTERM)
    while alive := [one for one in system.processes if one.is_running()]:
        for one in alive:
            with suppress(psutil.Error):
                if one.status() == psutil.STATUS_ZOMBIE:
                    with suppress(ChildProcessError):
                        os.waitpid(one.pid, os.WNOHANG)
                times = one.cpu_times()
                spent[one.pid] = max(spent.get(one.pid, 0.0), times.user + times.system)
        time.sleep(0.005)
    wall = time.perf_counter() - began
    if watched is not None:
        watched.wait()
    return sum(spent.values()) - before, wall


def measured(start: Callable[[Path], Any], partitions: int, profile: Path | None) -> str:
    """A row of the table."""
    many: Any = import_module("bench_beside")
    many.MANY_PARTITIONS = partitions
    with tempfile.TemporaryDirectory() as name:
        with start(Path(name)) as system:
            cpu = system.cpu()
            made = many_partitions(system, BROKERS, LIMIT_S)
            cpu = system.cpu() - cpu
            ended = stopped(system, profile)
        figures = [f"{cpu:.1f}", f"{made:.1f}", *(f"{one:.2f}" for one in ended)]
        if system.name == "ours":
            with start(Path(name)) as system:
                figures += [f"{system.cpu():.1f}", f"{system.started_s:.1f}"]
    return f"| {partitions} | " + " | ".join(figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", default="50,300,1000")
    parser.add_argument("--system", choices=("ours", "processes", "kafka"), default="ours")
    parser.add_argument("--profile", type=Path, help="a folder")
    given = parser.parse_args()
    start: dict[str, Callable[[Path], Any]] = {
        "ours": ours,
        "processes": lambda folder: ours(folder, "--processes"),
        "kafka": kafka,
    }
    print(f"{given.system}, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores\n")
    print("| partitions | make: CPU s | s | stop: CPU s | s | start: CPU s | s |")
    print("|---|---|---|---|---|---|---|")
    for partitions in map(int, given.partitions.split(",")):
        profile = given.profile and given.profile / f"stop-{partitions}.txt"
        print(measured(start[given.system], partitions, profile), flush=True)


if __name__ == "__main__":
    main()
