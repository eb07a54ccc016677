"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, raises min.insync.replicas from 1 to 2
while the ISR shrinks, lets the leader read of the change a moment later than of its ISR, and shuts
the leader down in good order. It records its client in RUN (trace format v1). Exit code 1: the
acknowledged record is lost; 0: it survives; 2: the scenario could not be played.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.relayed import (
    LAGS_S,
    PATIENT,
    Relayed,
    asked_by_broker_1,
    fetched_by_a_follower,
    metadata_of_broker_1,
    relayed,
)
from examples.scenario import Scenario, Sent, program, set_min_isr

TOPIC = "raised-min-isr"
#: More than a record takes that nobody has to be waited for.
ACKNOWLEDGED_S = 5
#: Until a broker has read new metadata, in seconds, and more.
READ_S = 1.0


@define
class RaisedMinIsr(Relayed):
    """The controller makes followers eligible by a minimum that their leader does not know yet."""

    in_time: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.let_broker_1_lead()
        self.write("A", 60)
        until("A everywhere", 10, lambda: len(set(self.sizes())) == 1)
        self.raise_the_minimum()
        self.shut_down_broker_1()
        self.replace_broker_1()
        return self.write_c_and_read()

    def raise_the_minimum(self) -> None:
        """While the leader's request to shrink the ISR to itself is under way."""
        self.fault("fetches of brokers 2 and 3 from broker 1 are held up")
        self.leader.stall(fetched_by_a_follower, answers=True)
        b = Sent(self.producer, TOPIC, "B")
        shrink = self.controller.stall(asked_by_broker_1)
        until("broker 1 asks for ISR {1}", LAGS_S, lambda: bool(shrink.caught))
        self.fault("broker 1 asks for ISR {1}: held up; B is not acknowledged")
        metadata = self.controller.stall(metadata_of_broker_1, answers=True)
        if self.in_time:
            metadata.end()
        else:
            self.fault("the metadata of broker 1 are held up")
        set_min_isr(self.admin, TOPIC, 2)
        self.fault("the controller has confirmed min.insync.replicas=2")
        if self.in_time:
            time.sleep(READ_S)
        shrink.end()
        try:
            b.wait(ACKNOWLEDGED_S)
        except NotInTimeError:
            self.say("B is not acknowledged: one in sync is not enough")
        else:
            self.say(f"B acknowledged at offset {b.offset}; log sizes {self.sizes()}")
        metadata.end()
        self.say("broker 1 has read min.insync.replicas=2, or does so now")

    def shut_down_broker_1(self) -> None:
        """In good order: it hands its leadership over."""
        self.signal(1, signal.SIGTERM)
        self.brokers[1].wait()


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, metadata_in_time: bool
) -> Scenario:
    fields = relayed(folder, classpath, stack)
    return RaisedMinIsr(
        run=run, topic=TOPIC, settings=PATIENT, min_isr=1, in_time=metadata_in_time, **fields
    )


if __name__ == "__main__":
    control = click.Option(
        ["--metadata-in-time"], is_flag=True, help="Hold no metadata up: the control."
    )
    program(__doc__ or "", start, control)()
