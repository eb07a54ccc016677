"""Rounds of a producer, plain and recorded in turn, beside one broker of Apache Kafka."""

import argparse
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

from attrs import frozen

from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.kafka.clients import create_topics

TOPIC = "bench"
Command: TypeAlias = Callable[[str, Path], list[str | Path]]
"""The command of a producer, of the broker's address and the folder of the run; the number of
rounds, the seconds of each and the rate follow."""


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


def rounds(command: list[str | Path], options: argparse.Namespace) -> list[Round]:
    """All rounds, as they followed each other."""
    how = (options.rounds, options.seconds, options.rate)
    done = subprocess.run([*command, *map(str, how)], stdout=subprocess.PIPE, text=True, check=True)
    return [
        Round(kind, int(messages), int(took), int(cpu))
        for kind, messages, took, cpu in map(str.split, done.stdout.splitlines())
    ]


def measure(description: str, command: Command) -> None:
    """Measure, and print a line for each round and what they come to."""
    asked = argparse.ArgumentParser(description=description)
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
            found = rounds(command(broker.address, folder / "run"), options)
    for one in found:
        print(f"{one.kind:9} {one.rate:8,.0f}/s {one.each_us:6.2f} µs of CPU each")
    plain = [one for one in found if one.kind == "plain"]
    kept = [one for one in found if one.kind == "recorded"]
    ratios = [with_.rate / without.rate for with_, without in zip(kept, plain, strict=True)]
    print(f"throughput kept: median {median(ratios):.1%}, worst {min(ratios):.1%}")
    lowest = [min(one.each_us for one in several) for several in (plain, kept)]
    print(f"CPU of a message, lowest: {lowest[0]:.2f} µs plain, {lowest[1]:.2f} µs recorded")
