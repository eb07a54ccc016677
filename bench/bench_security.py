"""The cost of security in CPU-seconds of the brokers: TLS, the authorizer, handshakes.

    python bench/bench_security.py [--brokers 1|3] [--records N] [--small N] [--system ours,kafka]

Each broker has a listener without and one with TLS, and the same records go through both: many in a
batch, and one in each. Kafka needs Maven and a JDK. The last two lines are of ours alone: the same
small records where ACLs are asked, and TLS handshakes one after the other.
"""

import argparse
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import randrange
from typing import Any

import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from bench_beside import System, process_of  # noqa: E402

from refimpl.edge.testing.security import Security  # noqa: E402

HIGHWATER = str(Path(sys.executable).with_name("highwater"))
TLS = Security(protocol="SSL", authorizer=False)
STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LIMIT_S = 300.0


def ports_from() -> int:
    """The first of twenty ports, which are free as far as chance goes."""
    return randrange(20_000, 30_000, 20)


def secured(plain: int, tls: int, more: Mapping[str, str]) -> dict[str, str]:
    """The settings of brokers with both listeners."""
    stores = {name: value for name, value in TLS.settings().items() if name.startswith("ssl.")}
    stores.pop("ssl.principal.mapping.rules")
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SSL://127.0.0.1:{tls}"
    return {"listeners": listeners, **stores, **more}


@contextmanager
def ours(folder: Path, brokers: int, **more: str) -> Generator[tuple[System, str]]:
    """`highwater broker`, and its addresses with TLS."""
    first = ports_from()
    settings = secured(first, first + 10, {one.replace("_", "."): of for one, of in more.items()})
    file = folder / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    command = [HIGHWATER, "broker", "--brokers", str(brokers), "--data", str(folder / "data")]
    with process_of("ours", [*command, "--config", str(file)], None) as system:
        tls = ",".join(f"127.0.0.1:{first + 10 + number}" for number in range(brokers))
        yield system, tls


@contextmanager
def kafka(folder: Path, brokers: int) -> Generator[tuple[System, str]]:
    """Kafka, a process for each of one or three brokers, and their addresses with TLS."""
    judge: Any = import_module("chaos.real.kafka.judge")
    many: Any = import_module("chaos.real.kafka.cluster")
    first, tools = ports_from(), judge.Judge.start()
    mapped = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"

    def settings(plain: int, controller: int, number: int) -> str:
        found = secured(plain, first + number, {"listener.security.protocol.map": mapped})
        found["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
        return "".join(f"{name}={value}\n" for name, value in found.items())

    try:
        if brokers == 1:
            broker = judge.KafkaBroker(folder)
            lines = settings(broker.port, broker.controller, 1).splitlines()
            broker.settings.update(dict(line.split("=", 1) for line in lines))
            broker.format(tools)
            with broker.running() as process:
                running = [psutil.Process(process.pid)]
                yield System("kafka", broker.address, running, 0.0), f"127.0.0.1:{first + 1}"
            return

        def more(node: Any) -> str:
            return "\n" + settings(node.port, node.controller, node.id)

        with many.cluster(folder, tools, more) as cluster:
            running = [psutil.Process(one.process.pid) for one in cluster.nodes.values()]
            tls = ",".join(f"127.0.0.1:{first + number}" for number in cluster.nodes)
            yield System("kafka", cluster.bootstrap, running, 0.0), tls
    finally:
        tools.stop()


def client(bootstrap: str, *, tls: bool) -> dict[str, Any]:
    """A client's settings for one of the two listeners."""
    way = {"security.protocol": "SSL", "ssl.ca.location": TLS.file("ca.pem")} if tls else {}
    return {"bootstrap.servers": bootstrap, "log_level": 0, **way}


def produce(conf: Mapping[str, Any], count: int, *, small: bool) -> None:
    """Records of 100 B to topic t."""
    alone = {"linger.ms": 0, "batch.num.messages": 1} if small else {"linger.ms": 20}
    room = {"queue.buffering.max.messages": 1_000_000}
    producer: Any = Producer({**conf, "acks": "all", **alone, **room})
    for number in range(count):
        producer.produce("t", b"x" * 100, partition=0)
        if number % 500 == 0:
            producer.poll(0)
    assert producer.flush(LIMIT_S) == 0


def consume(conf: Mapping[str, Any], count: int) -> None:
    """As many records of topic t, from the first on."""
    library: Any = import_module("confluent_kafka")
    consumer: Any = Consumer({**conf, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([library.TopicPartition("t", 0, 0)])
    seen, end = 0, time.monotonic() + LIMIT_S
    while seen < count:
        assert time.monotonic() < end
        seen += len(consumer.consume(1000, 1.0))
    consumer.close()


def spent(system: System, work: Callable[[], None]) -> float:
    """CPU-seconds of the system's processes."""
    before = system.cpu()
    work()
    return system.cpu() - before


def create(bootstrap: str, brokers: int) -> None:
    """Topic t with a replica at each broker."""
    admin: Any = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, brokers)])["t"].result(60)


def works(records: int, small: int) -> Mapping[str, Callable[[Mapping[str, Any]], None]]:
    """The pieces of work, by the names of their rows."""
    return {
        f"produce {records:,}": lambda conf: produce(conf, records, small=False),
        f"produce {small:,} alone": lambda conf: produce(conf, small, small=True),
        f"consume {records:,}": lambda conf: consume(conf, records),
    }


def measured(
    start: Callable[[Path, int], Any], brokers: int, records: int, small: int
) -> dict[str, tuple[float, float]]:
    """By row: CPU-seconds without and with TLS, the lower ones of two rounds."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as name, start(Path(name), brokers) as (system, tls):
        create(system.bootstrap, brokers)
        ways = client(system.bootstrap, tls=False), client(tls, tls=True)
        produce(ways[0], records, small=False)
        for _ in range(2):
            for row, work in works(records, small).items():
                plain, secure = (spent(system, lambda c=conf, w=work: w(c)) for conf in ways)
                found.setdefault(row, []).append((plain, secure))
    return {
        row: (min(one for one, _ in rounds), min(other for _, other in rounds))
        for row, rounds in found.items()
    }


def authorized(small: int) -> tuple[float, float]:
    """CPU-seconds of small records without and with ACLs that are asked; the lower of three."""
    asked = {"authorizer_class_name": STANDARD, "allow_everyone_if_no_acl_found": "true"}
    found: list[float] = []
    for more in ({}, asked):
        with tempfile.TemporaryDirectory() as name, ours(Path(name), 1, **more) as (system, _):
            create(system.bootstrap, 1)
            conf = client(system.bootstrap, tls=False)
            produce(conf, small, small=True)
            runs = [spent(system, lambda c=conf: produce(c, small, small=True)) for _ in range(3)]
            found.append(min(runs))
    return found[0], found[1]


def handshakes(count: int) -> float:
    """TLS handshakes per CPU-second."""
    context = ssl.create_default_context(cafile=TLS.file("ca.pem"))
    with tempfile.TemporaryDirectory() as name, ours(Path(name), 1) as (system, tls):
        host, _, port = tls.partition(":")

        def connect() -> None:
            for _ in range(count):
                with socket.create_connection((host, int(port)), 30) as plain:
                    context.wrap_socket(plain, server_hostname=host).close()

        return count / spent(system, connect)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--small", type=int, default=20_000)
    parser.add_argument("--system", default="ours,kafka")
    given = parser.parse_args()
    print(f"{given.brokers} replicas, load {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores\n")
    print("| CPU s of the brokers | without TLS | with | ratio |")
    print("|---|---|---|---|")
    starts: dict[str, Callable[[Path, int], Any]] = {"ours": ours, "kafka": kafka}
    for system in given.system.split(","):
        for row, (plain, tls) in measured(
            starts[system], given.brokers, given.records, given.small
        ).items():
            print(f"| {system}: {row} | {plain:.2f} | {tls:.2f} | {tls / plain:.2f} |", flush=True)
    if given.brokers == 1 and "ours" in given.system:
        without, asked = authorized(given.small)
        ratio = asked / without
        print(f"| ours: {given.small:,} alone, ACLs | {without:.2f} | {asked:.2f} | {ratio:.3f} |")
        print(f"\n{handshakes(300):.0f} handshakes per CPU-second")


if __name__ == "__main__":
    main()
