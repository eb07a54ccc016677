"""Lose records that real Kafka has acknowledged: a copy that is behind replaces a replica.

Starts a controller and three brokers with default settings; broker 2 has two log directories. A
partition has replicas on brokers 1 and 2 and min.insync.replicas=2. The replica of broker 2 is
moved to its other directory. Its copy catches up, AssignReplicasToDirs is sent, and is under way;
records are acknowledged by both brokers, and broker 2 is shut down in good order. The request
arrives. Broker 2 starts with the copy instead of its replica, and is eligible to lead; broker
1 is killed. It records its client in RUN (trace format v1). Exit code 1: broker 2 was elected,
cleanly, and records are lost; 0: they are there; 2: the scenario could not be played.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field

from examples.brokers import until
from examples.directories import Directories, assigns, directories, with_two_directories
from examples.relay import Stall
from examples.scenario import Scenario, flags_of, program

TOPIC = "moved"
FEW, RECORDS, SIZE = 10, 40, 500_000
#: So slow that the copy stays where it is.
SLOW = 1000
#: The copies that a broker serves while it follows: slower than it takes to elect another leader.
FOLLOWER_RATE = 100_000


@define
class FutureCopy(Directories):
    """A move within one broker, which the controller takes for done."""

    undelivered: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        asked = self.move_the_replica([[1, 2]])
        self.stop(self.owner)
        until("ISR {1}", 60, lambda: self.state() == (1, {1}))
        self.say(f"broker 2 is shut down, in good order: {self.known()}; {self.logs()}")
        self.deliver(asked)
        self.throttle(1, FOLLOWER_RATE)
        self.start(self.owner)
        self.say(f"broker 2 is back: {self.known()}")
        self.kill(1)
        self.see_who_is_elected(after=1)
        self.start(1)
        self.await_whole({1, 2})
        return self.write_c_and_read()

    def move_the_replica(self, assignment: list[list[int]]) -> Stall:
        """The request that the copy has caught up, which is under way; records come behind it."""
        self.create_and_report(assignment)
        self.write_many(FEW)
        asked = self.hold_up_the_next()
        self.move(self.owner, self.other_directory())
        until("the copy to catch up", 60, lambda: bool(asked.caught))
        self.fault("the copy has caught up: AssignReplicasToDirs is sent, and held up")
        key = "replica.alter.log.dirs.io.max.bytes.per.second"
        self.configure_broker(self.owner, **{key: SLOW})
        self.write_many(RECORDS, SIZE)
        self.say(self.logs())
        return asked

    def other_directory(self) -> Path:
        """The one that has no replica of the partition."""
        (folder,) = self.folders(self.owner)
        (other,) = {*directories(self.brokers[self.owner])} - {folder.parent}
        return other

    def deliver(self, asked: Stall) -> None:
        if not self.undelivered:
            self.fault("the held AssignReplicasToDirs arrives at the controller")
            asked.end()


@define
class OneBroker(FutureCopy):
    """The same of the only replica."""

    killed: bool = field(kw_only=True)
    taken_back: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        asked = self.move_the_replica([[1]])
        if self.taken_back:
            self.deliver_and_take_back(asked)
        if self.killed or self.taken_back:
            self.kill(1)
        else:
            self.stop(1)
        self.say(f"broker 1 has ended; {self.logs()}")
        if not self.taken_back:
            self.deliver(asked)
        self.start(1)
        until("a leader", 60, lambda: self.state()[0] >= 0)
        self.say(f"broker 1 is up: {self.known()}; {self.logs()}")
        return self.write_c_and_read()

    def deliver_and_take_back(self, asked: Stall) -> None:
        """The broker learns of the new directory, and asks for the old one: it has not swapped."""
        first = asked.caught[0]
        again = self.controller.stall(lambda header: assigns(header) and header != first)
        self.deliver(asked)
        until("the broker to ask for the old directory", 60, lambda: bool(again.caught))
        self.fault("the broker asks for the old directory: held up, and lost")


def start(
    folder: Path,
    classpath: str,
    run: Path,
    stack: ExitStack,
    one_broker: bool,
    killed: bool,
    taken_back: bool,
    undelivered: bool,
) -> Scenario:
    owner, numbers = (1, (1,)) if one_broker else (2, (1, 2, 3))
    fields = with_two_directories(folder, classpath, stack, owner, numbers)
    common: dict[str, Any] = {"run": run, "topic": TOPIC, "undelivered": undelivered, **fields}
    if one_broker:
        return OneBroker(
            assignment=[1], min_isr=1, asked=1, killed=killed, taken_back=taken_back, **common
        )
    return FutureCopy(assignment=[1, 2], **common)


if __name__ == "__main__":
    options = flags_of(
        {
            "--undelivered": "The request does not arrive: the control.",
            "--one-broker": "One broker, and replication factor 1.",
            "--killed": "With --one-broker: it is killed.",
            "--taken-back": "The same, and its request is delivered; only the next one is late.",
        }
    )
    program(__doc__ or "", start, *options)()
