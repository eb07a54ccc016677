"""Cost of the recorder for Go: one franz-go producer in one process, plain and recorded in turn.

    python bench/bench_recorder_go.py [--rounds 7] [--seconds 5] [--rate 20000]

A broker of Apache Kafka is started on the loopback address (Java and Maven are needed, as for
`make test-kafka`, and Go). Each message is a document of 1 KB that is made for it, sent with
acks=all. The first round of each kind does not count. A rate of 0 is full speed.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from attrs import frozen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from chaos.real.kafka.judge import Judge, KafkaBroker  # noqa: E402
from tests.kafka.clients import create_topics  # noqa: E402
from tests.traces.record.go.building import program  # noqa: E402

TOPIC = "bench"


@frozen
class Round:
    """One round: its messages, and their time on the wall and on CPUs."""

    kind: str
    messages: int
    took_ns: int
    cpu_ns: int

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages * 1e9 / self.took_ns

    @property
    def each_us(self) -> float:
        """CPU time of the whole process for each message."""
        return self.cpu_ns / self.messages / 1000


def rounds(bootstrap: str, folder: Path, options: argparse.Namespace) -> list[Round]:
    """All rounds, as they followed each other."""
    how = (options.rounds, options.seconds, options.rate)
    command = [program("pace"), bootstrap, TOPIC, folder / "run", *map(str, how)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [
        Round(kind, int(messages), int(took), int(cpu))
        for kind, messages, took, cpu in map(str.split, done.stdout.splitlines())
    ]


def main() -> None:
    """Measure, and print a line for each round and what they come to."""
    asked = argparse.ArgumentParser(description="Cost of the recorder for Go")
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--seconds", type=float, default=5)
    asked.add_argument("--rate", type=int, default=20_000)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        judge = Judge.start()
        broker = KafkaBroker(folder, {"log.retention.bytes": "200000000"})
        broker.format(judge)
        judge.stop()
        with broker.running():
            create_topics(broker.address, {TOPIC: {}}, partitions=3)
            found = rounds(broker.address, folder, options)
    for one in found:
        print(f"{one.kind:9} {one.rate:8,.0f}/s {one.each_us:6.2f} µs of CPU each")
    plain = [one for one in found if one.kind == "plain"]
    kept = [one for one in found if one.kind == "recorded"]
    ratios = [with_.rate / without.rate for with_, without in zip(kept, plain, strict=True)]
    print(f"throughput kept: median {median(ratios):.1%}, worst {min(ratios):.1%}")
    lowest = [min(one.each_us for one in several) for several in (plain, kept)]
    print(f"CPU of a message, lowest: {lowest[0]:.2f} µs plain, {lowest[1]:.2f} µs recorded")


if __name__ == "__main__":
    main()
