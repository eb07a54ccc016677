"""The Java recorder as Maven builds it, and programs of our tests compiled against it.

`python -m tests.traces.record.java.building` builds the jar and says how to use it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from chaos.real.kafka.judge import CACHE, LEAN, NoMavenError

ROOT = Path(__file__).parents[4]
PROJECT = ROOT / "traces" / "record" / "java"
PROGRAMS = Path(__file__).parent
BUILT = CACHE.parent / "recorder"
JAR = BUILT / "highwater-recorder.jar"
COMPILED, FORMER = "4.3.1", "3.9.1"  # what it is compiled against, and the oldest that it serves


def recorder_jar() -> Path:
    """The jar, built anew if a source is younger."""
    with _alone():
        if _stale(JAR, [PROJECT / "pom.xml", *PROJECT.rglob("*.java")]):
            _maven("clean", "package")
    return JAR


def classpath(version: str = COMPILED) -> str:
    """The jar, our programs, and the clients of this version of Kafka."""
    jar = recorder_jar()
    programs, libraries = BUILT.parent / "recorder-programs", _clients(version)
    against = f"{jar}{os.pathsep}{_clients(COMPILED)}/*"
    with _alone():
        sources = sorted(PROGRAMS.rglob("*.java"))
        stamp = programs / "built"
        if _stale(stamp, [jar, *sources]):
            shutil.rmtree(programs, ignore_errors=True)
            command = ["javac", "--release", "11", "-Xlint:all,-classfile", "-Werror"]
            subprocess.run([*command, "-cp", against, "-d", programs, *sources], check=True)
            stamp.touch()
    return os.pathsep.join(map(str, (jar, programs, libraries / "*")))


def java(program: str, *arguments: str | Path, version: str = COMPILED) -> list[str]:
    """The command line of one of our programs, beside the clients of a version of Kafka."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    return ["java", *LEAN, quiet, "-cp", classpath(version), program, *map(str, arguments)]


def _clients(version: str) -> Path:
    folder = BUILT.parent / f"kafka-clients-{version}"
    with _alone():
        if not folder.exists():
            to = ("-DincludeScope=provided", f"-DoutputDirectory={folder}")
            _maven("dependency:copy-dependencies", *to, f"-Dkafka.version={version}")
    return folder


def _maven(*what: str) -> None:
    if shutil.which("mvn") is None:
        raise NoMavenError
    command = ("mvn", "-q", "-B", "-f", PROJECT / "pom.xml", f"-Drecorder.build={BUILT}")
    subprocess.run([*command, *what], check=True)


def _stale(product: Path, sources: list[Path]) -> bool:
    since = product.stat().st_mtime if product.exists() else 0
    return any(one.stat().st_mtime >= since for one in sources)


@contextmanager
def _alone() -> Generator[None]:
    """One process builds at a time."""
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    with (BUILT.parent / "recorder.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Build, and say what the jar is given to."""
    try:
        jar = recorder_jar()
    except NoMavenError as missing:
        print(missing, file=sys.stderr)
        raise SystemExit(2) from None
    print(f"{jar}: beside kafka-clients on an application's class path (docs/recorder-java.md)")


if __name__ == "__main__":
    main()
