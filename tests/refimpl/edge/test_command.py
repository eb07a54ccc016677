"""`highwater broker` from outside: what it prints, what it keeps, how it ends, what it refuses."""

import asyncio
import re
import signal
import socket
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from refimpl.edge.commands import broker as command
from tests.refimpl.edge.patience import PATIENCE_S
from tests.refimpl.edge.processes import refused, running


def send(addresses: str, topic: str, values: list[bytes], **configs: Any) -> list[int]:
    """Offsets at which values were acknowledged; those that were not have none."""
    settings: Any = {"bootstrap.servers": addresses, "acks": "all", **configs}
    producer = confluent_kafka.Producer(settings)
    offsets: list[int] = []
    for value in values:
        producer.produce(
            topic,
            value,
            partition=0,
            on_delivery=lambda error, message: offsets.append(message.offset() or 0),
        )
    assert producer.flush(PATIENCE_S) == 0
    return offsets


def read(addresses: str, topic: str, count: int) -> list[bytes | None]:
    """The values at the beginning of partition 0."""
    settings: Any = {"group.id": "nobody", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": addresses, **settings})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), PATIENCE_S)
        assert messages
        found += [one.value() for one in messages]
    consumer.close()
    return found


def test_sigterm_stops_cleanly_and_what_was_written_is_there_again(tmp_path: Path) -> None:
    settings = ("--brokers", 2, "--port", 0, "--data", tmp_path)
    more = ("--set", "default.replication.factor=2")
    with running(*settings, *more) as (addresses, process):
        assert send(addresses, "kept", [b"a", b"b"]) == [0, 1]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    for broker in ("broker-1", "broker-2"):
        assert (tmp_path / broker / "kept-0" / f"{0:020}.log").stat().st_size > 0
        assert "node.id=" in (tmp_path / broker / "meta.properties").read_text()
        assert (tmp_path / broker / ".kafka_cleanshutdown").exists()
    with running(*settings, *more) as (addresses, _):
        assert read(addresses, "kept", 2) == [b"a", b"b"]
        assert send(addresses, "kept", [b"c"]) == [2]


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    settings = ("--brokers", 3, "--port", 0, "--data", tmp_path)
    more = ("--set", "default.replication.factor=3", "--set", "min.insync.replicas=2")
    written: list[bytes] = []
    for turn in range(3):
        with running(*settings, *more) as (addresses, process):
            values = [b"%d-%d" % (turn, number) for number in range(50)]
            offsets = send(addresses, "kept", values)
            assert offsets == list(range(len(written), len(written) + 50))
            written += values
            process.kill()
    with running(*settings, *more) as (addresses, _):
        assert read(addresses, "kept", len(written)) == written


def test_without_data_nothing_is_kept(tmp_path: Path) -> None:
    with running("--port", 0) as (addresses, _):
        assert send(addresses, "gone", [b"a"]) == [0]
    with running("--port", 0) as (addresses, _):
        assert send(addresses, "gone", [b"b"]) == [0]


def test_what_the_readme_shows_runs(capfd: pytest.CaptureFixture[str]) -> None:
    """The broker and the client as they stand there, on another port."""
    text = (Path(__file__).parents[3] / "README.md").read_text()
    (arguments,) = re.findall(r"^\$ .venv/bin/highwater broker (--.*) --port 9092$", text, re.M)
    (client,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert "127.0.0.1:9092" in client
    with running(*arguments.split(), "--port", 0) as (addresses, _):
        assert len(addresses.split(",")) == 3
        exec(client.replace("127.0.0.1:9092", addresses.partition(",")[0]), {})
    assert capfd.readouterr().out == "None 0\n"


def test_a_second_signal_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(command.os, "_exit", codes.append)
    monkeypatch.setattr(command.signal, "signal", handlers.__setitem__)
    ended = asyncio.Event()
    command.take_signal(ended, signal.SIGTERM)
    assert (ended.is_set(), codes) == (True, []), "the first one stops cleanly"
    command.take_signal(ended, signal.SIGINT)
    handlers[signal.SIGTERM](signal.SIGTERM, None)
    assert codes == [130, 143], "in the event loop, and while a disk is waited for"


def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("--port", port)
    assert code == 2
    assert said == f"Error: 127.0.0.1: port {port} is in use; name others with --port\n"


def test_a_setting_that_cannot_be_is_named(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nnum.partitions=0\n")
    code, said = refused("--port", 0, "--config", file)
    assert code == 2
    assert f"{file}:2: Invalid value 0 for configuration num.partitions" in said
    for wrong, why in (
        (("--port", 65535, "--brokers", 3), "port: a whole number from 0 to 65533 is expected"),
        (("--port", 0, "--host", "nowhere.invalid"), "cannot listen: nowhere.invalid"),
    ):
        code, said = refused(*wrong)
        assert (code, why in said, "Traceback" in said) == (2, True, False)
    code, said = refused("--port", 0, "--set", "num.partitions=many")
    assert code == 2
    assert "num.partitions" in said


def test_a_directory_that_is_in_use_or_of_another_cluster_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running("--port", 0, "--data", data):
        code, said = refused("--port", 0, "--data", data)
        assert code == 2
        assert "another process uses this log directory" in said
    properties = data / "broker-1" / "meta.properties"
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=7"))
    code, said = refused("--port", 0, "--data", data)
    assert code == 2
    assert "node.id is 7, expected 1" in said


def test_the_file_says_where_to_listen_and_where_logs_are(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "server.properties"
    dirs = f"{tmp_path / 'logs'},{tmp_path / 'more'}"
    file.write_text(f"listeners=PLAINTEXT://:{port}\nlog.dirs={dirs}\n")
    with running("--config", file) as (addresses, _):
        assert addresses == f"127.0.0.1:{port}"
        assert send(addresses, "kept", [b"a"]) == [0]
        assert send(addresses, "too", [b"a"]) == [0]
        assert (tmp_path / "logs" / "broker-1" / "kept-0").is_dir()
        assert (tmp_path / "more" / "broker-1" / "too-0").is_dir()
