"""Builds `highwater-agent.jar`, a jar of our classes alone; Byte Buddy lies beside it."""

import shutil
import subprocess
import zipfile
from pathlib import Path

from chaos.real.kafka.judge import CACHE, jars

HERE = Path(__file__).parent
JAR = "highwater-agent.jar"
_JAVA = 17


def agent_jar() -> Path:
    """The jar, built anew if a source is younger."""
    libraries = jars(HERE / "pom.xml", "agent-jars")
    folder = CACHE.parent / "agent"
    jar = folder / JAR
    sources = sorted((HERE / "java" / "highwater" / "agent").iterdir())
    if jar.exists() and all(one.stat().st_mtime < jar.stat().st_mtime for one in sources):
        return jar
    shutil.rmtree(folder, ignore_errors=True)
    classes = folder / "classes"
    classes.mkdir(parents=True)
    java = [one for one in sources if one.suffix == ".java"]
    release = ("--release", str(_JAVA), "-Xlint:all,-classfile", "-Werror")
    command = ["javac", *release, "-cp", f"{libraries}/*", "-d", classes, *java]
    subprocess.run(command, check=True)
    beside = sorted(libraries.glob("*.jar"))
    for one in beside:
        shutil.copy(one, folder)
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("META-INF/MANIFEST.MF", _manifest([one.name for one in beside]))
        for one in sorted(classes.rglob("*.class")):
            out.write(one, one.relative_to(classes).as_posix())
        out.write(HERE / "java" / "highwater" / "agent" / "hooks.txt", "highwater/agent/hooks.txt")
    shutil.rmtree(classes)
    return jar


def _manifest(beside: list[str]) -> str:
    lines = ("Manifest-Version: 1.0", "Premain-Class: highwater.agent.Agent")
    return "\n".join([*lines, f"Class-Path: {' '.join(beside)}", "", ""])
