"""Lose records that real Kafka has acknowledged: a broker that gave up a log directory may lead.

Starts a controller and three brokers with default settings; broker 2 has two log directories. A
partition has replicas on brokers 1 and 2 and min.insync.replicas=2. Records are written, broker 2
is shut down in good order, the directory with its replica is taken out of log.dirs, and it starts
again: it copies the partition anew. Meanwhile broker 1 is killed. It records its client in RUN
(trace format v1). Exit code 1: broker 2 was elected, cleanly, and records are lost; 0: they
survive; 2: the scenario could not be played.
"""

import shutil
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import laid_out, started, until
from examples.control_plane import ControlPlane
from examples.directories import directories, give_two_directories, take_second_directory_out
from examples.scenario import Scenario, program

TOPIC = "taken-out"
REPLICAS = [1, 2]
#: Of so many, some are in either directory of broker 2.
PARTITIONS = 6
RECORDS, SIZE = 100, 100_000


@define
class TakenOut(ControlPlane):
    """Broker 2 comes back without the directory that has its replica."""

    replaced: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.create([REPLICAS] * PARTITIONS)
        self.number = self.in_second_directory()
        self.write_many(RECORDS, SIZE)
        until("all copied", 60, lambda: self.copied(1) == self.copied(2))
        self.say(f"{self.known()}; {self.logs()}")
        self.stop(2)
        until("ISR {1}", 60, lambda: self.state() == (1, {1}))
        self.say(f"broker 2 is shut down, in good order: {self.known()}")
        if self.replaced:
            self.replace_the_directory()
        else:
            self.take_the_directory_out()
        self.throttle(1)
        self.start(2)
        until("broker 2 to copy", 60, lambda: self.copied(2) > 0)
        self.say(f"broker 2 is back: {self.known()}")
        self.kill(1)
        self.see_who_is_elected(after=1)
        self.start(1)
        self.await_whole({*REPLICAS})
        return self.write_c_and_read()

    def in_second_directory(self) -> int:
        """A partition whose replica broker 2 has put there."""
        _, second = directories(self.brokers[2])
        until("a replica", 60, lambda: any(second.glob(f"{TOPIC}-*")))
        return int(next(second.glob(f"{TOPIC}-*")).name.rpartition("-")[2])

    def take_the_directory_out(self) -> None:
        """As one does with a disk that is about to die."""
        take_second_directory_out(self.brokers[2])
        _, second = directories(self.brokers[2])
        second.rename(second.with_name("removed"))
        self.fault("data2 is taken out of log.dirs of broker 2")

    def replace_the_directory(self) -> None:
        """As one does with a disk that has died."""
        _, second = directories(self.brokers[2])
        shutil.rmtree(second)
        self.brokers[2].format_directories()
        self.fault("data2 of broker 2 is empty: a new disk")


def start(folder: Path, classpath: str, run: Path, stack: ExitStack, replaced: bool) -> Scenario:
    nodes = laid_out(folder, classpath)
    give_two_directories(nodes[2])
    return TakenOut(
        brokers=stack.enter_context(started(nodes)),
        run=run,
        topic=TOPIC,
        assignment=REPLICAS,
        replaced=replaced,
    )


if __name__ == "__main__":
    control = click.Option(
        ["--replaced"], is_flag=True, help="data2 is emptied, and stays in log.dirs: the control."
    )
    program(__doc__ or "", start, control)()
