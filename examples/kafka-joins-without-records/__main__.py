"""Lose records that real Kafka acknowledged after an unclean election, by a clean one.

Starts a controller and three brokers; a partition has replicas on brokers 1 and 2. While broker 2
is down records are written, and retention deletes all. Broker 1 ends, broker 2 is elected by
kafka-leader-election --election-type unclean, and records are acknowledged. Broker 1 comes back:
its log is empty, and begins behind some of them. It joins the ISR. Broker 2 is killed, and broker 1
is elected, cleanly. It records its client in RUN (trace format v1). Exit code 1: records that were
acknowledged after the unclean election are gone; 0: they are there; 2: the scenario could not be
played.
"""

import signal
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field

from examples.brokers import elect_unclean_leader, laid_out, started, until
from examples.control_plane import NOBODY, ControlPlane
from examples.scenario import Scenario, Sent, flags_of, program

TOPIC = "joins-without"
REPLICAS = [1, 2]
#: Before the election, on both brokers and on broker 1 alone.
BOTH, ALONE = 5, 5
#: Behind it, so that broker 2 ends behind broker 1, or before it.
BEHIND, BEFORE = 8, 3
AN_HOUR_MS = 3_600_000
#: Retention is looked for every second instead of every 5 minutes.
SETTINGS = """\
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=100
log.initial.task.delay.ms=500
"""


@define
class JoinsWithoutRecords(ControlPlane):
    """The log of broker 1 is empty, so nothing is compared."""

    keep_records: bool = field(kw_only=True)
    ends_before: bool = field(kw_only=True)

    def loss(self, values: list[bytes]) -> str | None:
        lost = [one.value for one in self.sent if one.value.encode() not in values]
        if not lost:
            return None
        what = "Acknowledged after the unclean election, and lost by a clean one"
        return f"{what}: {', '.join(lost)}"

    def kept(self) -> str:
        return "All that was acknowledged after the unclean election is read."

    def play(self) -> list[bytes]:
        self.create([REPLICAS])
        self.write_each("a", BOTH)
        self.stop(2)
        until("ISR {1}", 60, lambda: self.state() == (1, {1}))
        self.write_each("b", ALONE)
        if not self.keep_records:
            self.let_retention_delete_all()
        self.stop(1)
        until("nobody to lead", 60, lambda: self.state()[0] == NOBODY)
        self.say(f"broker 1 is shut down: {self.known()}; {self.logs()}")
        self.sent.clear()
        self.elect_broker_2()
        self.write_each("c", BEFORE if self.ends_before else BEHIND)
        self.start(1)
        self.await_isr({*REPLICAS})
        self.say(f"broker 1 is back: {self.known()}; {self.segments()}")
        self.write_each("d", 1)
        self.let_broker_1_lead()
        self.producer.close()
        return self.read()

    def write_each(self, prefix: str, count: int) -> None:
        """Records in batches of their own."""
        for number in range(count):
            one = Sent(self.producer, TOPIC, f"{prefix}{number}")
            one.wait(60)
            self.sent.append(one)
        at = [one.offset for one in self.sent[-count:]]
        self.say(f"{prefix}0 to {prefix}{count - 1} acknowledged, at {at}")

    def let_retention_delete_all(self) -> None:
        self.configure_topic(retention_ms=1000)
        until("the segment to go", 60, lambda: not self.brokers[1].segment(TOPIC).exists())
        self.configure_topic(retention_ms=AN_HOUR_MS)
        self.fault(f"retention has deleted all; {self.segments()}")

    def elect_broker_2(self) -> None:
        self.start(2)
        elect_unclean_leader(self.brokers[3], TOPIC)
        until("broker 2 to lead", 60, lambda: self.state()[0] == 2)
        self.fault(f"broker 2 is elected, uncleanly: {self.known()}")

    def let_broker_1_lead(self) -> None:
        """Cleanly: it is in sync."""
        self.fault(f"SIGKILL broker 2; {self.segments()}")
        self.brokers[2].signal(signal.SIGKILL)
        self.brokers[2].wait()
        self.see_who_is_elected(after=2)
        self.start(2)
        self.await_isr({*REPLICAS})
        self.say(f"broker 2 is back: {self.known()}; {self.segments()}")

    def segments(self) -> str:
        """By broker, where they begin."""
        found = [
            f"broker {broker}: {sorted(int(log.stem) for log in folder.glob('*.log'))}"
            for broker in REPLICAS
            for folder in self.folders(broker)
        ]
        return f"segments of {', '.join(found)}"


def start(
    folder: Path,
    classpath: str,
    run: Path,
    stack: ExitStack,
    keep_records: bool,
    ends_before: bool,
) -> Scenario:
    nodes = laid_out(folder, classpath)
    for node in nodes.values():
        node.settings = SETTINGS
    return JoinsWithoutRecords(
        brokers=stack.enter_context(started(nodes)),
        run=run,
        topic=TOPIC,
        assignment=REPLICAS,
        min_isr=1,
        keep_records=keep_records,
        ends_before=ends_before,
    )


if __name__ == "__main__":
    options = flags_of(
        {
            "--keep-records": "Delete nothing: the control.",
            "--ends-before": "Broker 2 ends before broker 1 does.",
        }
    )
    program(__doc__ or "", start, *options)()
