"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, lets a leader read of its last change
of the ISR in the metadata only after it has asked for the next one, and records its client in RUN
(trace format v1). Exit code 1: the acknowledged record is lost; 0: it survives; 2: the scenario
could not be played.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import (
    BROKERS,
    CONTROLLER,
    NotInTimeError,
    free_port,
    laid_out,
    started,
    until,
)
from examples.relay import Header, Relay, Stall, relay
from examples.scenario import Scenario, Sent, program

TOPIC = "equal-partition-epoch"
#: Broker 1 leads after a restart of broker 3, which is elected as soon as broker 1 is gone.
ASSIGNMENT = [3, 1, 2]
ALTER_PARTITION = 56
#: A follower leaves the ISR after replica.lag.time.max.ms (30 s), looked for every 15 s.
LAGS_S = 60
#: A replica that lags for longer than that is not waited for, unless it may be in the ISR.
FORGOTTEN_S = 31
#: More than a record takes that is not waited for.
ACKNOWLEDGED_S = 5
#: Until a broker has read new metadata, in seconds, and more.
READ_S = 1.0
#: A producer that waits for longer than the brokers do sends nothing twice.
PATIENT = {"request.timeout.ms": 120_000}

#: Brokers speak to each other by a listener of its own, which leads through a relay at broker 1.
LISTENERS = """\
listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{internal}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},INTERNAL://127.0.0.1:{reached_at}
inter.broker.listener.name=INTERNAL
"""


def asked_by_broker_1(header: Header) -> bool:
    return header.api_key == ALTER_PARTITION and header.client_id == "1"


def metadata_of_broker_1(header: Header) -> bool:
    return header.client_id == "raft-client-1"


def fetched_by_broker_3(header: Header) -> bool:
    return header.client_id.startswith("broker-3-fetcher")


@define
class EqualPartitionEpoch(Scenario):
    """Metadata of the partition epoch that a leader knows already erase what it has asked since."""

    controller: Relay = field(kw_only=True)
    leader: Relay = field(kw_only=True)
    in_time: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.create_topic()
        self.restart(3)
        self.say("broker 1 leads, ISR {1, 2, 3}, broker 3 is preferred")
        self.write("A", 60)
        asked = self.ask_while_the_metadata_lag()
        self.write_b()
        self.deliver(asked)
        self.write("C", 60)
        self.producer.close()
        return self.read()

    def ask_while_the_metadata_lag(self) -> Stall:
        """Broker 3 leaves the ISR and is let in again before broker 1 reads that it has left."""
        self.fault("fetches of broker 3 from broker 1 are held up")
        fetches = self.leader.stall(fetched_by_broker_3, answers=True)
        lagging = Sent(self.producer, TOPIC, "A2")  # a follower that has everything never lags
        shrink = self.controller.stall(asked_by_broker_1)
        until("broker 1 asks for ISR {1, 2}", LAGS_S, lambda: bool(shrink.caught))
        metadata = self.controller.stall(metadata_of_broker_1, answers=True)
        if self.in_time:
            metadata.end()
        else:
            self.fault("the metadata of broker 1 are held up")
        shrink.end()
        lagging.wait(5)
        self.say(f"broker 1 has its answer, ISR {{1, 2}}, and acknowledges A2 at {lagging.offset}")
        if self.in_time:
            time.sleep(READ_S)
        expand = self.controller.stall(asked_by_broker_1)
        fetches.end()
        until("broker 1 asks for ISR {1, 2, 3}", 5, lambda: bool(expand.caught))
        self.leader.stall(fetched_by_broker_3, answers=True)
        self.fault("broker 1 asks for ISR {1, 2, 3}: held up, as are fetches of broker 3 again")
        metadata.end()
        self.say("broker 1 has read that the ISR is {1, 2}, or does so now")
        return expand

    def write_b(self) -> None:
        """After broker 3 has lagged for so long that only what was asked keeps it in mind."""
        time.sleep(FORGOTTEN_S)
        b = Sent(self.producer, TOPIC, "B")
        until("B on broker 2", 10, lambda: self.sizes()[1] == self.sizes()[0])
        try:
            b.wait(ACKNOWLEDGED_S)
        except NotInTimeError:
            self.say("B is not acknowledged: broker 1 waits for broker 3")
        else:
            self.say(f"B acknowledged at offset {b.offset}; log sizes {self.sizes()}")

    def deliver(self, asked: Stall) -> None:
        """The leader dies, and then its request arrives."""
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        self.fault("what broker 1 has asked is delivered")
        asked.end()
        self.in_sync({1, 2, 3}, 8)
        self.say(f"the controller has accepted it: ISR {{1, 2, 3}}; log sizes {self.sizes()}")
        until("broker 3 leads", 60, lambda: self.state()[0] == 3)
        self.say("broker 1 is fenced, broker 3 leads")
        for stall in self.leader.stalls:
            stall.end()
        self.brokers[1].start()
        self.in_sync({1, 2, 3}, 120)
        self.say(f"all in sync; log sizes {self.sizes()}")


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, metadata_in_time: bool
) -> Scenario:
    """The brokers reach the controller, and each other broker 1, through a relay."""
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
    brokers = stack.enter_context(started(nodes))
    return EqualPartitionEpoch(
        brokers,
        run,
        TOPIC,
        ASSIGNMENT,
        PATIENT,
        controller=controller,
        leader=leader,
        in_time=metadata_in_time,
    )


if __name__ == "__main__":
    control = click.Option(
        ["--metadata-in-time"], is_flag=True, help="Hold no metadata up: the control."
    )
    program(__doc__ or "", start, control)()
