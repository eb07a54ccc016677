"""Settings of brokers as they lie around: `highwater broker --config` starts, or names the line."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from chaos.real.kafka.judge import free_port
from refimpl.edge.commands import broker as command
from refimpl.edge.server.addresses import advertised_listeners_of, listeners_of
from refimpl.edge.server.properties import PropertiesError, read_properties
from refimpl.edge.server.security import check_security
from refimpl.edge.testing.blocking import BlockingCluster

CORPUS = Path(__file__).parent / "corpus.txt"
#: What Kafka 4.3.1 says of each file: nothing if it accepts it
VERDICTS = Path(__file__).parent / "corpus_verdicts.json"
_ENTRY = re.compile(r"^=== (\S+) (starts|refused) (.+)\n((?:.+\n)+)", re.MULTILINE)
ENTRIES = {name: tuple(rest) for name, *rest in _ENTRY.findall(CORPUS.read_text())}
STARTS = [name for name, (kind, _, _) in ENTRIES.items() if kind == "starts"]
REFUSED = [name for name, (kind, _, _) in ENTRIES.items() if kind == "refused"]


#: Files on which Kafka starts and we do not, or the other way round, and why
DIFFERENCES = {
    "kafka-4.3-controller": "a process is never a controller alone",
    "strimzi-tls": "a TLS listener without a certificate can serve nobody, and fails at the start",
    "docker-lower-case": "brokers hear each other on a listener of their own, PEER",
    "cp-server": "a reporter of metrics is a class of Java, and is left out with a warning",
    "cruise-control": "a reporter of metrics is a class of Java, and is left out with a warning",
}


def placed(text: str, folder: Path) -> str:
    text = text.replace("PORT2", str(free_port())).replace("PORT", str(free_port()))
    return text.replace("DATA", str(folder / "data"))


def _settings(text: str) -> Mapping[str, str]:
    values = read_properties(text, "server.properties").values
    advertised_listeners_of(values)
    check_security(values)
    return values


@pytest.mark.parametrize("name", STARTS)
def test_a_file_starts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted, text = ENTRIES[name]
    file = tmp_path / "server.properties"
    file.write_text(placed(text, tmp_path))
    found: list[str] = []

    async def serve(cluster: object) -> int:
        settings = getattr(cluster, "configs")  # noqa: B009
        found.extend(one.name for one in listeners_of(settings))
        return 0

    monkeypatch.setattr(command, "serve", serve)
    ran = CliRunner().invoke(command.broker, ["--config", str(file)])
    assert ran.exit_code == 0, ran.output
    assert found == (wanted.split() if "listeners=" in text else [])


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    _, why, text = ENTRIES[name]
    file = tmp_path / "server.properties"
    file.write_text(placed(text, tmp_path))
    ran = CliRunner().invoke(command.broker, ["--config", str(file)])
    assert ran.exit_code == 2
    error = ran.output.partition("\nError: ")[2]
    assert why in error
    assert re.search(r"server\.properties:\d+: ", error)


@pytest.mark.parametrize(
    ("inside", "outside", "told"),
    [("127.0.0.1", "localhost", "localhost"), ("", "", "127.0.0.1")],
)
def test_each_listener_tells_its_own_addresses(inside: str, outside: str, told: str) -> None:
    """One that is advertised without a host is where it listens."""
    first, second = free_port(), free_port()
    values = {
        "listeners": f"INSIDE://127.0.0.1:{first},OUTSIDE://127.0.0.1:{second}",
        "advertised.listeners": f"INSIDE://{inside}:{first},OUTSIDE://{outside}:{second}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    }
    with BlockingCluster(brokers=1, port=first, configs=values):
        for port, host in ((first, "127.0.0.1"), (second, told)):
            admin: Any = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            listed = admin.list_topics(timeout=20).brokers[1]
            assert (listed.host, listed.port) == (host, port)
            found = admin.describe_cluster().result(20).nodes
            assert [(one.host, one.port) for one in found] == [(host, port)]


def test_the_corpus_is_read_whole() -> None:
    assert len(ENTRIES) == CORPUS.read_text().count("\n=== ")
    for name in REFUSED:
        with pytest.raises((PropertiesError, ValueError)):
            _settings(placed(ENTRIES[name][2], Path("/none")))


def test_we_start_on_what_kafka_starts_on_once_it_has_a_controller() -> None:
    """Kafka 4 wants `process.roles` first, so each file was completed by that for it."""
    verdicts = json.loads(VERDICTS.read_text())
    assert verdicts.keys() == ENTRIES.keys()
    theirs = {name for name, one in verdicts.items() if one["completed"] is None}
    assert theirs ^ set(STARTS) == set(DIFFERENCES)
