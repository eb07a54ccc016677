"""Let a share group of real Kafka ask for ever for what has been deleted.

Starts a controller and three brokers with default settings. Of two members one holds ten records
and one has accepted the next ten when the broker that leads their partition is killed; then a few
of the held ones are deleted. All clients are recorded in RUN (trace format v1). Exit code 1: the
group is given nothing any more; 0: it goes on; 2: the scenario could not be played.
"""

import signal

import click
from attrs import define

from examples.brokers import NotInTimeError, until
from examples.sharing import TOPIC, Sharing, shared
from examples.transactions import PATIENCE_S, program

LEADER, NEXT = 1, 2
REFUSED = "is not greater than the start offset"


@define
class LogStart(Sharing):
    """The log's start passes records that were in flight when their leader died."""

    keep: bool = False

    def play(self) -> str:
        self.create(TOPIC, [[LEADER, NEXT, 3]], **{"min.insync.replicas": "2"})
        self.configure()
        self.leads(LEADER)
        self.send_all(range(40))
        held = {name: self.given(name) for name in ("A", "B")}
        first, behind = sorted(held, key=lambda name: held[name])
        if held[first][0]:
            raise NotInTimeError("nobody was given the first record")
        self.finish(behind)
        self.signal(LEADER, signal.SIGKILL)
        until("another leader", PATIENCE_S, self.led_by_another)
        self.say(f"broker {self.partitions(TOPIC, NEXT)[0].leader} leads")
        self.leave("A", "B")
        if not self.keep:
            self.delete(5)
        self.join("C", 500)
        self.watched()
        # What A held is its until the lock is over, for all that anybody tells.
        again = self.read_on("C", self.stopped_s + self.lock_ms / 1000)
        self.say(f"the brokers' logs complain {self.complaints(REFUSED)} times")
        self.start_and_lag()
        self.end()
        return "" if len(again) >= 25 else "The group is given nothing any more."

    def led_by_another(self) -> bool:
        found = self.partitions(TOPIC, NEXT)
        return bool(found) and found[0].leader not in (-1, LEADER)

    def given(self, name: str) -> list[int]:
        """Ten records of a batch of their own."""
        self.join(name)
        taken = self.take(name, 10)
        if len(taken) != 10:
            raise NotInTimeError(f"{name} was given {taken}")
        return taken


if __name__ == "__main__":
    keep = click.Option(["--keep"], is_flag=True, help="Nothing is deleted: a control.")
    program(__doc__ or "", shared(LogStart), "The group is given what is there.", keep)()
