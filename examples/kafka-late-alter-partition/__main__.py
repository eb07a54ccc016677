"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, holds one AlterPartition request up on
its way, lets the controller refuse its repetition and accept the original later, and records its
client in RUN (trace format v1). Exit code 1: the acknowledged record is lost; 0: it survives; 2:
the scenario could not be played.
"""

import signal
from contextlib import ExitStack
from pathlib import Path

from attrs import define

from examples.brokers import until
from examples.relay import Stall
from examples.relayed import FENCED_S, Relayed, asked_by_broker_1, relayed
from examples.scenario import Scenario, program

TOPIC = "late-alter-partition"
#: Broker 1 gives its request up after controller.socket.timeout.ms (30 s), and sends it again.
GIVEN_UP_S = 45


@define
class LateAlterPartition(Relayed):
    """A request is refused, and a copy of it accepted later."""

    def play(self) -> list[bytes]:
        self.let_broker_1_lead()
        self.write("A", 60)
        self.fence_broker_3()
        copy = self.hold_the_request()
        self.be_refused()
        self.write("B", 60)
        self.say(f"log sizes {self.sizes()}")
        self.kill(1)
        self.signal(3, signal.SIGCONT)
        until("broker 3 is unfenced", 8, lambda: 3 in self.alive())
        self.deliver(copy)
        self.replace_broker_1()
        return self.write_c_and_read()

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


def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Scenario:
    return LateAlterPartition(run=run, topic=TOPIC, **relayed(folder, classpath, stack))


if __name__ == "__main__":
    program(__doc__ or "", start)()
