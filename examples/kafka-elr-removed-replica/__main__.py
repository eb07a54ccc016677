"""Lose records that real Kafka has acknowledged: a replica that was removed stays eligible to lead.

Starts a controller and three brokers with default settings and a topic of two partitions with three
replicas and min.insync.replicas=2. Its replication factor is reduced to 1, records are written, and
the factor is raised again, partition by partition. While partition 1 is copied broker 1 is killed.
It records its client in RUN (trace format v1). Exit code 1: a broker without the records was
elected, cleanly, and they are lost; 0: they survive; 2: the scenario could not be played.
"""

from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from examples.brokers import cluster, laid_out, started, until
from examples.control_plane import ControlPlane
from examples.scenario import Scenario, flags_of, program

TOPIC = "elr-removed"
ALL, ONE = [1, 2, 3], [1]
#: A move of two replicas to two other brokers.
OLD, NEW = [1, 2], [3, 4]
RECORDS, SIZE = 100, 100_000


@define
class RemovedReplica(ControlPlane):
    """Brokers 2 and 3 are removed from the replicas, and are added again with empty logs."""

    at_once: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.create([ALL, ALL])
        self.say(f"partition 1: {self.known()}")
        self.reduce()
        self.write_many(RECORDS, SIZE)
        self.throttle(1)
        self.raise_again()
        self.kill(1)
        self.see_who_is_elected(after=1)
        self.refuse_whole_copy(of=1)
        self.say(self.logs())
        self.start(1)
        self.await_whole({*ALL})
        return self.write_c_and_read()

    def reduce(self) -> None:
        """Replication factor 1: the others delete their logs."""
        self.reassign({0: ONE, 1: ONE})
        for number in (0, 1):
            self.await_isr({1}, number)
        until("their logs to go", 60, lambda: not self.copied_by_others())
        self.say(f"partition 1: {self.known()}")

    def raise_again(self) -> None:
        """Partition 0 first, as tools do that move partitions in batches."""
        if self.at_once:
            self.reassign({0: ALL, 1: ALL})
        else:
            self.reassign({0: ALL})
            self.await_isr({*ALL}, 0)
            self.reassign({1: ALL})
        until("brokers 2 and 3 to copy", 60, lambda: len(self.copied_by_others()) == 2)
        self.say(f"partition 1: {self.known()}")

    def copied_by_others(self) -> list[int]:
        """The brokers besides 1 that have some of the partition."""
        return [broker for broker in (2, 3) if self.copied(broker) > 0]


@define
class CancelledMove(ControlPlane):
    """Broker 3 is added and in sync, removed as the move is cancelled, and added by the same move.

    One partition suffices, and no factor changes.
    """

    def play(self) -> list[bytes]:
        self.create([OLD])
        self.write_many(RECORDS, SIZE)
        self.stop(2)
        until("ISR {1}", 60, lambda: self.state() == (1, {1}))
        self.stop(4)
        self.reassign({0: NEW})
        self.await_isr({1, 3})
        self.say(f"{self.known()}")
        self.reassign({0: None})
        until("the log of broker 3 to go", 60, lambda: not self.copied(3))
        self.say(f"{self.known()}")
        self.throttle(1)
        self.reassign({0: NEW})
        until("broker 3 to copy", 60, lambda: self.copied(3) > 0)
        self.say(f"{self.known()}")
        self.kill(1)
        self.see_who_is_elected(after=1)
        self.refuse_whole_copy(of=1)
        for broker in (1, 2, 4):
            self.start(broker)
        self.await_whole({*NEW}, "the move is over")
        return self.write_c_and_read()


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, at_once: bool, cancelled: bool
) -> Scenario:
    if cancelled:
        nodes = laid_out(folder, classpath, (*OLD, *NEW))
        brokers = stack.enter_context(started(nodes))
        return CancelledMove(brokers=brokers, run=run, topic=TOPIC, assignment=OLD)
    brokers = stack.enter_context(cluster(folder, classpath))
    return RemovedReplica(
        brokers=brokers, run=run, topic=TOPIC, assignment=ALL, number=1, at_once=at_once
    )


if __name__ == "__main__":
    options = flags_of(
        {
            "--at-once": "Raise both partitions in one request: the control.",
            "--cancelled": "Remove the replica by a move that is cancelled.",
        }
    )
    program(__doc__ or "", start, *options)()
