"""Transactions on real brokers, under the agent: committed, aborted, fenced, timed out, moved."""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from attrs import define, field

from chaos.real.kafka.asking import STATE, ids_on
from examples.brokers import laid_out, started, until
from examples.jvm import Jvm, compiled
from examples.kafka_jars import class_path
from examples.transactions import PATIENCE_S, Transactional

TOPIC = "orders"
#: transaction.timeout.ms of the transactions that are to end for their time
SHORT_MS, LONG_MS = 4_000, 300_000
LOOKS = "transaction.abort.timed.out.transaction.cleanup.interval.ms=500\n"
JAVA_SAID_S = 120.0


@define
class Coordinated(Transactional):
    """Java's producer with transaction.version 2, librdkafka's with 1, and a killed coordinator."""

    java: Jvm = field(kw_only=True)

    def play(self) -> str:
        """Play it all; it finds nothing."""
        state = self.create_state()
        self.create(TOPIC, [[1, 2, 3], [2, 3, 1]], **{"min.insync.replicas": "2"})
        number, replicas = next((n, one.replicas) for n, one in sorted(state.items()))
        ids = ids_on(number)
        java, slow, other = (next(ids) for _ in range(3))
        self.orderly(java)
        first: Any = self.producer("first", other)
        self.librdkafka(first)
        self.kill(number, replicas, first)
        self.fence(java)
        self.time_out(slow)
        return ""

    def ask(self, *words: object) -> str:
        """One call of Java's producer, and what became of it."""
        self.java.write(" ".join(map(str, words)) + "\n")
        return self.java.says(JAVA_SAID_S)

    def well(self, *words: object) -> None:
        """A call that must succeed."""
        said = self.ask(*words)
        assert said == "ok", (words, said)

    def orderly(self, name: str) -> None:
        """One commit in two partitions, and one abort."""
        self.well("start", "java", name, LONG_MS)
        for number, end in enumerate(("commit", "abort")):
            self.well("begin", "java")
            for partition in (0, 1):
                self.well("send", "java", TOPIC, partition, f"{end}-{number}")
            self.well(end, "java")

    def librdkafka(self, first: Any) -> None:
        """The same by another client, whose ends keep the epoch."""
        for end in (first.commit_transaction, first.abort_transaction):
            first.begin_transaction()
            for partition in (0, 1):
                self.send(first, TOPIC, "by librdkafka", partition)
            end(PATIENCE_S)

    def kill(self, number: int, replicas: tuple[int, ...], first: Any) -> None:
        """The coordinator is killed in the middle of two transactions, which go on."""
        old = replicas[0]
        self.well("begin", "java")
        self.well("send", "java", TOPIC, 0, "before")
        first.begin_transaction()
        self.send(first, TOPIC, "before", 0)
        self.signal(old, signal.SIGKILL)
        self.brokers[old].wait()
        until("another coordinator", PATIENCE_S, lambda: self.led_by(number) not in (old, -1))
        self.well("send", "java", TOPIC, 1, "after")
        self.well("commit", "java")
        self.send(first, TOPIC, "after", 1)
        first.commit_transaction(PATIENCE_S)
        self.start(old)

    def led_by(self, number: int) -> int:
        """The coordinator, as a broker that is up knows it."""
        found = self.partitions(STATE)
        return found[number].leader if number in found else -1

    def fence(self, name: str) -> None:
        """A second instance takes over in the middle of a transaction."""
        self.well("begin", "java")
        self.well("send", "java", TOPIC, 0, "of the zombie")
        self.well("start", "next", name, LONG_MS)
        self.say(f"the zombie commits: {self.ask('commit', 'java')}")
        self.well("begin", "next")
        self.well("send", "next", TOPIC, 0, "of the newest")
        self.well("commit", "next")

    def time_out(self, name: str) -> None:
        """A transaction takes too long, and its producer aborts it as well."""
        self.well("start", "slow", name, SHORT_MS)
        self.well("begin", "slow")
        self.well("send", "slow", TOPIC, 1, "too late")
        until("its end", PATIENCE_S, lambda: self.stable(TOPIC, 2))
        self.say(f"the slow one aborts: {self.ask('abort', 'slow')}")
        self.say(
            f"and goes on: {self.ask('begin', 'slow')} {self.ask('send', 'slow', TOPIC, 1, 'x')}"
        )
        self.say(f"commits: {self.ask('commit', 'slow')}")


def played(folder: Path, jars: Path | None = None) -> None:
    """Play it on three brokers of this folder."""
    with ExitStack() as stack:
        nodes = laid_out(folder, class_path(jars))
        for node in nodes.values():
            node.settings += LOOKS
        brokers = stack.enter_context(started(nodes))
        where = compiled(Path(__file__).with_name("Transacting.java"), folder, class_path(None))
        bootstrap = ",".join(node.address for node in brokers.values())
        speaks = ("-cp", where, "Transacting", bootstrap)
        java = Jvm.started("producer", speaks, folder / "java.log")
        stack.callback(java.end)
        Coordinated(nodes, folder / "run", java=java).play()


if __name__ == "__main__":
    played(*map(Path, sys.argv[1:]))
