"""Let real Kafka append batches of an idempotent producer twice, by a rolling restart.

Starts a controller and three brokers with default settings. Kafka's own producer has two batches in
flight, and their answers are lost. Another broker, which has started again meanwhile, leads when
they are sent again: it has read a snapshot, in which a producer has its last batch alone. The
producer is recorded in RUN (trace format v1). Exit code 1: records are in the log twice; 0: each is
there once; 2: the scenario could not be played.
"""

import signal

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.sends import Unanswered, start
from examples.transactions import PATIENCE_S, program
from traces.record.process import clock_domain

LEADS, NEXT = 1, 2
#: A producer sends again after request.timeout.ms (30 s).
SENDS_AGAIN_S = 90


@define
class SnapshotForgets(Unanswered):
    """Two batches are sent to one leader, and again to the next, which has started in between."""

    one: bool = field(kw_only=True)
    """True if there is one batch alone: the control."""

    def play(self) -> str:
        producer = self.begin(LEADS)
        lost = self.lose_answers(LEADS)
        values = ["B"] if self.one else ["B", "C"]
        for value in values:
            if not self.write(producer, value):
                raise NotInTimeError(f"{value} was not written")
        self.restart(NEXT)
        self.stop(LEADS, NEXT)
        for _ in values:
            self.tell(producer, SENDS_AGAIN_S)
        producer.close(PATIENCE_S)
        lost.end()
        self.start(LEADS)
        return self.twice(NEXT)

    def restart(self, broker: int) -> None:
        """In good order."""
        self.signal(broker, signal.SIGTERM)
        self.start(broker)
        until("all in sync", PATIENCE_S, lambda: self.is_in_sync(LEADS))
        self.say(f"broker {broker} has started again, and is in sync")


if __name__ == "__main__":
    one = click.Option(["--one"], is_flag=True, help="One batch in flight alone: the control.")
    kept = "Each record is in the log once."
    program(
        __doc__ or "", start(SnapshotForgets, "snapshot-forgets", clock_domain(), LEADS), kept, one
    )()
