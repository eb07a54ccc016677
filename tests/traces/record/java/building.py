"""Programs of our tests, compiled against the Java recorder and the clients of a Kafka."""

import os
import shutil
import subprocess
from pathlib import Path

from chaos.real.kafka.judge import LEAN
from chaos.real.kafka.recorder_jar import BUILT, alone, is_stale, maven_of_recorder, recorder_jar

PROGRAMS = Path(__file__).parent
COMPILED, FORMER = "4.3.1", "3.9.1"  # what it is compiled against, and the oldest that it serves


def classpath(version: str = COMPILED) -> str:
    """The jar, our programs, and the clients of this version of Kafka."""
    jar = recorder_jar()
    programs, libraries = BUILT.parent / "recorder-programs", _clients(version)
    against = f"{jar}{os.pathsep}{_clients(COMPILED)}/*"
    with alone():
        sources = sorted(PROGRAMS.rglob("*.java"))
        stamp = programs / "built"
        if is_stale(stamp, [jar, *sources]):
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
    with alone():
        if not folder.exists():
            to = ("-DincludeScope=provided", f"-DoutputDirectory={folder}")
            maven_of_recorder("dependency:copy-dependencies", *to, f"-Dkafka.version={version}")
    return folder
