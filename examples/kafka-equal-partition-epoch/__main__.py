"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, lets a leader read of its last change
of the ISR in the metadata only after it has asked for the next one, and records its client in RUN
(trace format v1). Exit code 1: the acknowledged record is lost; 0: it survives; 2: the scenario
could not be played.
"""

import time
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.relay import Stall
from examples.relayed import (
    LAGS_S,
    PATIENT,
    Relayed,
    asked_by_broker_1,
    fetched_by_broker_3,
    metadata_of_broker_1,
    relayed,
)
from examples.scenario import Scenario, Sent, program

TOPIC = "equal-partition-epoch"
#: A replica that lags for longer than that is not waited for, unless it may be in the ISR.
FORGOTTEN_S = 31
#: More than a record takes that is not waited for.
ACKNOWLEDGED_S = 5
#: Until a broker has read new metadata, in seconds, and more.
READ_S = 1.0


@define
class EqualPartitionEpoch(Relayed):
    """Metadata of the partition epoch that a leader knows already erase what it has asked since."""

    in_time: bool = field(kw_only=True)

    def play(self) -> list[bytes]:
        self.let_broker_1_lead()
        self.write("A", 60)
        asked = self.ask_while_the_metadata_lag()
        self.write_b()
        self.kill(1)
        self.deliver(asked)
        self.replace_broker_1()
        return self.write_c_and_read()

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
        """Broker 1 has sent it again meanwhile: the first is accepted, the copies are refused."""
        self.fault("what broker 1 has asked is delivered")
        asked.end()
        self.in_sync({1, 2, 3}, 8)
        self.say(f"the controller has accepted it: ISR {{1, 2, 3}}; log sizes {self.sizes()}")


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, metadata_in_time: bool
) -> Scenario:
    fields = relayed(folder, classpath, stack)
    return EqualPartitionEpoch(
        run=run, topic=TOPIC, settings=PATIENT, in_time=metadata_in_time, **fields
    )


if __name__ == "__main__":
    control = click.Option(
        ["--metadata-in-time"], is_flag=True, help="Hold no metadata up: the control."
    )
    program(__doc__ or "", start, control)()
