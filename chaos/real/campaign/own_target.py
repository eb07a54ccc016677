"""Our own brokers as the target: `highwater broker --processes`."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define, field

from chaos.real.campaign.disks import Disk
from chaos.real.campaign.plan import BROKERS
from chaos.real.campaign.proxies import Proxies, before

PATIENCE_S = 120
STOP_S = 60
_STARTED = re.compile(r"^broker (\d+) is process (\d+)$", re.M)
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "auto.create.topics.enable": "false",
}


@define(eq=False)
class OwnTarget:
    """The parent, which is the controller, and the brokers, its children."""

    parent: "subprocess.Popen[str]"
    folder: Path
    ports: Mapping[int, int]
    proxies: Proxies
    #: Processes that have ended, as far as this campaign knows
    _ended: set[int] = field(factory=set[int])

    def running(self, node: int) -> bool:
        """True unless its last process has ended."""
        pid = self._pid(node)
        return pid not in self._ended and _exists(pid)

    def signal(self, node: int, number: int) -> None:
        """To the broker's process."""
        os.kill(self._pid(node), number)

    def end(self, node: int, number: int) -> None:
        """Wait until the parent has noticed."""
        pid = self._pid(node)
        os.kill(pid, number)
        if not _within(STOP_S, lambda: self._has_ended(node, pid)):
            os.kill(pid, signal.SIGKILL)
            _wait(f"the end of broker {node}", lambda: self._has_ended(node, pid))
        self._ended.add(pid)

    def start(self, node: int) -> None:
        """All that are down start with it: the parent knows no other way."""
        if self.running(node):
            return
        before = self._pid(node)
        self.parent.send_signal(signal.SIGUSR1)
        _wait(f"a new process of broker {node}", lambda: self._pid(node) != before)

    def empty(self, node: int) -> int:
        """Its folder goes; the broker makes another one."""
        return self._disk(node).empty()

    def copy(self, node: int) -> Path:
        """The broker's folder."""
        return self._disk(node).copy()

    def put_back(self, node: int, copy: Path) -> int:
        """All of it."""
        return self._disk(node).put_back(copy)

    def _disk(self, node: int) -> Disk:
        return Disk(self.folder / "data" / f"broker-{node}", self.folder / "copies")

    def _pid(self, node: int) -> int:
        said = (self.folder / "errors.log").read_text(errors="replace")
        return [int(pid) for number, pid in _STARTED.findall(said) if int(number) == node][-1]

    def _has_ended(self, node: int, pid: int) -> bool:
        said = (self.folder / "errors.log").read_text(errors="replace")
        return f"broker {node}, process {pid}, has ended" in said


@contextmanager
def highwater(folder: Path, settings: Mapping[str, str]) -> Generator[OwnTarget]:
    """A cluster on empty folders, up; at the end none of its processes runs any more."""
    folder.mkdir(parents=True)
    given = [f"--set={name}={value}" for name, value in {**REPLICATED, **settings}.items()]
    command = [
        *(sys.executable, "-m", "refimpl", "broker", "--brokers", "3", "--processes"),
        *("--port", "0", "--data", str(folder / "data"), *given),
    ]
    with (folder / "errors.log").open("w") as errors:
        parent = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield from _serving(parent, folder)
    finally:
        end(parent, folder)


def _serving(parent: "subprocess.Popen[str]", folder: Path) -> Generator[OwnTarget]:
    assert parent.stdout is not None
    said, _, addresses = parent.stdout.readline().strip().partition(" ")
    if said != "ready":
        raise RuntimeError(f"the brokers did not start: {(folder / 'errors.log').read_text()}")
    found = [int(one.rpartition(":")[2]) for one in re.split(r"[ ,]+", addresses)]
    ports: dict[int, int] = dict(zip(BROKERS, found, strict=True))
    proxies = Proxies(before(ports.values()))
    with proxies.running():
        yield OwnTarget(parent, folder, ports, proxies)


def end(parent: "subprocess.Popen[str]", folder: Path) -> None:
    """SIGTERM lets the parent end its children; after STOP_S or a second Ctrl-C, all are killed."""
    parent.terminate()
    try:
        with suppress(subprocess.TimeoutExpired):
            parent.wait(STOP_S)
    finally:
        if parent.poll() is None:
            _kill(parent, folder)
        assert parent.stdout is not None
        parent.stdout.close()


def _kill(parent: "subprocess.Popen[str]", folder: Path) -> None:
    parent.kill()
    parent.wait()
    said = (folder / "errors.log").read_text(errors="replace")
    for node, pid in _STARTED.findall(said):
        if f"broker {node}, process {pid}, has ended" not in said:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.02)
    return met


def _wait(what: str, condition: Callable[[], bool]) -> None:
    if not _within(PATIENCE_S, condition):
        raise RuntimeError(f"not within {PATIENCE_S} s: {what}")
