"""Kafka's own producer in a scenario: it sends what it is told, and says what became of it."""

import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field

from examples.brokers import BROKERS, NotInTimeError, laid_out, started, until
from examples.jvm import Jvm, compiled
from examples.relay import Header, Relay, Stall
from examples.transactions import ALL, PATIENCE_S, Transactional, relayed

PRODUCER = "producer"
PRODUCE = 0
#: A batch that is not on all brokers by then was not sent.
HOLDS_BACK_S = 10


def produces(header: Header) -> bool:
    return header.api_key == PRODUCE


class Sending(Jvm):
    """Kafka's producer: it sends what it reads, and says what became of each record."""

    def send(self, value: str, partition: int = 0) -> None:
        """A record in this partition."""
        self.write(f"{value} {partition}\n")


@define
class Unanswered(Transactional):
    """A scenario in which leaders have batches of Kafka's producer whose answers are lost."""

    topic: str = field(kw_only=True)
    classpath: str = field(kw_only=True)
    folder: Path = field(kw_only=True)
    hops: Mapping[int, Relay] = field(kw_only=True)
    """The ways to the brokers whose answers can be lost."""
    stack: ExitStack = field(kw_only=True)
    clock: str = field(kw_only=True)
    """The domain of its times, for all that is recorded on this host."""

    def begin(self, first: int) -> Sending:
        """A topic that each broker leads a partition of, and a producer that knows them all.

        The first one leads partition 0. The producer has a connection to each broker, as one has
        that writes to many partitions, so it can ask another one for metadata.
        """
        brokers = [first, *(one for one in BROKERS if one != first)]
        turns = [brokers[at:] + brokers[:at] for at in range(len(brokers))]
        self.create(self.topic, turns, **{"min.insync.replicas": "2"})
        until("all in sync", PATIENCE_S, lambda: self.is_in_sync(first))
        producer = self.start_producer()
        for partition, value in enumerate(("A", "X", "Y")):
            producer.send(value, partition)
            self.tell(producer, PATIENCE_S)
        return producer

    def start_producer(self) -> Sending:
        """It writes its own part of the recording."""
        source = Path(__file__).with_name("Sends.java")
        path = compiled(source, self.folder / "classes", self.classpath)
        file = str(self.run / f"{PRODUCER}#0.ndjson")
        arguments = ["-cp", path, "Sends", self.bootstrap, self.topic, file, PRODUCER, self.clock]
        one = Sending.started(PRODUCER, [*arguments, "0"], self.folder / "producer.log")
        self.stack.callback(one.end)
        return one

    def tell(self, producer: Sending, patience_s: float) -> str:
        """The result of the next record."""
        said = producer.says(patience_s)
        self.say(said)
        return said

    def lose_answers(self, broker: int) -> Stall:
        """From now on a broker's answers do not reach the producer."""
        lost = self.hops[broker].stall(produces, at_most=0, answers=True)
        self.fault(f"answers of broker {broker} to the producer are lost")
        return lost

    def write(self, producer: Sending, value: str) -> bool:
        """Send a record in a batch of its own; False if the producer holds it back."""
        before = self.logs()
        producer.send(value)

        def copied() -> bool:
            now = self.logs()
            return len({*now}) == 1 and now > before

        try:
            until(f"{value} is on all brokers", HOLDS_BACK_S, copied)
        except NotInTimeError:
            self.say(f"the producer holds {value} back")
            return False
        self.say(f"{value} is on all brokers")
        return True

    def stop(self, broker: int, successor: int) -> None:
        """In good order."""
        self.signal(broker, signal.SIGTERM)
        self.brokers[broker].wait()
        until("the next leader", PATIENCE_S, lambda: self.leads(successor))
        self.say(f"broker {broker} has shut down in good order, broker {successor} leads")

    def twice(self, leader: int) -> str:
        """The records that a consumer reads twice, in a sentence; "" if there are none."""
        until("all in sync again", PATIENCE_S, lambda: self.is_in_sync(leader))
        got = self.read(self.topic, 0, ALL)
        self.say(f"a consumer reads {', '.join(got)}")
        found = [one for one in dict.fromkeys(got) if got.count(one) > 1]
        return f"Sent once, and in the log twice: {', '.join(found)}." if found else ""

    def logs(self) -> list[int]:
        alive = [one for one in self.brokers.values() if one.process and one.process.poll() is None]
        return [node.log_size(self.topic) for node in alive]

    def leads(self, leader: int) -> bool:
        found = self.partitions(self.topic, leader)
        return bool(found) and found[0].leader == leader

    def is_in_sync(self, leader: int) -> bool:
        """True if this broker leads, with all others in the ISR, by what it knows itself."""
        found = self.partitions(self.topic, leader)
        return bool(found) and found[0].leader == leader and len(found[0].isr) == 3

    def meta(self) -> dict[str, Any]:
        """The settings of the producer, as far as a recorder of it would know them."""
        settings = {"acks": "all", "idempotence": True, "max_in_flight": 5}
        return {"producers": {PRODUCER: settings}, "faults": self.faults}


def start(
    scenario: Callable[..., Unanswered], topic: str, clock: str, *relays: int
) -> Callable[..., Transactional]:
    """Starts a scenario on brokers with default settings, with relays before some of them."""

    def started_one(
        folder: Path, classpath: str, run: Path, stack: ExitStack, **flags: bool
    ) -> Unanswered:
        nodes = laid_out(folder, classpath, BROKERS)
        hops = dict(zip(relays, relayed(nodes, stack, *relays), strict=True))
        stack.enter_context(started(nodes))
        where = {"topic": topic, "classpath": classpath, "folder": folder, "clock": clock}
        return scenario(nodes, run, **where, hops=hops, stack=stack, **flags)

    return started_one
