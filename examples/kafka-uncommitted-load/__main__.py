"""Let real Kafka commit one half of a transaction, and abort the other.

Starts a controller and four brokers with default settings. An application commits a transaction,
and is cut off before it is answered. The decision is on two of the three replicas of its
coordinator's log when the coordinator shuts down in good order; the next one acts on it, and shuts
down as well; the third never had it, and aborts the transaction when the application starts again.
All clients are recorded in RUN (trace format v1). Exit code 1: a part of the transaction is
committed and a part of it is not; 0: all of it is decided alike; 2: the scenario could not be
played.
"""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from confluent_kafka import KafkaException

from chaos.real.kafka.asking import STATE, ids_on
from examples.brokers import NotInTimeError, laid_out, started, until
from examples.relay import Header, Relay, Stall
from examples.transactions import COMMITTED, PATIENCE_S, Transactional, program, relayed

TOPIC = "uncommitted-load"
BROKERS, OTHER = (1, 2, 3, 4), 4
FIRST, SECOND = "first", "second"
END_TXN, WRITE_TXN_MARKERS = 26, 27
#: A fetch of the paused follower that waits at the leader has ended after 500 ms.
FETCH_ENDS_S = 1.0
#: What a coordinator writes at once, it has written by now; and the paused follower's session (9 s)
#: lasts longer than both steps that wait so long.
AT_ONCE_S = 3


def ends(header: Header) -> bool:
    return header.client_id == FIRST and header.api_key == END_TXN


def marks(header: Header) -> bool:
    return header.api_key == WRITE_TXN_MARKERS


@define
class UncommittedLoad(Transactional):
    """Three coordinators, one after the other, of which the last does not know of a decision."""

    hops: dict[int, Relay] = field(kw_only=True)
    """The ways to the brokers."""
    number: int = field(init=False, default=-1)
    """The coordinators' partition of the state topic."""

    def play(self) -> str:
        state = {n: one for n, one in self.create_state().items() if OTHER not in one.replicas}
        self.number, (old, new, last) = next((n, one.replicas) for n, one in state.items())
        self.say(f"coordinators: {STATE}-{self.number}, replicas {[old, new, last]}")
        assignment = [[OTHER, old, new], [new, old, OTHER]]
        self.create(TOPIC, assignment, **{"min.insync.replicas": "2"})
        until("its coordinator", PATIENCE_S, lambda: self.coordinator() == old)
        name = next(ids_on(self.number))
        first = self.producer(FIRST, name, **{"client.id": FIRST})
        first.begin_transaction()
        for partition, value in enumerate("AB"):
            self.send(first, TOPIC, value, partition)
        self.say("one transaction: A is acknowledged in partition 0, B in partition 1")
        with ThreadPoolExecutor(1) as aside:
            self.decide(aside, first, old, new, last)
            self.load(old, new)
            self.forget(old, new, last)
            self.start_again(name)
        with suppress(KafkaException):  # whoever is fenced cannot flush
            first.close()
        got = [self.read(TOPIC, partition, COMMITTED) for partition in (0, 1)]
        self.say(f"committed records: {got}")
        half = got in ([["A"], []], [[], ["B"]])
        return "A and B were sent in one transaction: one is committed, one is aborted." * half

    def decide(self, aside: ThreadPoolExecutor, first: Any, old: int, new: int, last: int) -> None:
        """The decision is on two replicas, and not committed; nobody hears what becomes of it."""
        until(
            "all copied", PATIENCE_S, lambda: len({self.log(one) for one in (old, new, last)}) == 1
        )
        self.signal(last, signal.SIGSTOP)
        time.sleep(FETCH_ENDS_S)
        before = self.log(old)
        aside.submit(first.commit_transaction, PATIENCE_S)
        until("a decision", AT_ONCE_S, lambda: self.log(old) > before)
        self.stall(ends)
        self.fault("the application is cut off from its coordinators")
        until("a copy of it", AT_ONCE_S, lambda: self.log(new) == self.log(old))
        sizes = [self.log(one) for one in (old, new, last)]
        self.say(f"it commits: the decision is on brokers {old} and {new}; log sizes {sizes}")

    def load(self, old: int, new: int) -> None:
        """The next coordinator writes the markers that it can."""
        self.fault(f"markers to broker {new}, which leads partition 1, are held up")
        self.hops[new].stall(marks)
        before = self.brokers[OTHER].log_size(TOPIC)
        self.signal(old, signal.SIGTERM)
        until("the next coordinator", AT_ONCE_S, lambda: self.coordinator() == new)
        try:
            until("a marker", AT_ONCE_S, lambda: self.brokers[OTHER].log_size(TOPIC) > before)
            self.say(f"broker {new} is the coordinator, and writes a marker into partition 0")
        except NotInTimeError:
            self.say(f"broker {new} is the coordinator, and writes no marker")
        until(
            "copies of it",
            AT_ONCE_S,
            lambda: self.brokers[new].log_size(TOPIC) == self.brokers[OTHER].log_size(TOPIC),
        )

    def forget(self, old: int, new: int, last: int) -> None:
        """The last coordinator was in sync, and never had the decision."""
        self.signal(new, signal.SIGTERM)
        until("the last coordinator", AT_ONCE_S, lambda: self.coordinator() == last)
        self.signal(last, signal.SIGCONT)
        self.say(f"broker {last} is the coordinator; log size {self.log(last)}")
        for broker in (old, new):
            self.start(broker)

    def start_again(self, name: str) -> None:
        """The application starts again: what it left open is aborted."""
        second = self.producer(SECOND, name)
        self.say("the application has started again")
        until("no open transaction", PATIENCE_S, lambda: self.stable(TOPIC, 2))
        second.close()
        for hop in self.hops.values():
            for stall in hop.stalls:
                stall.end()

    def stall(self, match: Any) -> list[Stall]:
        return [hop.stall(match) for hop in self.hops.values()]

    def coordinator(self) -> int:
        """As a broker knows that is none."""
        found = self.partitions(STATE, OTHER)
        return found[self.number].leader if found else -1

    def log(self, broker: int) -> int:
        return self.brokers[broker].log_size(STATE, self.number)


def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Transactional:
    """The brokers, and a relay before each."""
    nodes = laid_out(folder, classpath, BROKERS)
    hops = dict(zip(BROKERS, relayed(nodes, stack, *BROKERS), strict=True))
    stack.enter_context(started(nodes))
    return UncommittedLoad(nodes, run, hops=hops)


if __name__ == "__main__":
    program(__doc__ or "", start, "Both records were decided alike.")()
