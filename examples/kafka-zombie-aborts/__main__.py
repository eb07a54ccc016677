"""Let a producer of real Kafka that is fenced abort the transaction of its successor.

Starts a controller and three brokers with default settings. A first instance of an application
cannot deliver a record, and aborts: its client asks for its next epoch (KIP-360), and that request
is slow. A second instance takes over, and is in its transaction when the request arrives. All
clients are recorded in RUN (trace format v1). Exit code 1: the transaction of the second instance
is aborted, and that is fenced; 0: it commits; 2: the scenario could not be played.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import KafkaException

from examples.brokers import BROKERS, laid_out, started, until
from examples.relay import Header, Relay, Stall
from examples.scenario import Sent
from examples.transactions import COMMITTED, PATIENCE_S, Transactional, program, relayed

TOPIC, APPLICATION = "zombie-aborts", "app"
FIRST, SECOND = "first", "second"
PRODUCE, INIT_PRODUCER_ID = 0, 22
#: The first instance gives up a record after so long; its transaction has to be aborted then.
GIVES_UP_MS = 5_000


def writes(header: Header) -> bool:
    return header.client_id == FIRST and header.api_key == PRODUCE


def asks_for_an_epoch(header: Header) -> bool:
    return header.client_id == FIRST and header.api_key == INIT_PRODUCER_ID


@define
class ZombieAborts(Transactional):
    """A request of one epoch arrives in the transaction of a later one."""

    hops: list[Relay] = field(kw_only=True)
    """The ways to the brokers."""

    def play(self) -> str:
        self.create(TOPIC, [[1, 2, 3]], **{"min.insync.replicas": "2"})
        first = self.instance(FIRST, **{"message.timeout.ms": GIVES_UP_MS})
        writing = self.stall(writes)
        self.fail_to_send(first)
        asking = self.stall(asks_for_an_epoch)
        with ThreadPoolExecutor(1) as aside:
            aborted = aside.submit(first.abort_transaction, PATIENCE_S)
            until("it asks for an epoch", PATIENCE_S, lambda: any(one.caught for one in asking))
            self.say("the first instance aborts, and asks for its next epoch: that is slow")
            second = self.instance(SECOND)
            second.begin_transaction()
            self.send(second, TOPIC, "B", 0)
            self.say("the second instance has taken over; B is acknowledged in its transaction")
            self.fault("what the first instance has asked for is delivered")
            for stall in asking:
                stall.end()
            self.say(f"the first instance is told {refusal(aborted)}")
        refused = self.commit(second)
        for stall in writing:
            stall.end()
        self.say(f"committed records: {self.read(TOPIC, 0, COMMITTED)}")
        for instance in (first, second):
            with suppress(KafkaException):  # whoever is fenced cannot flush
                instance.close()
        said = "The second instance, which nobody has followed, was fenced by the first"
        return refused and f"{said}: {refused}."

    def instance(self, name: str, **settings: Any) -> Any:
        return self.producer(name, APPLICATION, **{"client.id": name, **settings})

    def stall(self, match: Any) -> list[Stall]:
        return [hop.stall(match) for hop in self.hops]

    def fail_to_send(self, first: Any) -> None:
        """A record that is not delivered in time."""
        self.fault("what the first instance writes is held up")
        first.begin_transaction()
        sent = Sent(first, TOPIC, "A")

        def given_up() -> bool:
            first.poll(0.1)
            return sent.error is not None

        until("it gives the record up", PATIENCE_S, given_up)
        self.say(f"the first instance could not send A: {sent.error}")

    def commit(self, second: Any) -> str:
        """Why the commit was refused; "" if it was not."""
        try:
            second.commit_transaction(PATIENCE_S)
        except KafkaException as refused:
            name = str(refused.args[0].name())
            self.say(f"the second instance cannot commit: {name}")
            return name
        self.say("the second instance commits")
        return ""


def refusal(call: "Future[Any]") -> str:
    """The error that it was answered."""
    try:
        call.result(PATIENCE_S + 10)
    except KafkaException as refused:
        return str(refused.args[0].name())
    raise RuntimeError("the first instance was not told that it is fenced")


def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Transactional:
    """The brokers, and a relay before each."""
    nodes = laid_out(folder, classpath)
    hops = relayed(nodes, stack, *BROKERS)
    stack.enter_context(started(nodes))
    return ZombieAborts(nodes, run, hops=hops)


if __name__ == "__main__":
    program(__doc__ or "", start, "The second instance commits what it has sent.")()
