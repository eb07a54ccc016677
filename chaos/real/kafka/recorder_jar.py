"""Builds `highwater-recorder.jar`, the recorder of Java clients, by Maven: `make recorder-java`."""

import fcntl
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from chaos.real.kafka.judge import CACHE, maven, print_built

PROJECT = Path(__file__).parents[3] / "traces" / "record" / "java"
BUILT = CACHE.parent / "recorder"
JAR = BUILT / "highwater-recorder.jar"


def recorder_jar() -> Path:
    """The jar, built anew if a source is younger. Raises `NoMavenError`."""
    with alone():
        if is_stale(JAR, [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]):
            maven_of_recorder("clean", "package")
    return JAR


def maven_of_recorder(*arguments: str) -> None:
    """Run Maven on the recorder's project."""
    maven("-f", PROJECT / "pom.xml", f"-Drecorder.build={BUILT}", *arguments)


def is_stale(product: Path, sources: Iterable[Path]) -> bool:
    """True if a source is younger than what was built of it, or nothing was."""
    since = product.stat().st_mtime if product.exists() else 0
    return any(one.stat().st_mtime >= since for one in sources)


@contextmanager
def alone() -> Generator[None]:
    """One process builds at a time."""
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    with (BUILT.parent / "recorder.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    print_built(
        recorder_jar,
        "{jar}: beside kafka-clients on an application's class path (docs/recorder-java.md)",
    )
