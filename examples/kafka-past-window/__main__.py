"""Let real Kafka append batches of an idempotent producer twice, by answers that are lost.

Starts a controller and three brokers with default settings. Kafka's own producer sends a batch to
one leader and five to the next, and both leaders' answers are lost: six batches lie behind the last
one that is known, and a leader remembers five. The producer is recorded in RUN (trace format v1).
Exit code 1: records are in the log twice, or one fails that is there; 0: each is there once; 2: the
scenario could not be played.
"""

import click
from attrs import define, field

from examples.brokers import NotInTimeError, until
from examples.sends import Sending, Unanswered, start
from examples.transactions import PATIENCE_S, program
from traces.record.process import clock_domain

LEADS, NEXT = 1, 2
#: max.in.flight.requests.per.connection, and the batches of a producer that a leader remembers.
WINDOW = 5
#: A producer gives a connection up after request.timeout.ms (30 s), and two of them here.
GIVES_UP_S = 90
#: A record fails after delivery.timeout.ms (120 s).
FAILS_S = 150


@define
class PastWindow(Unanswered):
    """One batch is sent to the first leader, and more to the next, without an answer."""

    few: bool = field(kw_only=True)
    """True if the leader remembers all of them: the control."""
    answered: bool = field(kw_only=True)
    """True if the next leader's answers arrive."""

    def play(self) -> str:
        producer = self.begin(LEADS)
        lost = self.lose_answers(LEADS)
        if not self.write(producer, "B"):
            raise NotInTimeError("B was not written")
        self.stop(LEADS, NEXT)
        more = [f"C{number}" for number in range(1, WINDOW if self.few else WINDOW + 1)]
        said = self.answer(producer, more) if self.answered else self.lose(producer, more)
        producer.close(PATIENCE_S)
        lost.end()
        self.start(LEADS)
        failed = [one.split()[0] for one in said if "fails" in one]
        return self.twice(NEXT) or (f"In the log, and failed: {', '.join(failed)}." * bool(failed))

    def answer(self, producer: Sending, more: list[str]) -> list[str]:
        """The next leader acknowledges all that it is sent."""
        said = [self.tell(producer, PATIENCE_S) for value in more if self.write(producer, value)]
        return said + [self.tell(producer, FAILS_S) for _ in range(1 + len(more) - len(said))]

    def lose(self, producer: Sending, more: list[str]) -> list[str]:
        """The next leader has them, and acknowledges what it is sent by a new connection."""
        hop, lost = self.hops[NEXT], self.lose_answers(NEXT)
        for value in more:
            self.write(producer, value)
        before = len(hop.threads)
        until("another connection", GIVES_UP_S, lambda: len(hop.threads) > before)
        self.say(f"the producer gives its connection to broker {NEXT} up, and takes another")
        lost.end()
        return [self.tell(producer, GIVES_UP_S) for _ in range(1 + len(more))]


if __name__ == "__main__":
    few = click.Option(["--few"], is_flag=True, help="One batch fewer: the control.")
    answered = click.Option(
        ["--answered"], is_flag=True, help="The next leader's answers arrive: a record fails."
    )
    kept = "Each record is in the log once."
    program(
        __doc__ or "",
        start(PastWindow, "past-window", clock_domain(), LEADS, NEXT),
        kept,
        few,
        answered,
    )()
