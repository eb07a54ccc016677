"""The end of a campaign's own brokers leaves no process, however often a user interrupts it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from attrs import frozen

from chaos.real.campaign import own_target

#: A parent that does not end when asked to, with a child that it names as a broker.
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
command = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(command, close_fds=False)
print(f"broker 1 is process {child.pid}", file=sys.stderr, flush=True)
print("ready", flush=True)
time.sleep(600)
"""
ENDED_S = 30


@frozen
class Brokers:
    """A parent and its child, which hold the other end of a pipe while they run."""

    parent: "subprocess.Popen[str]"
    folder: Path
    pipe: int

    def all_ended(self) -> bool:
        return bool(select.select([self.pipe], [], [], ENDED_S)[0])


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Brokers]:
    pipe, theirs = os.pipe()
    errors = tmp_path / "errors.log"
    with errors.open("w") as written:
        parent = subprocess.Popen(
            [sys.executable, "-c", STUBBORN],
            stdout=subprocess.PIPE,
            stderr=written,
            pass_fds=[theirs],
            text=True,
        )
    os.close(theirs)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    yield Brokers(parent, tmp_path, pipe)
    for pid in (parent.pid, int(errors.read_text().split()[-1])):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.close(pipe)


def test_a_parent_that_does_not_end_in_time_is_killed_with_its_brokers(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_target, "STOP_S", 0.1)
    own_target.end(brokers.parent, brokers.folder)
    assert brokers.all_ended()


def test_an_interrupt_while_brokers_end_leaves_none_of_them(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = brokers.parent.wait

    def interrupted(timeout: float | None = None) -> int:
        if timeout is not None:
            raise KeyboardInterrupt
        return wait()

    monkeypatch.setattr(brokers.parent, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        own_target.end(brokers.parent, brokers.folder)
    assert brokers.all_ended()
