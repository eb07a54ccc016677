"""Run clients' own test suites on our broker and on Kafka 4.3.1: `make test-suites`.

No test that passes on Kafka may fail here, but for a reason that the catalogue gives. The outcome
of each test is kept in `results.json` beside this file, from which docs/wire.md has its table.
Needs Maven, Go and Git, and half an hour. Exit 1 where a test fails here without a reason.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from chaos.real.kafka.judge import Judge, KafkaBroker, free_port
from chaos.real.suites.catalogue import CLUSTER_SETTINGS, PROXY_PORT, SETTINGS, SUITES
from chaos.real.suites.results import everything, keep, unexplained


@contextmanager
def kafka(brokers: int) -> Generator[str]:
    """Kafka 4.3.1, the first broker of which is the controller; answers the addresses."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        tools = Judge.start()
        nodes = [KafkaBroker(Path(name, str(number + 1))) for number in range(brokers)]
        for number, node in enumerate(nodes):
            node.folder.mkdir()
            node.settings.update({**SETTINGS, "log.cleaner.enable": "false"})
            if brokers > 1:
                node.settings.update(_member(nodes, number))
            node.format(tools)
        tools.stop()
        for node in nodes:
            stack.enter_context(node.running())
        yield ",".join(node.address for node in nodes)


def _member(nodes: Sequence[KafkaBroker], number: int) -> dict[str, str]:
    """One of several: a listener for the others, and one that clients reach by a proxy."""
    node, first, own = nodes[number], nodes[0].controller, free_port()
    listeners = f"INTERNAL://127.0.0.1:{own},PLAINTEXT://{node.address}"
    advertised = f"INTERNAL://127.0.0.1:{own},PLAINTEXT://127.0.0.1:{PROXY_PORT + number}"
    if number == 0:
        listeners += f",CONTROLLER://127.0.0.1:{first}"
    protocols = ",".join(f"{one}:PLAINTEXT" for one in ("INTERNAL", "PLAINTEXT", "CONTROLLER"))
    return {
        **CLUSTER_SETTINGS,
        "node.id": str(number + 1),
        "process.roles": "broker,controller" if number == 0 else "broker",
        "controller.quorum.voters": f"1@127.0.0.1:{first}",
        "listeners": listeners,
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "INTERNAL",
        "listener.security.protocol.map": protocols,
    }


@contextmanager
def ours(brokers: int) -> Generator[str]:
    """`highwater broker`, with its logs in files; answers the addresses."""
    highwater = Path(sys.executable).with_name("highwater")
    settings = {**SETTINGS, "offsets.topic.num.partitions": "2"}
    port = free_port()
    advertised = port if brokers == 1 else PROXY_PORT
    settings["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{advertised}"
    if brokers > 1:
        settings |= CLUSTER_SETTINGS
    given = [f"--set={name}={value}" for name, value in settings.items()]
    with tempfile.TemporaryDirectory() as name:
        command = [highwater, "broker", "--brokers", str(brokers), "--data", name]
        command += ["--port", "0" if brokers > 1 else str(port)]
        process = subprocess.Popen([*command, *given], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1]
        finally:
            process.terminate()
            process.wait(60)


SYSTEMS: Mapping[str, Callable[[int], AbstractContextManager[str]]] = {"kafka": kafka, "ours": ours}


def main() -> int:
    """Run, keep and compare."""
    parser = argparse.ArgumentParser(prog="make test-suites", description=__doc__)
    parser.add_argument("--suite", nargs="*", choices=SUITES, default=list(SUITES))
    parser.add_argument("--on", nargs="*", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--sources", type=Path, help="a folder of checkouts, by suite")
    given = parser.parse_args()
    broken: list[str] = []
    for name in given.suite:
        suite = SUITES[name]
        for system in given.on:
            folder = suite.folder(given.sources)
            with SYSTEMS[system](suite.brokers) as address:
                found = dict(sorted(suite.run(suite, folder, address).items()))
            print(
                f"{name} {suite.version} on {system}: {dict(Counter(found.values()))}", flush=True
            )
            results = everything()
            results.setdefault(name, {})[system] = found
            keep(results)
        kept = everything()[name]
        if kept.keys() >= SYSTEMS.keys():
            missed = unexplained(name, kept["kafka"], kept["ours"])
            broken += [f"{name}: {test} passes on Kafka, and here it has not" for test in missed]
    print("\n".join(broken) or "no test that passes on Kafka fails here without a reason")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
