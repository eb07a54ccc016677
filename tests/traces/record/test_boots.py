"""A machine that was booted meanwhile is noticed, whatever its uptime, with /proc and without."""

from pathlib import Path
from typing import Any

import pytest

from traces.record import settle
from traces.record.boots import clock_domain, same_boot
from traces.record.process import open_process
from traces.record.run import TAKEN

SECOND = 10**9
UPTIMES = [5, 150, 30 * 86_400, 3 * 365 * 86_400]


class Machine:
    """A machine whose clocks the test sets."""

    def __init__(self, patch: pytest.MonkeyPatch, uptime: int, proc: Path | None) -> None:
        self.wall, self.up = 1_800_000_000 * SECOND, uptime * SECOND
        self.proc = proc
        patch.setattr("refimpl.boots.BOOT_ID", proc or Path("/nowhere/boot_id"))
        patch.setattr("time.time_ns", lambda: self.wall)
        patch.setattr("time.clock_gettime_ns", self.since)
        for module in ("journal", "process", "settling"):
            patch.setattr(f"traces.record.{module}.now", lambda: self.up)
        if proc is not None:
            proc.write_text("5e3a-first\n")

    def since(self, _: int) -> int:
        return self.up

    def pass_(self, seconds: float) -> None:
        self.wall += int(seconds * SECOND)
        self.up += int(seconds * SECOND)

    def reboot(self, uptime: float) -> None:
        """It is down for ten seconds, and has been up again for so long."""
        self.wall += int((10 + uptime) * SECOND)
        self.up = int(uptime * SECOND)
        if self.proc is not None:
            self.proc.write_text("77c1-second\n")


@pytest.fixture(params=[True, False], ids=["proc", "without"])
def proc(request: Any, tmp_path: Path) -> Path | None:
    return tmp_path / "boot_id" if request.param else None


def recorded(folder: Path, machine: Machine) -> Path:
    """The journal of a process that was killed after a minute."""
    process = open_process(folder, "p", {"role": "producer"}, TAKEN, settle)
    machine.pass_(60)
    process.note("subscribe", topics=["t"])
    process.journal.close()
    return process.journal.path


@pytest.mark.parametrize("uptime", UPTIMES)
def test_a_process_that_was_killed_has_crashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uptime: int, proc: Path | None
) -> None:
    machine = Machine(monkeypatch, uptime, proc)
    journal = recorded(tmp_path, machine)
    machine.pass_(86_400.3)
    assert settle(journal).ended == "crash"


@pytest.mark.parametrize("again", [0.5, 70, 86_400])
@pytest.mark.parametrize("uptime", UPTIMES)
def test_where_the_machine_was_booted_meanwhile_it_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uptime: int, again: float, proc: Path | None
) -> None:
    machine = Machine(monkeypatch, uptime, proc)
    before = clock_domain()
    journal = recorded(tmp_path, machine)
    machine.reboot(again)
    assert clock_domain() != before
    assert settle(journal).ended == "cut"


def test_a_monotonic_clock_that_went_back_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proc: Path | None
) -> None:
    """Such as that of a virtual machine that was put back to an earlier state."""
    machine = Machine(monkeypatch, 1000, proc)
    journal = recorded(tmp_path, machine)
    machine.pass_(-30)
    assert settle(journal).ended == "cut"


def test_the_time_of_a_boot_may_be_told_a_little_differently() -> None:
    assert same_boot("host-a-booted-100", "host-a-booted-101")
    assert not same_boot("host-a-booted-100", "host-a-booted-102")
    assert not same_boot("host-a-booted-100", "host-b-booted-100")
    assert same_boot("boot-1234", "boot-1234")
    assert not same_boot("boot-1234", "host-a-booted-100")


def test_this_machine_has_a_boot_of_its_own() -> None:
    assert clock_domain() == clock_domain()
    assert same_boot(clock_domain(), clock_domain())
