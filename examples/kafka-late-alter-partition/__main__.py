"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, holds one AlterPartition request up on
its way, lets the controller refuse its repetition and accept the original later, and records its
client in RUN (trace format v1). Exit code 1: the acknowledged record is lost; 0: it survives; 2:
the scenario could not be played.
"""

import signal
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from examples.brokers import CONTROLLER, Node, laid_out, started, until
from examples.relay import Header, Relay, Stall, relay
from examples.scenario import Scenario, program

TOPIC = "late-alter-partition"
#: Broker 1 leads after a restart of broker 3, which is elected as soon as broker 1 is gone.
ASSIGNMENT = [3, 1, 2]
ALTER_PARTITION = 56
#: What the controller says of a request that was made before the last change.
REFUSED = "because the current partition epoch is"
#: Broker 1 gives its request up after controller.socket.timeout.ms (30 s), and sends it again.
GIVEN_UP_S = 45
#: A broker is fenced after broker.session.timeout.ms (9 s).
FENCED_S = 25


def asked_by_broker_1(header: Header) -> bool:
    """Brokers name themselves by their number towards the controller."""
    return header.api_key == ALTER_PARTITION and header.client_id == "1"


@define
class LateAlterPartition(Scenario):
    """A request is refused, and a copy of it accepted later."""

    controller: Relay = field(kw_only=True)
    decider: Node = field(kw_only=True)
    """The controller itself, behind the relay."""

    def play(self) -> list[bytes]:
        self.create_topic()
        self.restart(3)
        self.say("broker 1 leads, ISR {1, 2, 3}, broker 3 is preferred")
        self.write("A", 60)
        self.fence_broker_3()
        copy = self.hold_the_request()
        self.be_refused()
        self.write("B", 60)
        self.say(f"log sizes {self.sizes()}")
        self.deliver(copy)
        self.write("C", 60)
        self.producer.close()
        return self.read()

    def fence_broker_3(self) -> None:
        """Broker 3 is paused for longer than its session lasts."""
        self.signal(3, signal.SIGSTOP)
        self.in_sync({1, 2}, FENCED_S)
        self.say("broker 3 is fenced, ISR {1, 2}")

    def hold_the_request(self) -> Stall:
        """Broker 3 comes back; the request to let it into the ISR does not get through."""
        self.fault("the next AlterPartition of broker 1 is held up, with its connection")
        copy = self.controller.stall(asked_by_broker_1, at_most=1)
        self.signal(3, signal.SIGCONT)
        until("broker 1 asks for ISR {1, 2, 3}", 20, lambda: bool(copy.caught))
        self.say(
            f"broker 1 asks for ISR {{1, 2, 3}} (correlation id {copy.caught[0].correlation_id})"
        )
        return copy

    def be_refused(self) -> None:
        """Broker 3 is fenced again before broker 1 repeats its request on a new connection."""
        self.signal(3, signal.SIGSTOP)
        until("broker 3 is fenced", FENCED_S, lambda: self.alive() == {1, 2})
        self.say("broker 3 is fenced")
        reset = "Partition state has been reset to the latest committed state"
        until("refused", GIVEN_UP_S, lambda: self.brokers[1].said(reset))
        self.say("broker 1 has asked again, hears INELIGIBLE_REPLICA, goes back to ISR {1, 2}")

    def deliver(self, copy: Stall) -> None:
        """The leader dies, broker 3 comes back, and then the request arrives."""
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        self.signal(3, signal.SIGCONT)
        until("broker 3 is unfenced", 8, lambda: 3 in self.alive())
        self.fault("what was held up is delivered")
        so_far = len(self.decider.output.read_text())
        copy.end()

        def refused() -> bool:
            return REFUSED in self.decider.output.read_text()[so_far:]

        until("a decision", 8, lambda: self.state()[1] == {1, 2, 3} or refused())
        what = "refused it: the partition epoch is another one" if refused() else "accepted it"
        self.say(f"the controller has {what}; ISR {self.state()[1]}; log sizes {self.sizes()}")
        until("another broker leads", 60, lambda: self.state()[0] in (2, 3))
        self.say(f"broker 1 is fenced, broker {self.state()[0]} leads")
        self.brokers[1].start()
        self.in_sync({1, 2, 3}, 120)
        self.say(f"all in sync; log sizes {self.sizes()}")


def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Scenario:
    """The brokers reach the controller through a relay."""
    nodes = laid_out(folder, classpath)
    controller = stack.enter_context(relay(nodes[CONTROLLER].port))
    nodes[CONTROLLER].reached_at = controller.port
    brokers = stack.enter_context(started(nodes))
    return LateAlterPartition(
        brokers, run, TOPIC, ASSIGNMENT, controller=controller, decider=nodes[CONTROLLER]
    )


if __name__ == "__main__":
    program(__doc__ or "", start)()
