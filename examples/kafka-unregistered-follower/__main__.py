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

from examples.brokers import (
    BROKERS,
    CONTROLLER,
    Node,
    NotInTimeError,
    free_port,
    laid_out,
    started,
    until,
)
from examples.relay import Header, Relay, Stall, relay
from examples.scenario import Scenario, program

TOPIC = "unregistered-follower"
#: Broker 1 leads after a restart of broker 3, which is elected as soon as broker 1 is gone.
ASSIGNMENT = [3, 1, 2]
ALTER_PARTITION = 56
#: A broker is fenced after broker.session.timeout.ms (9 s).
FENCED_S = 25
#: A follower has fetched within so many seconds, and more.
FETCHED_S = 2
FOLLOWS = f"Added fetcher to broker 1 for partitions HashMap({TOPIC}-0"
REGISTERED = "Successfully registered broker 3"
UNFENCED = "The broker has been unfenced"
REFUSED = "Rejecting AlterPartition request from node 1"

#: Brokers speak to each other by a listener of its own, which leads through a relay at broker 1.
SETTINGS = """\
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{reached_at}
inter.broker.listener.name=INTERNAL
"""


def asked_by_broker_1(header: Header) -> bool:
    """Brokers name themselves by their number towards the controller."""
    return header.api_key == ALTER_PARTITION and header.client_id == "1"


def fetched_by_broker_3(header: Header) -> bool:
    return header.client_id.startswith("broker-3-fetcher")


@define
class UnregisteredFollower(Scenario):
    """A follower is let into the ISR on the word of a process that had not registered yet."""

    controller: Relay = field(kw_only=True)
    leader: Relay = field(kw_only=True)
    decider: Node = field(kw_only=True)
    """The controller itself, behind the relay."""
    registered_first: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.create_topic()
        self.restart(3)
        self.say("broker 1 leads, ISR {1, 2, 3}, broker 3 is preferred")
        self.write("A", 60)
        until("A everywhere", 10, lambda: len(set(self.sizes())) == 1)
        flushed = self.sizes()[2]
        self.leave_the_isr()
        self.write("B", 60)
        asked = self.fetch_unregistered()
        self.lose_power(flushed)
        self.deliver(asked)
        self.write("C", 60)
        self.producer.close()
        return self.read()

    def leave_the_isr(self) -> None:
        """Broker 3 is paused for longer than its session lasts."""
        self.signal(3, signal.SIGSTOP)
        self.in_sync({1, 2}, FENCED_S)
        self.say("broker 3 is fenced, ISR {1, 2}")

    def fetch_unregistered(self) -> Stall:
        """Broker 3 is heard of again, killed before it fetches, and starts again at once."""
        self.leader.stall(fetched_by_broker_3, at_most=1)
        asked = self.controller.stall(asked_by_broker_1)
        self.signal(3, signal.SIGCONT)
        until("broker 3 is unfenced", FENCED_S, lambda: 3 in self.alive())
        self.signal(3, signal.SIGKILL)
        self.brokers[3].wait()
        before = self.registrations()
        if self.registered_first:
            until("broker 3 is fenced", FENCED_S, lambda: self.alive() == {1, 2})
        so_far = len(self.said_by_broker_3())
        self.brokers[3].start()
        until("broker 3 follows", FENCED_S, lambda: FOLLOWS in self.said_by_broker_3()[so_far:])
        followed = time.monotonic()

        def registered() -> bool:
            return self.registrations() > before

        until("broker 1 asks", FENCED_S, lambda: bool(asked.caught) or registered())
        soon = time.monotonic() - followed < FETCHED_S
        if not asked.caught and soon and not self.registered_first:
            raise NotInTimeError("broker 3 registered before it could fetch: it took long to start")
        until("broker 1 asks", FENCED_S, lambda: bool(asked.caught))
        yet = "has registered" if registered() else "has not registered yet"
        self.fault(f"broker 1 asks for ISR {{1, 2, 3}}: held up; broker 3 {yet}")
        return asked

    def lose_power(self, flushed: int) -> None:
        """Broker 3 comes back without what it had not flushed, and cannot reach the leader yet."""
        self.leader.stall(fetched_by_broker_3)
        self.signal(3, signal.SIGKILL)
        self.brokers[3].wait()
        os.truncate(self.brokers[3].segment(TOPIC), flushed)
        self.fault("the machine of broker 3 has lost power, and B, which was not flushed")
        so_far = len(self.said_by_broker_3())
        self.brokers[3].start()
        until("broker 3 is unfenced", 60, lambda: UNFENCED in self.said_by_broker_3()[so_far:])
        self.say(f"broker 3 has registered and is unfenced; log sizes {self.sizes()}")

    def deliver(self, asked: Stall) -> None:
        """The request arrives, and then the leader dies."""
        so_far = len(self.decider.output.read_text())
        self.fault("what broker 1 has asked is delivered")
        asked.end()

        def refused() -> bool:
            return REFUSED in self.decider.output.read_text()[so_far:]

        until("a decision", 8, lambda: self.state()[1] == {1, 2, 3} or refused())
        what = "refused" if refused() else "accepted"
        self.say(f"the controller has {what} it: ISR {self.state()[1]}; log sizes {self.sizes()}")
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        until("another broker leads", 60, lambda: self.state()[0] in (2, 3))
        self.say(f"broker 1 is fenced, broker {self.state()[0]} leads")
        self.brokers[1].start()
        self.in_sync({1, 2, 3}, 120)
        self.say(f"all in sync; log sizes {self.sizes()}")

    def said_by_broker_3(self) -> str:
        return self.brokers[3].output.read_text(errors="replace")

    def registrations(self) -> int:
        return self.said_by_broker_3().count(REGISTERED)


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, registered_first: bool
) -> Scenario:
    """The brokers reach the controller, and each other broker 1, through a relay."""
    nodes = laid_out(folder, classpath)
    controller = stack.enter_context(relay(nodes[CONTROLLER].port))
    nodes[CONTROLLER].reached_at = controller.port
    internal = {broker: free_port() for broker in BROKERS}
    leader = stack.enter_context(relay(internal[1]))
    for broker in BROKERS:
        nodes[broker].settings = SETTINGS.format(
            port=nodes[broker].port,
            internal=internal[broker],
            reached_at=leader.port if broker == 1 else internal[broker],
        )
    brokers = stack.enter_context(started(nodes))
    return UnregisteredFollower(
        brokers,
        run,
        TOPIC,
        ASSIGNMENT,
        controller=controller,
        leader=leader,
        decider=nodes[CONTROLLER],
        registered_first=registered_first,
    )


if __name__ == "__main__":
    control = click.Option(
        ["--registered-first"], is_flag=True, help="Let broker 3 register first: the control."
    )
    program(__doc__ or "", start, control)()
