"""Let real Kafka append a batch of an idempotent producer twice.

Starts a controller and three brokers with default settings. An idempotent producer writes records
that are two days old, as whoever copies or replays a log does; the answer to the second does not
reach it. Another broker, which has started again meanwhile, leads when the batch is sent again. All
clients are recorded in RUN (trace format v1). Exit code 1: the record is in the log twice; 0: once;
2: the scenario could not be played.
"""

import signal
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
from attrs import define, field
from confluent_kafka import Producer

from examples.brokers import BROKERS, laid_out, started, until
from examples.relay import Header, Relay, Stall
from examples.scenario import Sent
from examples.transactions import ALL, PATIENCE_S, Transactional, program, relayed
from highwater import recorded

TOPIC = "old-timestamps"
LEADS, NEXT = 1, 2
PRODUCE = 0
#: producer.id.expiration.ms is a day.
AGE_MS = 2 * 24 * 3600 * 1000
#: A client asks again after request.timeout.ms (30 s).
ASKS_AGAIN_S = 90


def produces(header: Header) -> bool:
    return header.api_key == PRODUCE


@define
class OldTimestamps(Transactional):
    """A batch is sent to one leader, and again to the next, which has started in between."""

    hop: Relay = field(kw_only=True)
    """The way to the broker that leads first."""
    new: bool = field(kw_only=True)
    """True if the records have the time of now: the control."""

    def play(self) -> str:
        self.create(TOPIC, [[LEADS, NEXT, 3]], **{"min.insync.replicas": "2"})
        until("all in sync", PATIENCE_S, lambda: self.is_in_sync(LEADS))
        producer: Any = recorded(Producer, self.run, {**self.where, "enable.idempotence": True})
        age_ms = 0 if self.new else AGE_MS
        Sent(producer, TOPIC, "A", age_ms=age_ms).wait(PATIENCE_S)
        self.say(f"A, {'of now' if self.new else 'two days old'}, is acknowledged")
        again, answer = self.lose_the_answer(producer, age_ms)
        self.restart(NEXT)
        self.signal(LEADS, signal.SIGTERM)
        self.brokers[LEADS].wait()
        until("the next leader", PATIENCE_S, lambda: self.leader() == NEXT)
        self.say(f"broker {LEADS} has shut down in good order, broker {NEXT} leads")
        again.wait(ASKS_AGAIN_S)
        self.say(f"B is sent again, and acknowledged at offset {again.offset}")
        answer.end()
        self.start(LEADS)
        until("all in sync again", PATIENCE_S, lambda: self.is_in_sync(NEXT))
        producer.close()
        got = self.read(TOPIC, 0, ALL)
        self.say(f"a consumer reads {', '.join(got)}")
        return "B was sent once, and is in the log twice." if got.count("B") > 1 else ""

    def lose_the_answer(self, producer: Any, age_ms: int) -> tuple[Sent, Stall]:
        """B is on all three brokers, and its producer is not told."""
        before = self.logs()
        answer = self.hop.stall(produces, at_most=0, answers=True)
        self.fault(f"answers of broker {LEADS} to the producer are held up")
        b = Sent(producer, TOPIC, "B", age_ms=age_ms)

        def copied() -> bool:
            b.poll()
            return len(set(self.logs())) == 1 and self.logs() > before

        until("B is on all brokers", PATIENCE_S, copied)
        self.say("B is on all brokers, and its producer does not know")
        return b, answer

    def restart(self, broker: int) -> None:
        """In good order."""
        self.signal(broker, signal.SIGTERM)
        self.start(broker)
        until("all in sync", PATIENCE_S, lambda: self.is_in_sync(LEADS))
        self.say(f"broker {broker} has started again, and is in sync")

    def leader(self) -> int:
        found = self.partitions(TOPIC)
        return found[0].leader if found else -1

    def is_in_sync(self, leader: int) -> bool:
        """True if this broker leads, with all others in the ISR, by what it knows itself."""
        found = self.partitions(TOPIC, leader)
        return bool(found) and found[0].leader == leader and len(found[0].isr) == 3

    def logs(self) -> list[int]:
        return [node.log_size(TOPIC) for node in self.brokers.values()]


def start(folder: Path, classpath: str, run: Path, stack: ExitStack, new: bool) -> Transactional:
    """The brokers, and a relay before the first."""
    nodes = laid_out(folder, classpath, BROKERS)
    (hop,) = relayed(nodes, stack, LEADS)
    stack.enter_context(started(nodes))
    return OldTimestamps(nodes, run, hop=hop, new=new)


if __name__ == "__main__":
    control = click.Option(["--new"], is_flag=True, help="Write records of now: the control.")
    kept = "B is in the log once."
    program(__doc__ or "", start, kept, control)()
