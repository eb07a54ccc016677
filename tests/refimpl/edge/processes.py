"""`highwater broker` as a process of its own."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.refimpl.edge.patience import PATIENCE_S

HIGHWATER = Path(sys.executable).with_name("highwater")


def command(*arguments: object) -> list[str]:
    return [str(HIGHWATER), "broker", *map(str, arguments)]


def refused(*arguments: object) -> tuple[int, str]:
    """Exit code and what it said, of a broker that does not start."""
    ran = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=PATIENCE_S)
    return ran.returncode, ran.stderr


@contextmanager
def running(*arguments: object) -> Generator[tuple[str, Any]]:
    """Its addresses, and the process; it is ended in the end."""
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready, _, addresses = process.stdout.readline().strip().partition(" ")
        assert ready == "ready"
        yield addresses, process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
