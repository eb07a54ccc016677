"""Let two members of one consumer group of real Kafka commit the same record, exactly once each.

Starts a controller and three brokers with default settings. An application of Kafka's Java clients
reads, writes and commits in transactions (KIP-447), with the consumer protocol of KIP-848 and no
rebalance listener; one instance is stopped for longer than its session, and goes on. All clients
are recorded in RUN (trace format v1). Exit code 1: both commits are taken, and a reader of
committed records reads the output twice; 0: the late one is refused; 2: the scenario could not be
played.
"""

import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import click
import orjson
from attrs import define, field

from examples.billing import GROUP, Billing, conclude
from examples.brokers import LOG4J2, cluster, until
from examples.kafka_jars import class_path, classes_option, jars_option
from examples.scenario import recording, scan
from traces.record.process import COUNTER_BITS, clock_domain

# Tells when a member hears that it is fenced.
LOGGING = (
    LOG4J2.replace("type=Console", "type=Console\nappender.out.target=SYSTEM_ERR")
    + """\
logger.member.name=org.apache.kafka.clients.consumer.internals.ConsumerMembershipManager
logger.member.level=DEBUG
"""
)
FIRST, SECOND = "first", "second"
#: The broker ends a session after group.consumer.session.timeout.ms (45 s).
PATIENCE_S = 120
#: A client hears that it is fenced with its next heartbeat (5 s), and joins again at once, or not.
JOINS_AGAIN_S = 15


@define
class Instance:
    """One instance of the application: a JVM."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path
    said: "Queue[str]" = field(factory=lambda: Queue[str]())

    def __attrs_post_init__(self) -> None:
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.strip())

    def says(self) -> str:
        """The next line of its output."""
        try:
            return self.said.get(timeout=PATIENCE_S)
        except Empty:
            failed = self.log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"the {self.name} instance says nothing: {failed}") from None

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(what)
        self.process.stdin.flush()

    def is_fenced(self) -> bool:
        return "transitioned to FENCED state" in self.log.read_text(errors="replace")

    def end(self) -> None:
        """Whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@define
class Scenario(Billing):
    """The scenario, step by step; each step waits until the one before has taken effect."""

    folder: Path
    classpath: str
    protocol: str
    listening: bool
    stack: ExitStack
    faults: list[dict[str, object]] = field(factory=list[dict[str, object]])

    def play(self) -> str:
        """Why the late commit was refused; "" if it was not."""
        self.create(1)
        first = self.start(FIRST, 1)
        self.say(f"the first instance has {first.says()}")
        second = self.start(SECOND, 2)
        until("both are members", PATIENCE_S, lambda: self.members() == {FIRST, SECOND})
        first.tell("w")
        self.say(f"the first instance has {first.says()}")
        self.say(f"the first instance has {first.says()}, and works on that")
        self.stop(first, signal.SIGSTOP)
        self.say(f"the second instance has {second.says()}")
        second.tell("w")
        self.say(f"the second instance has {second.says()}")
        second.says()
        self.stop(first, signal.SIGCONT)
        self.join_again(first)
        first.tell("e")
        late = first.says()
        self.say(f"the first instance has {late}")
        second.tell("x")
        for instance in (first, second):
            instance.process.wait(PATIENCE_S)
        return late if late.startswith("refused") else ""

    def start(self, name: str, number: int) -> Instance:
        """An instance whose process writes its own part of the recording."""
        log = self.folder / f"{name}.log"
        logging = self.folder / "clients.properties"
        logging.write_text(LOGGING)
        lean = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        command = ["java", *lean, f"-Dlog4j2.configurationFile={logging}", "-cp", self.classpath]
        file, ids = self.run / f"{name}#0.ndjson", number << COUNTER_BITS
        command += ["Billing", self.bootstrap, str(file), name, clock_domain(), str(ids)]
        command += [self.protocol, *(["listener"] if self.listening else [])]
        with log.open("w") as errors:
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            instance = Instance(name, subprocess.Popen(command, text=True, **pipes), log)
        self.stack.callback(instance.end)
        return instance

    def stop(self, instance: Instance, number: signal.Signals) -> None:
        what = f"{number.name} the {instance.name} instance"
        self.faults.append({"at_ns": time.monotonic_ns(), "what": what})
        self.say(what)
        instance.process.send_signal(number)

    def join_again(self, first: Instance) -> None:
        """It hears that it is fenced, and has some time to join again."""
        if self.protocol == "consumer":
            until("it is fenced", PATIENCE_S, first.is_fenced)
        until_then = time.monotonic() + JOINS_AGAIN_S
        while self.members() != {FIRST, SECOND} and time.monotonic() < until_then:
            time.sleep(0.1)
        again = "is a member again" if FIRST in self.members() else "has not joined again"
        self.say(f"the first instance is fenced, and {again}")

    def members(self) -> set[str]:
        described = self.admin.describe_consumer_groups([GROUP])[GROUP].result(30)
        return {member.client_id for member in described.members}

    def meta(self) -> dict[str, Any]:
        """The settings of the instances, as far as a recorder of their clients would know them."""
        reads = {"group": GROUP, "isolation": "read_committed", "auto_commit": False}
        reads |= {"commit_order": "transaction", "group_protocol": self.protocol}
        writes = {"acks": "all", "idempotence": True, "max_in_flight": 5}
        names = (FIRST, SECOND)
        return {
            "producers": {one: {**writes, "transactional_id": f"billing-{one}"} for one in names},
            "consumers": dict.fromkeys(names, reads),
            "faults": self.faults,
        }


def start(
    folder: Path, classpath: str, run: Path, stack: ExitStack, protocol: str, listening: bool
) -> Scenario:
    """The brokers, and the application compiled."""
    classes = folder / "classes"
    source = Path(__file__).with_name("Billing.java")
    subprocess.run(("javac", "-nowarn", "-cp", classpath, "-d", classes, source), check=True)
    brokers = stack.enter_context(cluster(folder / "cluster", classpath))
    bootstrap = ",".join(node.address for node in brokers.values())
    path = f"{classes}{os.pathsep}{classpath}"
    return Scenario(bootstrap, run, folder, path, protocol, listening, stack)


@click.command(help=__doc__)
@click.argument("run", type=click.Path(path_type=Path, file_okay=False))
@click.option("--classic", is_flag=True, help="The classic protocol: a control.")
@click.option("--listener", is_flag=True, help="With a rebalance listener: a control.")
@jars_option
@classes_option
def main(run: Path, classic: bool, listener: bool, jars: Path | None, classes: Path | None) -> None:
    protocol = "classic" if classic else "consumer"
    with recording(run) as (folder, stack):
        classpath = class_path(jars, classes)
        scenario = start(folder, classpath, run, stack, protocol, listener)
        refused = scenario.play()
        invoices = scenario.read_output()
        (run / "meta.json").write_bytes(orjson.dumps(scenario.meta()))
        scan(run, scenario.bootstrap)
    conclude(run, refused, invoices)


if __name__ == "__main__":
    main()
