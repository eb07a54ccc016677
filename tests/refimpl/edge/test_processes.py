"""`highwater broker --processes`: a broker is killed by its own id, and its clients go on."""

import os
import re
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from attrs import define
from confluent_kafka.admin import AdminClient

from refimpl.boots import named_boot
from tests.refimpl.edge.patience import PATIENCE_S, until
from tests.refimpl.edge.processes import command, refused, running
from tests.refimpl.edge.test_command import read, send

REPLICATED = (
    *("--set", "default.replication.factor=3", "--set", "min.insync.replicas=2"),
    *("--set", "broker.session.timeout.ms=2000"),
)

COUNTS = pytest.mark.skipif(
    not psutil.pid_exists(os.getpid()), reason="Linux counts processes in /proc"
)


@define
class Started:
    """The parent, what it said on standard error, and the addresses of its brokers."""

    parent: Any
    errors: Path
    addresses: str

    def pid(self, broker: int) -> int:
        """The id of the last process of a broker."""
        said = re.findall(rf"^broker {broker} is process (\d+)$", self.errors.read_text(), re.M)
        return int(said[-1])

    def alive(self) -> list[int]:
        """The brokers whose processes run."""
        return [one for one in (1, 2, 3) if psutil.pid_exists(self.pid(one))]


@contextmanager
def processes(folder: Path, *arguments: object) -> Generator[Started]:
    errors = folder / "errors"
    given = ("--brokers", 3, "--processes", "--port", 0, *arguments)
    with errors.open("w") as file:
        parent: Any = subprocess.Popen(
            command(*given), stdout=subprocess.PIPE, stderr=file, text=True
        )
    try:
        ready, _, addresses = parent.stdout.readline().strip().partition(" ")
        assert ready == "ready", errors.read_text()
        yield Started(parent, errors, addresses)
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()


def test_clients_survive_the_kill_of_a_broker_which_is_started_again(tmp_path: Path) -> None:
    with processes(tmp_path, "--data", tmp_path / "data", *REPLICATED) as started:
        pids = {one: started.pid(one) for one in (1, 2, 3)}
        assert len({started.parent.pid, *pids.values()}) == 4
        assert send(started.addresses, "kept", [b"a"]) == [0]
        for turn, broker in enumerate((1, 2), 1):
            os.kill(started.pid(broker), signal.SIGKILL)
            assert send(started.addresses, "kept", [b"%d" % turn]) == [turn]
            until(lambda one=broker: f"broker {one}, process" in started.errors.read_text())
            started.parent.send_signal(signal.SIGUSR1)
            until(lambda one=broker: started.pid(one) != pids[one])
            until(lambda: len(in_sync(started.addresses)) == 3)
        assert read(started.addresses, "kept", 3) == [b"a", b"1", b"2"]
        said = started.errors.read_text()
        again = f"kill -USR1 {started.parent.pid} starts it again"
        assert f"broker 1, process {pids[1]}, has ended by SIGKILL; {again}\n" in said
        started.parent.send_signal(signal.SIGTERM)
        assert started.parent.wait(PATIENCE_S) == 0
        assert started.alive() == []


def _admin(addresses: str) -> Any:
    return AdminClient({"bootstrap.servers": addresses, "log_level": 0})


def in_sync(addresses: str) -> list[int]:
    """The replicas in sync of partition 0."""
    return (
        _admin(addresses).list_topics("kept", timeout=PATIENCE_S).topics["kept"].partitions[0].isrs
    )


@pytest.mark.skipif(not named_boot(), reason="without its name another boot may have lost records")
def test_the_directories_are_the_same_with_and_without_processes(tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    with processes(tmp_path, *data, *REPLICATED) as started:
        assert send(started.addresses, "kept", [b"a"]) == [0]
        started.parent.send_signal(signal.SIGTERM)
        assert started.parent.wait(PATIENCE_S) == 0
    for broker in ("broker-1", "broker-2", "broker-3"):
        assert (tmp_path / "data" / broker / ".kafka_cleanshutdown").exists()
    with running("--brokers", 3, "--port", 0, *data, *REPLICATED) as (addresses, process):
        assert read(addresses, "kept", 1) == [b"a"]
        assert send(addresses, "kept", [b"b"]) == [1]
        process.kill()
    with processes(tmp_path, *data, *REPLICATED) as started:
        assert read(started.addresses, "kept", 2) == [b"a", b"b"]


def test_without_data_a_killed_broker_copies_from_the_others_what_it_had(tmp_path: Path) -> None:
    with processes(tmp_path, *REPLICATED) as started:
        assert send(started.addresses, "kept", [b"a", b"b"]) == [0, 1]
        os.kill(started.pid(1), signal.SIGKILL)
        until(lambda: 1 not in in_sync(started.addresses))
        started.parent.send_signal(signal.SIGUSR1)
        until(lambda: len(in_sync(started.addresses)) == 3)
        os.kill(started.pid(2), signal.SIGKILL)
        os.kill(started.pid(3), signal.SIGKILL)
        one = started.addresses.split(",")[0]
        until(lambda: _leads(one, 1))
        assert read(one, "kept", 2) == [b"a", b"b"]


def _leads(addresses: str, broker: int) -> bool:
    kept = _admin(addresses).list_topics("kept", timeout=PATIENCE_S).topics["kept"]
    return kept.partitions[0].leader == broker


@COUNTS
def test_brokers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with processes(tmp_path) as started:
        assert started.alive() == [1, 2, 3]
        started.parent.kill()
        started.parent.wait()
        until(lambda: started.alive() == [])


@COUNTS
def test_a_port_in_use_is_one_line_and_no_process_is_left() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("--processes", "--port", port)
    assert code == 2
    assert said == f"Error: 127.0.0.1: port {port} is in use; name others with --port\n"
    assert not [one for one in psutil.process_iter() if _child_of(one, os.getpid())]


def _child_of(process: Any, pid: int) -> bool:
    try:
        return process.ppid() == pid and "joined" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_processes_are_for_the_brokers_of_one_command() -> None:
    code, said = refused("--processes", "--id", 1)
    assert code == 2
    assert "--processes is for the brokers of --brokers, without --id" in said
