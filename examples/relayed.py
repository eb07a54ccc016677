"""A scenario whose brokers reach the controller, and each other broker 1, through a relay."""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field

from examples.brokers import BROKERS, CONTROLLER, Node, free_port, laid_out, started, until
from examples.relay import Header, Relay, Stall, relay
from examples.scenario import Scenario

#: Broker 1 leads after a restart of broker 3, which is elected as soon as broker 1 is gone.
ASSIGNMENT = [3, 1, 2]
ALTER_PARTITION = 56
#: A broker is fenced after broker.session.timeout.ms (9 s).
FENCED_S = 25
#: A follower leaves the ISR after replica.lag.time.max.ms (30 s), looked for every 15 s.
LAGS_S = 60
#: A producer that waits for longer than the brokers do sends nothing twice.
PATIENT = {"request.timeout.ms": 120_000}
#: What the controller says of a request to alter the partition that it refuses.
REFUSED = "Rejecting AlterPartition request from node 1"

#: Brokers speak to each other by a listener of its own, which leads through a relay at broker 1.
LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{reached_at}
inter.broker.listener.name=INTERNAL
"""


def asked_by_broker_1(header: Header) -> bool:
    """Brokers name themselves by their number towards the controller."""
    return header.api_key == ALTER_PARTITION and header.client_id == "1"


def fetched_by_broker_3(header: Header) -> bool:
    return header.client_id.startswith("broker-3-fetcher")


def fetched_by_a_follower(header: Header) -> bool:
    return header.client_id.startswith(("broker-2-fetcher", "broker-3-fetcher"))


def metadata_of_broker_1(header: Header) -> bool:
    return header.client_id == "raft-client-1"


@define
class Relayed(Scenario):
    """Broker 1 leads, and what it asks of the controller, or others of it, can be held up."""

    controller: Relay = field(kw_only=True)
    leader: Relay = field(kw_only=True)
    decider: Node = field(kw_only=True)
    """The controller itself, behind the relay."""

    def let_broker_1_lead(self) -> None:
        self.create_topic()
        self.restart(3)
        self.say("broker 1 leads, ISR {1, 2, 3}, broker 3 is preferred")

    def fence_broker_3(self) -> None:
        """Broker 3 is paused for longer than its session lasts."""
        self.signal(3, signal.SIGSTOP)
        self.in_sync({1, 2}, FENCED_S)
        self.say("broker 3 is fenced, ISR {1, 2}")

    def kill(self, broker: int) -> None:
        self.signal(broker, signal.SIGKILL)
        self.brokers[broker].wait()

    def deliver(self, asked: Stall) -> None:
        """What broker 1 has asked once arrives; wait until the controller has decided."""
        so_far = len(self.decider.output.read_text())
        self.fault("what broker 1 has asked is delivered")
        asked.end()

        def refused() -> bool:
            return REFUSED in self.decider.output.read_text()[so_far:]

        until("a decision", 8, lambda: self.state()[1] == {1, 2, 3} or refused())
        what = "refused" if refused() else "accepted"
        self.say(f"the controller has {what} it: ISR {self.state()[1]}; log sizes {self.sizes()}")

    def replace_broker_1(self) -> None:
        """Another broker leads, and broker 1, which is down, comes back to follow it."""
        until("another broker leads", 60, lambda: self.state()[0] in (2, 3))
        self.say(f"broker 1 is fenced, broker {self.state()[0]} leads")
        for stall in self.leader.stalls:
            stall.end()
        self.brokers[1].start()
        self.in_sync({1, 2, 3}, 120)
        self.say(f"all in sync; log sizes {self.sizes()}")


def relayed(folder: Path, classpath: str, stack: ExitStack) -> dict[str, Any]:
    """Brokers that run for as long as the stack lasts, as the fields of a scenario."""
    nodes = laid_out(folder, classpath)
    controller = stack.enter_context(relay(nodes[CONTROLLER].port))
    nodes[CONTROLLER].reached_at = controller.port
    internal = {broker: free_port() for broker in BROKERS}
    leader = stack.enter_context(relay(internal[1]))
    for broker in BROKERS:
        nodes[broker].settings = LISTENERS.format(
            port=nodes[broker].port,
            internal=internal[broker],
            reached_at=leader.port if broker == 1 else internal[broker],
        )
    return {
        "brokers": stack.enter_context(started(nodes)),
        "assignment": ASSIGNMENT,
        "controller": controller,
        "leader": leader,
        "decider": nodes[CONTROLLER],
    }
