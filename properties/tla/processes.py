"""Run one outside program with a time limit, and say what it cost."""

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from properties.tla.errors import MissingToolError


@frozen
class Finished:
    """What a program said and cost. `code` is the signal's negative when one ended it."""

    command: tuple[str, ...]
    code: int
    output: str
    errors: str
    cpu_s: float
    wall_s: float
    timed_out: bool


def run(
    command: Sequence[str],
    cwd: Path,
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run to the end or to the limit. The CPU seconds are the program's own, user and system."""
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
    except OSError as refused:
        raise MissingToolError(f"cannot run {command[0]}: {refused.strerror}") from refused
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(limit_s, stop)
    timer.start()
    _running.add(process)
    try:
        code, output, errors, cpu_s = _collect(process)
    finally:
        timer.cancel()
        _running.discard(process)
        if process.poll() is None:
            process.kill()
            process.wait()
    wall_s = time.monotonic() - started
    return Finished(tuple(command), code, output, errors, cpu_s, wall_s, late.is_set())


_running: set[subprocess.Popen[str]] = set()


def stop_all() -> None:
    """End what still runs, in whatever thread it was started: nobody waits for it any more."""
    for process in list(_running):
        process.kill()


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
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return code, output, errors[0], usage.ru_utime + usage.ru_stime
