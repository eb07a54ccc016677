"""Lose a record that real Kafka has acknowledged with acks=all and min.insync.replicas=2.

Starts a controller and three brokers with default settings, lets a leader miss one leader epoch,
and records its client in RUN (trace format v1). Exit code 1: the acknowledged record is lost; 0: it
survives; 2: the scenario could not be played.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

from attrs import define

from examples.brokers import cluster, elect_preferred_leader, until
from examples.scenario import Scenario, Sent, program

TOPIC = "missed-epoch"
#: The preferred leader comes first; after its shutdown the next in this order leads.
ASSIGNMENT = [3, 1, 2]
#: Longer than replica.fetch.wait.max.ms and metadata.max.idle.interval.ms (both 0.5 s), so that
#: what a paused broker had asked for has been answered.
ANSWERED_S = 1.0


@define
class MissedEpoch(Scenario):
    """A leader is paused while another leads, and is elected again."""

    def play(self) -> list[bytes]:
        """The values that a consumer reads at the end."""
        self.create_topic()
        self.restart(3)
        self.say("broker 1 leads in epoch 1, ISR {1, 2, 3}, broker 3 is preferred")
        size = self.write_a_everywhere()
        b = self.write_b_without_broker_3(size)
        self.lead_without_b(size)
        self.lead_again(b)
        self.lose_the_leader()
        return self.write_c_and_read()

    def write_a_everywhere(self) -> int:
        self.write("A", 60)
        size = self.brokers[1].log_size(TOPIC)
        until("A on all brokers", 30, lambda: set(self.sizes()) == {size})
        return size

    def write_b_without_broker_3(self, size: int) -> Sent:
        """Broker 2 has B and has told the leader so; broker 3 lags, for less than any time-out."""
        self.signal(3, signal.SIGSTOP)
        time.sleep(ANSWERED_S)
        b = Sent(self.producer, TOPIC, "B")
        until("B on broker 2", 10, lambda: self.brokers[2].log_size(TOPIC) > size)
        time.sleep(0.3)  # until broker 2 has fetched from behind B
        b.poll()
        self.say(f"B acknowledged: {b.offset is not None}; log sizes {self.sizes()}")
        return b

    def lead_without_b(self, size: int) -> None:
        """Broker 1 is paused and misses two decisions: epoch 2, led by 3, and epoch 3, its own."""
        self.signal(1, signal.SIGSTOP)
        self.signal(3, signal.SIGCONT)
        time.sleep(ANSWERED_S)
        elect_preferred_leader(self.brokers[2], TOPIC)
        self.say("preferred leader elected")
        until("B truncated", 6, lambda: self.brokers[2].log_size(TOPIC) == size)
        self.say(f"broker 2 has truncated B in epoch 2; log sizes {self.sizes()}")
        self.signal(3, signal.SIGTERM)
        follows = rf"Follower {TOPIC}-0 .*starts at leader epoch 3 "
        until("broker 2 in epoch 3", 6, lambda: self.brokers[2].said(follows))
        self.say("broker 2 follows broker 1 in epoch 3")

    def lead_again(self, b: Sent) -> None:
        """Broker 1 resumes, and learns of both epochs at once."""
        self.signal(1, signal.SIGCONT)
        b.wait(60)
        self.say(f"B acknowledged at offset {b.offset}; log sizes {self.sizes()}")

    def lose_the_leader(self) -> None:
        """Broker 2, of the ISR, is elected; then all come back."""
        self.signal(1, signal.SIGKILL)
        self.brokers[1].wait()
        until("broker 2 leads", 60, lambda: self.state()[0] == 2)
        self.say("broker 2 leads")
        self.brokers[3].wait()
        self.brokers[1].start()
        self.brokers[3].start()
        self.in_sync({1, 2, 3}, 120)


def start(folder: Path, classpath: str, run: Path, stack: ExitStack) -> Scenario:
    """The brokers as they are."""
    brokers = stack.enter_context(cluster(folder, classpath))
    return MissedEpoch(brokers, run, TOPIC, ASSIGNMENT)


if __name__ == "__main__":
    program(__doc__ or "", start)()
