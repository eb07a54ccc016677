"""Take a replica from a partition of real Kafka, and stop its share groups by it.

Starts a controller and three brokers with default settings. A group has read a part of a partition;
the partition loses a replica by a reassignment, and its leader stays; then records are deleted
beyond the group's start. All clients are recorded in RUN (trace format v1). Exit code 1: the group
is given nothing any more; 0: it goes on; 2: the scenario could not be played.
"""

import signal
import time
from typing import Any

import click
from attrs import define
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from examples.brokers import NotInTimeError, until
from examples.sharing import TOPIC, Sharing, shared
from examples.transactions import PATIENCE_S, program

LEADER = 1
FENCED = "FencedLeaderEpochException"
#: A fetch that is under way has ended by then (fetch.max.wait.ms).
WAITS_S = 2


@define
class LeaderEpoch(Sharing):
    """The leader stays, and its epoch grows."""

    stay: bool = False

    def play(self) -> str:
        self.create(TOPIC, [[LEADER, 2, 3]], **{"min.insync.replicas": "2"})
        self.configure()
        self.leads(LEADER)
        self.send_all(range(5), batch=5, name="first")
        self.join("A")
        self.take("A", 5)
        self.finish("A")
        # It may ask for more by itself, and would be given it before it is deleted.
        self.members.process.send_signal(signal.SIGSTOP)
        time.sleep(WAITS_S)
        self.send_all(range(20))
        if not self.stay:
            self.move([LEADER, 2])
        self.delete(10)
        self.members.process.send_signal(signal.SIGCONT)
        self.watched()
        again = self.read_on("A", self.stopped_s)
        if again and again[0] < 10:
            raise NotInTimeError("A was given records before the others were deleted")
        self.say(f"{self.complaints(FENCED)} lines of the brokers' logs have a {FENCED}")
        self.start_and_lag()
        self.end()
        return "" if again else "The group is given nothing any more."

    def move(self, replicas: list[int]) -> None:
        where = TopicPartition(TOPIC, 0)
        admin: Any = KafkaAdminClient(bootstrap_servers=self.bootstrap.split(","))
        (error,) = admin.alter_partition_reassignments({where: replicas}).values()
        admin.close()
        if error is not None:
            raise NotInTimeError(f"the reassignment is refused: {error}")

        def done() -> bool:
            return sorted(self.partitions(TOPIC, LEADER)[0].replicas) == sorted(replicas)

        until("the reassignment", PATIENCE_S, done)
        self.say(f"the partition has the replicas {replicas}, and broker {LEADER} leads on")


if __name__ == "__main__":
    stay = click.Option(["--stay"], is_flag=True, help="Nothing is reassigned: a control.")
    program(__doc__ or "", shared(LeaderEpoch), "The group is given what is there.", stay)()
