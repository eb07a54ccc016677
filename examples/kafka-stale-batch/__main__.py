"""Let two members of one consumer group of real Kafka commit the same record, exactly once each.

Starts a controller and three brokers with default settings. An application of Kafka's Java clients
reads, writes and commits in transactions (KIP-447), with the consumer protocol of KIP-848 and no
rebalance listener; one instance is stopped for longer than its session, and goes on. All clients
are recorded in RUN (trace format v1). Exit code 1: both commits are taken, and a reader of
committed records reads the output twice; 0: the late one is refused; 2: the scenario could not be
played.
"""

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import orjson
from attrs import define, field

from examples.billing import GROUP, Billing, conclude
from examples.brokers import LOG4J2, cluster, until
from examples.jvm import Jvm, compiled
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


class Instance(Jvm):
    """One instance of the application."""

    def is_fenced(self) -> bool:
        return "transitioned to FENCED state" in self.log.read_text(errors="replace")


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
        self.say(f"the first instance has {first.says(PATIENCE_S)}")
        second = self.start(SECOND, 2)
        until("both are members", PATIENCE_S, lambda: self.members() == {FIRST, SECOND})
        first.write("w")
        self.say(f"the first instance has {first.says(PATIENCE_S)}")
        self.say(f"the first instance has {first.says(PATIENCE_S)}, and works on that")
        self.stop(first, signal.SIGSTOP)
        self.say(f"the second instance has {second.says(PATIENCE_S)}")
        second.write("w")
        self.say(f"the second instance has {second.says(PATIENCE_S)}")
        second.says(PATIENCE_S)
        self.stop(first, signal.SIGCONT)
        self.join_again(first)
        first.write("e")
        late = first.says(PATIENCE_S)
        self.say(f"the first instance has {late}")
        second.write("x")
        for instance in (first, second):
            instance.process.wait(PATIENCE_S)
        return late if late.startswith("refused") else ""

    def start(self, name: str, number: int) -> Instance:
        """An instance whose process writes its own part of the recording."""
        logging = self.folder / "clients.properties"
        logging.write_text(LOGGING)
        file, ids = self.run / f"{name}#0.ndjson", number << COUNTER_BITS
        arguments = [f"-Dlog4j2.configurationFile={logging}", "-cp", self.classpath]
        arguments += ["Billing", self.bootstrap, str(file), name, clock_domain(), str(ids)]
        arguments += [self.protocol, *(["listener"] if self.listening else [])]
        instance = Instance.started(f"{name} instance", arguments, self.folder / f"{name}.log")
        self.stack.callback(instance.end)
        return instance

    def stop(self, instance: Instance, number: signal.Signals) -> None:
        what = f"{number.name} the {instance.name}"
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
    source = Path(__file__).with_name("Billing.java")
    path = compiled(source, folder / "classes", classpath)
    brokers = stack.enter_context(cluster(folder / "cluster", classpath))
    bootstrap = ",".join(node.address for node in brokers.values())
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
