"""Lose a part of a transaction that real Kafka has committed, and read one that it has aborted.

Starts a controller and four brokers with default settings. One producer commits a transaction,
another aborts one, and the power fails before the markers are written. The brokers start one after
the other, and the coordinator loads while some of the partitions have no leader. All clients are
recorded in RUN (trace format v1). Exit code 1: a committed record cannot be read, or an aborted one
is; 0: readers get what was decided; 2: the scenario could not be played.
"""

import re
import signal
import time
from typing import Any

from attrs import define

from chaos.real.kafka.asking import STATE, Replicas, ids_on
from examples.brokers import CONTROLLER, NotInTimeError, until
from examples.transactions import ALL, COMMITTED, Transactional, laid, program

TOPIC = "marker-dropped"
PAUSED, OTHERS = 4, (1, 2, 3)
#: The paused broker leads; of its two followers, and so of which broker leads next, there are three
#: kinds. The first three partitions are for what is committed, the others for what is aborted.
ASSIGNMENT = [[PAUSED, 1, 2], [PAUSED, 2, 3], [PAUSED, 3, 1]] * 2
KEPT, UNDONE = range(3), range(3, 6)
#: No transaction is open for so long. One that is nevertheless, and 20 s more, hangs (T11).
TIMEOUT_MS = 30_000
#: A broker is fenced after broker.session.timeout.ms (9 s).
FENCED_S = 30
#: A marker is under way for so long before the power fails.
UNDER_WAY_S = 0.3
#: A marker that is not written by now, with all leaders there, was dropped.
DROPPED_S = 20


@define
class MarkerDropped(Transactional):
    """Two transactions end, and their coordinator loads where leaders are missing."""

    def play(self) -> str:
        self.create(TOPIC, ASSIGNMENT, **{"min.insync.replicas": "2"})
        number = self.choose(self.create_state())
        named = ids_on(number)
        settings = {"transaction.timeout.ms": TIMEOUT_MS}
        committing = self.producer("committing", next(named), **settings)
        aborting = self.producer("aborting", next(named), **settings)
        for producer, value, partitions in (
            (committing, "A", KEPT),
            (aborting, "X", UNDONE),
        ):
            producer.begin_transaction()
            for partition in partitions:
                self.send(producer, TOPIC, value, partition)
        self.say("A is acknowledged in partitions 0 to 2, X in 3 to 5")
        self.end_both(committing, aborting)
        self.fail_the_power()
        self.start_all(number)
        self.go_on(aborting)
        committing.close()
        aborting.close()
        return self.read_all()

    def choose(self, state: dict[int, Replicas]) -> int:
        """A partition of the state topic that the paused broker has no part in."""
        number = next(n for n, one in state.items() if set(one.replicas) == set(OTHERS))
        self.say(f"both coordinators: {STATE}-{number}, replicas {[*state[number].replicas]}")
        return number

    def end_both(self, committing: Any, aborting: Any) -> None:
        """The decisions are written, the markers are under way to a broker that is paused."""
        self.signal(PAUSED, signal.SIGSTOP)
        committing.commit_transaction(60)
        self.say("commit_transaction() of A has returned")
        aborting.abort_transaction(60)
        self.say("abort_transaction() of X has returned")
        time.sleep(UNDER_WAY_S)

    def fail_the_power(self) -> None:
        self.fault("SIGKILL all brokers")
        for node in self.brokers.values():
            node.signal(signal.SIGKILL)
        for node in self.brokers.values():
            node.wait()

    def start_all(self, number: int) -> None:
        """Start the brokers, the one that was fenced last first.

        It led last. With it and the next one their partitions have leaders, and all others wait.
        """
        controller = self.nodes[CONTROLLER].output
        until("all fenced", FENCED_S, lambda: set(fenced(controller.read_text())) >= set(OTHERS))
        order = [one for one in reversed(fenced(controller.read_text())) if one != PAUSED]
        for broker in (*order, PAUSED):
            self.start(broker)
            self.say(f"broker {broker} has started")
            if broker == order[1]:
                self.load(number, order[0])
        until("leaders of all", 60, lambda: all(one.leader >= 0 for one in self.topic().values()))
        self.say("all partitions have leaders again")

    def load(self, number: int, first: int) -> None:
        """The coordinator is there, and has found what it is to finish."""

        def leads() -> bool:
            found = self.partitions(STATE, first)
            return bool(found) and found[number].leader >= 0

        until("a coordinator", 60, leads)
        leader = self.partitions(STATE, first)[number].leader
        loaded = f"Finished loading .* transaction metadata from {STATE}-{number} "
        until("it has loaded", 60, lambda: self.brokers[leader].said(loaded))
        headless = [n for n, one in self.topic().items() if one.leader < 0]
        if not headless:
            raise NotInTimeError("all partitions had leaders when the coordinator loaded")
        self.say(f"broker {leader} has loaded {STATE}-{number}; without leader: {headless}")

    def topic(self) -> dict[int, Replicas]:
        return self.partitions(TOPIC)

    def go_on(self, aborting: Any) -> None:
        """The producer that has aborted goes on, and commits its next transaction."""
        settled = self.settled()
        self.say("all markers are written" if settled else "markers are missing")
        aborting.begin_transaction()
        for partition in UNDONE:
            self.send(aborting, TOPIC, "Y", partition)
        aborting.commit_transaction(60)
        self.say("the producer that has aborted X commits Y in partitions 3 to 5")
        self.settled()

    def settled(self) -> bool:
        try:
            until("no open transaction", DROPPED_S, lambda: self.stable(TOPIC, len(ASSIGNMENT)))
        except NotInTimeError:
            return False
        return True

    def read_all(self) -> str:
        """The values that readers of committed records get."""
        got = [self.read(TOPIC, one, COMMITTED) for one in range(len(ASSIGNMENT))]
        self.say(f"committed records: {got}; last stable offsets {self.ends(TOPIC, 6, COMMITTED)}")
        self.say(f"high watermarks {self.ends(TOPIC, 6, ALL)}")
        lost = [one for one in KEPT if got[one] != ["A"]]
        read = [one for one in UNDONE if "X" in got[one]]
        said = [
            *([f"A was committed, and cannot be read from partitions {lost}"] if lost else []),
            *([f"X was aborted, and is read from partitions {read}"] if read else []),
        ]
        return "; ".join(said) and f"{'; '.join(said)}."


def fenced(output: str) -> list[int]:
    """The brokers that the controller has fenced, in the order of the last times."""
    named = [int(one) for one in re.findall(r"Fencing broker (\d+)", output)]
    return sorted(set(named), key=lambda one: len(named) - named[::-1].index(one))


if __name__ == "__main__":
    kept = "Readers get what was committed, and nothing that was aborted."
    program(__doc__ or "", laid(MarkerDropped, (*OTHERS, PAUSED)), kept)()
