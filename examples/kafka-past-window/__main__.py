"""Let real Kafka append batches of an idempotent producer twice, by answers that are lost.

Starts a controller and three brokers with default settings. Kafka's own producer sends a batch to
one leader and five to the next, and both leaders' answers are lost: six batches lie behind the last
one that is known, and a leader remembers five. The producer is recorded in RUN (trace format v1).
Exit code 1: records are in the log twice, or one fails that is there; 0: each is there once; 2: the
scenario could not be played.
"""

import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import click
from attrs import define, field

from examples.brokers import BROKERS, NotInTimeError, laid_out, started, until
from examples.relay import Header, Relay
from examples.transactions import ALL, PATIENCE_S, Transactional, program, relayed
from traces.record.process import COUNTER_BITS, clock_domain

TOPIC, PRODUCER = "past-window", "producer"
LEADS, NEXT = 1, 2
PRODUCE = 0
#: max.in.flight.requests.per.connection, and the batches of a producer that a leader remembers.
WINDOW = 5
#: A producer gives a connection up after request.timeout.ms (30 s), and two of them here.
GIVES_UP_S = 90
#: A record fails after delivery.timeout.ms (120 s).
FAILS_S = 150
#: A batch that is not on all brokers by then was not sent.
HOLDS_BACK_S = 10


def produces(header: Header) -> bool:
    return header.api_key == PRODUCE


@define
class Sending:
    """Kafka's producer: a JVM that sends what it reads, and says what became of it."""

    process: "subprocess.Popen[str]"
    log: Path
    said: "Queue[str]" = field(factory=lambda: Queue[str]())

    def __attrs_post_init__(self) -> None:
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.strip())

    def says(self, patience_s: float) -> str:
        """What became of the next record."""
        try:
            return self.said.get(timeout=patience_s)
        except Empty:
            failed = self.log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"the producer says nothing: {failed}") from None

    def send(self, value: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(value + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@define
class PastWindow(Transactional):
    """One batch is sent to the first leader, and more to the next, without an answer."""

    classpath: str = field(kw_only=True)
    folder: Path = field(kw_only=True)
    hops: dict[int, Relay] = field(kw_only=True)
    """The ways to the first leader and to the next."""
    stack: ExitStack = field(kw_only=True)
    few: bool = field(kw_only=True)
    """True if the leader remembers all of them: the control."""
    answered: bool = field(kw_only=True)
    """True if the next leader's answers arrive."""

    def play(self) -> str:
        self.create(TOPIC, [[LEADS, NEXT, 3]], **{"min.insync.replicas": "2"})
        until("all in sync", PATIENCE_S, lambda: self.leads(LEADS) and self.isr() == 3)
        producer = self.start_producer()
        producer.send("A")
        self.say(producer.says(PATIENCE_S))
        lost = self.hops[LEADS].stall(produces, at_most=0, answers=True)
        self.fault(f"answers of broker {LEADS} to the producer are lost")
        if not self.write(producer, "B"):
            raise NotInTimeError("B was not written")
        self.signal(LEADS, signal.SIGTERM)
        self.brokers[LEADS].wait()
        until("the next leader", PATIENCE_S, lambda: self.leads(NEXT))
        self.say(f"broker {LEADS} has shut down in good order, broker {NEXT} leads")
        more = [f"C{number}" for number in range(1, WINDOW if self.few else WINDOW + 1)]
        said = self.answer(producer, more) if self.answered else self.lose(producer, more)
        producer.close()
        lost.end()
        self.start(LEADS)
        until("all in sync again", PATIENCE_S, lambda: self.leads(NEXT) and self.isr() == 3)
        got = self.read(TOPIC, 0, ALL)
        self.say(f"a consumer reads {', '.join(got)}")
        twice = [one for one in dict.fromkeys(got) if got.count(one) > 1]
        if twice:
            return f"Sent once, and in the log twice: {', '.join(twice)}."
        failed = [one.split()[0] for one in said if "fails" in one]
        return f"In the log, and failed: {', '.join(failed)}." if failed else ""

    def tell(self, producer: Sending, patience_s: float) -> str:
        said = producer.says(patience_s)
        self.say(said)
        return said

    def answer(self, producer: Sending, more: list[str]) -> list[str]:
        """The next leader acknowledges all that it is sent."""
        said = [self.tell(producer, PATIENCE_S) for value in more if self.write(producer, value)]
        return said + [self.tell(producer, FAILS_S) for _ in range(1 + len(more) - len(said))]

    def lose(self, producer: Sending, more: list[str]) -> list[str]:
        """The next leader has them, and acknowledges what it is sent by a new connection."""
        hop = self.hops[NEXT]
        lost = hop.stall(produces, at_most=0, answers=True)
        self.fault(f"answers of broker {NEXT} to the producer are lost")
        for value in more:
            self.write(producer, value)
        before = len(hop.threads)
        until(
            "the producer gives its connections up", GIVES_UP_S, lambda: len(hop.threads) > before
        )
        self.say(f"the producer gives its connection to broker {NEXT} up, and takes another")
        lost.end()
        return [self.tell(producer, GIVES_UP_S) for _ in range(1 + len(more))]

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

    def logs(self) -> list[int]:
        alive = [one for one in self.brokers.values() if one.process and one.process.poll() is None]
        return [node.log_size(TOPIC) for node in alive]

    def leads(self, leader: int) -> bool:
        found = self.partitions(TOPIC, leader)
        return bool(found) and found[0].leader == leader

    def isr(self) -> int:
        found = self.partitions(TOPIC)
        return len(found[0].isr) if found else 0

    def start_producer(self) -> Sending:
        classes, log = self.folder / "classes", self.folder / "producer.log"
        source = Path(__file__).with_name("Sends.java")
        subprocess.run(
            ("javac", "-nowarn", "-cp", self.classpath, "-d", classes, source), check=True
        )
        lean = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        path = f"{classes}{os.pathsep}{self.classpath}"
        command = ["java", *lean, "-cp", path, "Sends", self.bootstrap, TOPIC]
        file = self.run / f"{PRODUCER}#0.ndjson"
        command += [str(file), PRODUCER, clock_domain(), str(1 << COUNTER_BITS)]
        with log.open("w") as errors:
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            sending = Sending(subprocess.Popen(command, text=True, **pipes), log)
        self.stack.callback(sending.end)
        return sending

    def meta(self) -> dict[str, Any]:
        """The settings of the producer, as far as a recorder of it would know them."""
        writes = {"acks": "all", "idempotence": True, "max_in_flight": WINDOW}
        return {"producers": {PRODUCER: writes}, "faults": self.faults}


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, few: bool, answered: bool
) -> Transactional:
    """The brokers, and a relay before each of those that lead."""
    nodes = laid_out(folder, classpath, BROKERS)
    hops = dict(zip((LEADS, NEXT), relayed(nodes, stack, LEADS, NEXT), strict=True))
    stack.enter_context(started(nodes))
    return PastWindow(
        *(nodes, run),
        classpath=classpath,
        folder=folder,
        hops=hops,
        stack=stack,
        few=few,
        answered=answered,
    )


if __name__ == "__main__":
    few = click.Option(["--few"], is_flag=True, help="One batch fewer: the control.")
    answered = click.Option(
        ["--answered"], is_flag=True, help="The next leader's answers arrive: a record fails."
    )
    kept = "Each record is in the log once."
    program(__doc__ or "", start, kept, few, answered)()
