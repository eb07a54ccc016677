"""Cost of watching: the events that it keeps up with, and the time until it shows a finding.

    python bench/bench_watch.py [--rate 20000] [--seconds 60] [--partitions 12]

Another process writes a run with four producers and four consumers at that rate; an event is a
message sent, read or processed. Once a second there is an anomaly: an acknowledged offset is
acknowledged again, of another message. The watch looks as `highwater check --watch` does, and the
time from the line's write to the verdict is its latency. Then the same trace is watched from its
files at once, which tells what could be sustained.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from attrs import define, field

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from traces.watch import Watch  # noqa: E402
from traces.watch.loop import AT_LEAST, EVERY  # noqa: E402

CLIENTS, BATCH, TOPIC = 4, 50, "bench"
SAFE = {"min_insync_replicas": 2, "unclean_leader_election": False, "cleanup_policy": "delete"}
META = {
    "format": 1,
    "complete": False,
    "topics": {TOPIC: SAFE},
    "producers": {f"p{n}": {"acks": "all", "idempotence": True} for n in range(CLIENTS)},
    "consumers": {f"c{n}": {"group": "g", "isolation": "read_committed"} for n in range(CLIENTS)},
}


@define
class Writer:
    """Writes the files of a run, a few lines at a time."""

    folder: Path
    partitions: int
    _files: dict[str, Any] = field(factory=dict[str, Any])
    _seq: dict[str, int] = field(factory=dict[str, int])
    _ends: list[int] = field(factory=list[int])
    _id: int = 0

    def __attrs_post_init__(self) -> None:
        (self.folder / "meta.json").write_bytes(orjson.dumps(META))
        self._ends = [0] * self.partitions
        for name in ("p", "c"):
            for number in range(CLIENTS):
                process = f"{name}{number}#0"
                self._files[process] = (self.folder / f"{process}.ndjson").open("ab", buffering=0)
                self._seq[process] = 0

    def batch(self, number: int, anomaly: bool) -> None:
        """Fifty messages of one producer, sent, read and processed: 150 events."""
        partition = number % self.partitions
        sent = [self._sent(partition) for _ in range(BATCH)]
        if anomaly:
            self._id += 1
            sent.append({**sent[-1], "id": self._id})
        producer, consumer = f"p{partition % CLIENTS}#0", f"c{partition % CLIENTS}#0"
        self._write(producer, [self._line(producer, "send", [r]) for r in sent])
        lines = [self._line(consumer, op, sent[:BATCH]) for op in ("poll", "process")]
        self._write(consumer, lines)

    def _sent(self, partition: int) -> dict[str, Any]:
        self._id += 1
        self._ends[partition] += 1
        offset = self._ends[partition] - 1
        return {"topic": TOPIC, "partition": partition, "offset": offset, "id": self._id}

    def _line(self, process: str, op: str, records: list[Any]) -> bytes:
        seq = self._seq[process]
        self._seq[process] = seq + 1
        now = time.monotonic_ns()
        line: dict[str, Any] = {"process": process, "seq": seq, "op": op, "outcome": "ok"}
        line |= {"invoked_ns": now, "returned_ns": now, "records": records}
        if op != "send":
            line |= {"group": "g", "isolation": "read_committed"}
        return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)

    def _write(self, process: str, lines: list[bytes]) -> None:
        self._files[process].write(b"".join(lines))


def write(folder: Path, rate: float, seconds: float, partitions: int, done: Any) -> None:
    """Batches at the given rate of events, and an anomaly every second."""
    writer, began, last = Writer(folder, partitions), time.monotonic(), 0
    for number in range(int(rate * seconds / (3 * BATCH))):
        ahead = began + number * 3 * BATCH / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        anomaly = time.monotonic() - began > last + 1
        last += anomaly
        writer.batch(number, anomaly)
    done.set()


def follow(folder: Path, rate: float, seconds: float, partitions: int) -> Iterator[str]:
    """Watch while it is written."""
    done = multiprocessing.Event()
    arguments = (folder, rate, seconds, partitions, done)
    writer = multiprocessing.Process(target=write, args=arguments)
    writer.start()
    watch, latencies, steps = Watch(folder), list[float](), list[float]()
    cpu, began = time.process_time(), time.monotonic()
    while True:
        was_done, looked = done.is_set(), time.monotonic()
        step = watch.step()
        told = time.monotonic_ns()
        steps.append(time.monotonic() - looked)
        found = [f for f in step.findings if f.check.id == "L1"]
        latencies += [(told - max(e["inv"] for e in f.events)) / 1e9 for f in found]
        if was_done and step.batch.empty:
            break
        if not step.batch.more:
            time.sleep(max(AT_LEAST, EVERY - steps[-1]))
    took, cpu = time.monotonic() - began, time.process_time() - cpu
    writer.join()
    yield f"{watch.rows:,} events in {took:.0f} s: {watch.rows / took:,.0f} events/s"
    yield f"CPU of the watch {cpu:.1f} s: {cpu / took:.0%} of a core"
    if latencies:
        usual, longest = median(latencies), max(latencies)
        yield f"{len(latencies)} anomalies told after {usual:.2f} s, {longest:.2f} s at most"
    yield f"a look took {median(steps):.2f} s, {max(steps):.2f} s at most"


def catch_up(folder: Path) -> str:
    """The same trace from its files, without pauses."""
    watch, began = Watch(folder), time.process_time()
    while not watch.step().batch.empty:
        pass
    cpu = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"at once: {watch.rows / cpu:,.0f} events per CPU-second; {peak:,.0f} MB at most"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=float, default=20_000)
    options.add_argument("--seconds", type=float, default=60)
    options.add_argument("--partitions", type=int, default=12)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for line in follow(Path(name), asked.rate, asked.seconds, asked.partitions):
            print(line, flush=True)
        print(catch_up(Path(name)), flush=True)


if __name__ == "__main__":
    main()
