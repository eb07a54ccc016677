"""Run one outside program within limits, and report its cost."""

import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from properties.tla.errors import MissingToolError

#: A machine may be busy with other things; a program may also wait for ever without using time.
_PATIENCE = 10
_PATIENCE_LEAST_S = 60.0
#: `ulimit -t` counts whole CPU seconds, and is what every Unix has.
_LIMITED = 'ulimit -t "$1"; shift; exec "$@"'


@frozen
class Finished:
    """A program's output and cost. `code` is negative if a signal ended it."""

    command: tuple[str, ...]
    code: int
    output: str
    errors: str
    cpu_s: float
    wall_s: float
    timed_out: bool

    def spent(self, limit_s: float) -> str:
        """The reason for which it was stopped: too much CPU time, or none for too long."""
        return (
            f"not finished, with {self.cpu_s:.1f} of {limit_s:g} CPU s used "
            f"after {self.wall_s:.0f} s"
        )


def run(
    command: Sequence[str], cwd: Path, limit_s: float, patience_s: float | None = None
) -> Finished:
    """Run to the end, or until `limit_s` CPU seconds are used.

    CPU seconds, so that a verdict does not depend on what else the machine does; a program that
    uses none is stopped after `patience_s` on the wall clock, by default ten times as long.
    """
    if patience_s is None:
        patience_s = max(_PATIENCE * limit_s, _PATIENCE_LEAST_S)
    started = time.monotonic()
    process = _start(command, cwd, limit_s)
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(patience_s, stop)
    timer.start()
    try:
        code, output, errors, cpu_s = _collect(process)
    finally:
        timer.cancel()
        _running.discard(process)
        if process.poll() is None:
            process.kill()
            process.wait()
    wall_s = time.monotonic() - started
    spent = code in (-signal.SIGKILL, -signal.SIGXCPU) and cpu_s >= 0.9 * math.ceil(limit_s)
    timed_out = late.is_set() or spent
    return Finished(tuple(command), code, output, errors, cpu_s, wall_s, timed_out)


_running: set[subprocess.Popen[str]] = set()


def _start(command: Sequence[str], cwd: Path, limit_s: float) -> subprocess.Popen[str]:
    limited = ["/bin/sh", "-c", _LIMITED, "sh", str(math.ceil(limit_s)), *command]
    if not os.access(command[0], os.X_OK):
        raise MissingToolError(f"cannot run {command[0]}: it is not a program")
    process = subprocess.Popen(
        limited,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    _running.add(process)
    return process


def stop_all() -> None:
    """End all running processes, of any thread; their results are no longer needed."""
    for process in list(_running):
        _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Not `process.kill()`: that may reap the process, and `wait4` would find none to ask."""
    if process in _running:
        with suppress(ProcessLookupError):  # its waiting thread may have reaped it just now
            os.kill(process.pid, signal.SIGKILL)


def _collect(process: subprocess.Popen[str]) -> tuple[int, str, str, float]:
    """Drain both pipes side by side, then reap with `wait4`, which knows this child's CPU time."""
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    pipe = process.stderr
    drain = threading.Thread(target=lambda: errors.append(pipe.read()))
    drain.start()
    output = process.stdout.read()
    drain.join()
    process.stdout.close()
    process.stderr.close()
    _, status, usage = os.wait4(process.pid, 0)
    _running.discard(process)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return code, output, errors[0], usage.ru_utime + usage.ru_stime
