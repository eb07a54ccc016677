"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, lets a follower fetch before it has
registered, and lose power while the leader's request to let it into the ISR is on its way. It
records its client in RUN (trace format v1). Exit code 1: the acknowledged record is lost; 0: it
survives; 2: the scenario could not be played.
"""

import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.relay import Stall
from examples.relayed import FENCED_S, Relayed, asked_by_broker_1, fetched_by_broker_3, relayed
from examples.scenario import Scenario, program

TOPIC = "unregistered-follower"
#: A follower has fetched within so many seconds, and more.
FETCHED_S = 2
FOLLOWS = f"Added fetcher to broker 1 for partitions HashMap({TOPIC}-0"
REGISTERED = "Successfully registered broker 3"
UNFENCED = "The broker has been unfenced"


@define
class UnregisteredFollower(Relayed):
    """A follower is let into the ISR on the word of a process that had not registered yet."""

    registered_first: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.let_broker_1_lead()
        self.write("A", 60)
        until("A everywhere", 10, lambda: len(set(self.sizes())) == 1)
        flushed = self.sizes()[2]
        self.fence_broker_3()
        self.write("B", 60)
        asked = self.fetch_unregistered()
        self.lose_power(flushed)
        self.deliver(asked)
        self.kill(1)
        self.replace_broker_1()
        return self.write_c_and_read()

    def fetch_unregistered(self) -> Stall:
        """Broker 3 is heard of again, killed before it fetches, and starts again at once."""
        self.leader.stall(fetched_by_broker_3, at_most=1)
        asked = self.controller.stall(asked_by_broker_1)
        self.signal(3, signal.SIGCONT)
        until("broker 3 is unfenced", FENCED_S, lambda: 3 in self.alive())
        self.kill(3)
        before = self.registrations()
        if self.registered_first:
            until("broker 3 is fenced", FENCED_S, lambda: self.alive() == {1, 2})
        so_far = len(self.said_by_broker_3())
        self.brokers[3].start()
        until("broker 3 follows", FENCED_S, lambda: FOLLOWS in self.said_by_broker_3()[so_far:])
        followed = time.monotonic()
        said = self.said_by_broker_3()[so_far:]
        waited = REGISTERED in said[: said.index(FOLLOWS)]  # as a Kafka with the second fix does

        def registered() -> bool:
            return self.registrations() > before

        until("broker 1 asks", FENCED_S, lambda: bool(asked.caught) or registered())
        soon = time.monotonic() - followed < FETCHED_S
        if not asked.caught and soon and not (self.registered_first or waited):
            raise NotInTimeError("broker 3 registered before it could fetch: it took long to start")
        until("broker 1 asks", FENCED_S, lambda: bool(asked.caught))
        yet = "has registered" if registered() else "has not registered yet"
        self.fault(f"broker 1 asks for ISR {{1, 2, 3}}: held up; broker 3 {yet}")
        return asked

    def lose_power(self, flushed: int) -> None:
        """Broker 3 comes back without what it had not flushed, and cannot reach the leader yet."""
        self.leader.stall(fetched_by_broker_3)
        self.kill(3)
        os.truncate(self.brokers[3].segment(TOPIC), flushed)
        self.fault("the machine of broker 3 has lost power, and B, which was not flushed")
        so_far = len(self.said_by_broker_3())
        self.brokers[3].start()
        until("broker 3 is unfenced", 60, lambda: UNFENCED in self.said_by_broker_3()[so_far:])
        self.say(f"broker 3 has registered and is unfenced; log sizes {self.sizes()}")

    def said_by_broker_3(self) -> str:
        return self.brokers[3].output.read_text(errors="replace")

    def registrations(self) -> int:
        return self.said_by_broker_3().count(REGISTERED)


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, registered_first: bool
) -> Scenario:
    fields = relayed(folder, classpath, stack)
    return UnregisteredFollower(run=run, topic=TOPIC, registered_first=registered_first, **fields)


if __name__ == "__main__":
    control = click.Option(
        ["--registered-first"], is_flag=True, help="Let broker 3 register first: the control."
    )
    program(__doc__ or "", start, control)()
