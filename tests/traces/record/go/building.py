"""Programs of our tests in Go, built by Go's own tools."""

import fcntl
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from chaos.real.kafka.judge import CACHE

ROOT = Path(__file__).parents[4]
MODULE = ROOT / "traces" / "record" / "go"
PROGRAMS = Path(__file__).parent
BUILT = CACHE.parent / "recorder-go"


class NoGoError(RuntimeError):
    """Go is what compiles the recorder and brings franz-go, and it is not on PATH."""

    def __init__(self) -> None:
        super().__init__(
            "go is not on PATH, and it compiles the recorder of franz-go clients. "
            "Install it: apt-get install golang, or brew install go"
        )


def go(folder: Path, *words: str | Path) -> None:
    """Go's own command in one of our modules."""
    if shutil.which("go") is None:
        raise NoGoError
    subprocess.run(["go", *map(str, words)], cwd=folder, check=True)


def program(name: str) -> Path:
    """One of our programs, built anew if a source is younger."""
    return _built(name, PROGRAMS, "build", "-o", BUILT / name, f"./{name}")


def writer() -> Path:
    """The module's test binary: as a program it writes journals."""
    return _built("writer", MODULE, "test", "-c", "-o", BUILT / "writer", ".")


def _built(name: str, folder: Path, *words: str | Path) -> Path:
    product = BUILT / name
    BUILT.mkdir(parents=True, exist_ok=True)
    with _alone():
        sources = [*MODULE.rglob("*.go"), *PROGRAMS.rglob("*.go"), MODULE / "go.mod"]
        since = product.stat().st_mtime if product.exists() else 0
        if any(one.stat().st_mtime >= since for one in sources):
            go(folder, *words)
    return product


@contextmanager
def _alone() -> Generator[None]:
    """One process builds at a time."""
    with (BUILT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
