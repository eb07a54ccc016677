"""Lose what real Kafka acknowledged after an unclean election, by a clean one, with tiered storage.

Starts a controller and three brokers with tiered storage. While broker 2 is down broker 1 writes,
and copies to the remote tier. Broker 1 is paused, broker 2 is elected by kafka-leader-election
--election-type unclean, and records are acknowledged; copying them is slow. Broker 1 goes on,
follows, and joins the ISR. It deletes local segments that are not copied, for it had copied others
of those offsets. Broker 2 is killed, and broker 1 is elected, cleanly. It records its client in RUN
(trace format v1). Exit code 1: records are lost that were acknowledged after the unclean election;
0: they are there; 2: the scenario could not be played.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click
from attrs import define, field

from examples.brokers import elect_unclean_leader, until
from examples.control_plane import NOBODY
from examples.scenario import Scenario, program
from examples.tiered import A_SECOND_MS, RECORDS, SIZE, Tiered, with_tier

TOPIC = "tiered"
REPLICAS = [1, 2]
#: Copies of broker 2, in bytes a second: one segment in 50 seconds.
SLOW = 20_000
#: Of a producer that is soon done with a leader that is paused.
IMPATIENT = {"request.timeout.ms": 5000, "socket.timeout.ms": 5000}
#: More than the tasks that copy and delete take, which run every second.
TASKS_S = 6.0


@define
class OtherLineage(Tiered):
    """Broker 1 believes what it had copied of records that it has truncated since."""

    restarted: bool = field(kw_only=True)

    def kept(self) -> str:
        return "All that was acknowledged after the unclean election is read."

    def loss(self, values: list[bytes]) -> str | None:
        lost = [one for one in self.sent if one.value.encode() not in values]
        if not lost:
            return None
        what = f"{len(lost)} of {len(self.sent)} records that were acknowledged after the unclean"
        return f"{what} election are lost."

    def play(self) -> list[bytes]:
        self.create_tiered(REPLICAS)
        self.stop(2)
        until("ISR {1}", 60, lambda: self.state() == (1, {1}))
        self.write_many(RECORDS, SIZE, "old")
        self.await_copies(1)
        self.say(self.segments())
        self.sent.clear()
        self.lose_broker_1()
        self.elect_broker_2()
        self.write_many(RECORDS, SIZE, "new")
        self.say(self.segments())
        self.let_broker_1_follow()
        self.configure_topic(local_retention_ms=A_SECOND_MS)
        time.sleep(TASKS_S)
        self.say(f"local.retention.ms=1000; {self.segments()}")
        self.let_broker_1_lead()
        self.producer.close()
        return self.read()

    def lose_broker_1(self) -> None:
        if self.restarted:
            self.stop(1)
        else:
            self.signal(1, signal.SIGSTOP)
        until("broker 1 to be fenced", 60, lambda: self.state()[0] == NOBODY)

    def elect_broker_2(self) -> None:
        self.start(2)
        self.configure_broker(2, remote_log_manager_copy_max_bytes_per_second=SLOW)
        elect_unclean_leader(self.brokers[3], TOPIC)
        until("broker 2 to lead", 60, lambda: self.state()[0] == 2)
        self.fault(f"broker 2 is elected, uncleanly: {self.known()}")

    def let_broker_1_follow(self) -> None:
        if self.restarted:
            self.start(1)
        else:
            self.signal(1, signal.SIGCONT)
        self.await_isr({*REPLICAS})
        self.say(f"broker 1 follows: {self.known()}; {self.segments()}")

    def let_broker_1_lead(self) -> None:
        """Cleanly: it is in sync."""
        self.signal(2, signal.SIGKILL)
        self.brokers[2].wait()
        self.see_who_is_elected(after=2)
        time.sleep(TASKS_S)
        self.say(self.segments())
        self.start(2)
        self.await_isr({*REPLICAS})
        self.say(f"broker 2 is back: {self.known()}; {self.segments()}")
        until(
            "local retention of both", 60, lambda: all(len(self.local(one)) < 2 for one in (1, 2))
        )
        self.say(self.segments())


def start(folder: Path, classpath: str, run: Path, stack: ExitStack, restarted: bool) -> Scenario:
    fields = with_tier(folder, classpath, stack, (1, 2, 3))
    return OtherLineage(
        run=run,
        topic=TOPIC,
        settings=IMPATIENT,
        assignment=REPLICAS,
        min_isr=1,
        restarted=restarted,
        **fields,
    )


if __name__ == "__main__":
    control = click.Option(
        ["--restarted"], is_flag=True, help="Broker 1 is shut down, not paused: the control."
    )
    program(__doc__ or "", start, control)()
