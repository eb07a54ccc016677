"""Leave a partition of real Kafka without a leader although its only replica is up and complete.

Starts a controller and one broker with two log directories. The broker is shut down, its replicas
are moved by hand from the second directory to the first, the second is taken out of log.dirs, and
the broker starts again. Its AssignReplicasToDirs arrives when it is unfenced already, as with more
replicas than one request carries. It records its client in RUN (trace format v1). Exit code 1:
nobody leads within --patience; 0: the broker does; 2: the scenario could not be played.
"""

from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.directories import (
    Directories,
    assigns,
    directories,
    take_second_directory_out,
    with_two_directories,
)
from examples.scenario import Scenario, Sent, program

TOPIC = "moved-while-down"
#: Of so many, some are in either directory.
PARTITIONS = 6
RECORDS = 10


@define
class MovedWhileDown(Directories):
    """The directory that the metadata name is gone; the one with the replica is reported."""

    in_time: bool = field(kw_only=True)
    patience_s: float = field(kw_only=True)
    led: bool = field(default=False, init=False)

    def loss(self, values: list[bytes]) -> str | None:
        if self.led:
            return super().loss(values)
        patience = f"{self.patience_s:.0f} s"
        return f"The broker is up, has the replica, and nobody led it within {patience}."

    def play(self) -> list[bytes]:
        self.create_and_report([[1]] * PARTITIONS)
        self.number = self.in_second_directory()
        self.write_many(RECORDS)
        self.say(f"{self.known()}; {self.logs()}")
        self.stop(1)
        self.move_by_hand()
        self.come_back()
        last = Sent(self.producer, TOPIC, "B", self.number)
        self.led = self.is_acknowledged(last)
        if not self.led:
            self.stop(1)
            self.start(1)
            last.wait(60)
            self.say(f"broker 1 has been restarted: {self.known()}")
        self.producer.close()
        return self.read()

    def in_second_directory(self) -> int:
        """A partition whose replica the broker has put there."""
        _, second = directories(self.brokers[1])
        until("a replica", 60, lambda: any(second.glob(f"{TOPIC}-*")))
        return int(next(second.glob(f"{TOPIC}-*")).name.rpartition("-")[2])

    def move_by_hand(self) -> None:
        """All replicas, as KIP-858 has it for a disk that is given up."""
        first, second = directories(self.brokers[1])
        for folder in second.glob(f"{TOPIC}-*"):
            folder.rename(first / folder.name)
        take_second_directory_out(self.brokers[1])
        self.fault(f"data2 is given up, its replicas are moved to data1; {self.logs()}")

    def come_back(self) -> None:
        """The broker is unfenced, and then reports where its replicas are."""
        late = None if self.in_time else self.controller.stall(assigns)
        self.start(1)
        self.say(f"broker 1 is up, and unfenced: {self.known()}")
        if late is not None:
            until("AssignReplicasToDirs", 60, lambda: bool(late.caught))
            self.fault("AssignReplicasToDirs arrives")
            late.end()

    def is_acknowledged(self, last: Sent) -> bool:
        try:
            last.wait(self.patience_s)
        except NotInTimeError:
            self.say(f"not acknowledged within {self.patience_s:.0f} s: {self.known()}")
            return False
        self.say(f"B acknowledged at offset {last.offset}: {self.known()}")
        return True


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, in_time: bool, patience: float
) -> Scenario:
    fields = with_two_directories(folder, classpath, stack, 1, (1,))
    return MovedWhileDown(
        run=run,
        topic=TOPIC,
        assignment=[1],
        asked=1,
        min_isr=1,
        in_time=in_time,
        patience_s=patience,
        **fields,
    )


if __name__ == "__main__":
    control = click.Option(
        ["--in-time"], is_flag=True, help="AssignReplicasToDirs is not late: the control."
    )
    patience = click.Option(
        ["--patience"], default=60.0, show_default=True, help="Seconds to wait for a leader."
    )
    program(__doc__ or "", start, control, patience)()
