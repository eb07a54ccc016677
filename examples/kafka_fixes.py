"""Compile Apache Kafka's own classes with the fix of a finding, to be put before its jars.

    python examples/kafka_fixes.py FIX FOLDER

Maven fetches the source of the class; a few of its lines are changed, as named below, and it is
compiled against the jars. `--classes FOLDER` of the example then plays the finding on that Kafka.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import click

from chaos.real.kafka.judge import NoMavenError, jars
from examples.fixes import FIXES, Fix, edited
from examples.kafka_jars import KAFKA, fetched

SCALA = "2.13.18"
COMPILER = ("scala-compiler", "scala-library", "scala-reflect")


def compiled(fix: Fix, folder: Path) -> None:
    """Put the changed class, and those inside it, into the folder."""
    libraries = f"{jars().resolve()}/*"
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        fetched(work, f"org.apache.kafka:{fix.artifact}:{KAFKA}:jar:sources")
        with zipfile.ZipFile(work / f"{fix.artifact}-{KAFKA}-sources.jar") as sources:
            source = sources.read(fix.path).decode()
        path = work / Path(fix.path).name
        path.write_text(edited(source, fix.edits))
        folder.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".java":
            command = ["javac", "-nowarn", "-proc:none", "-cp", f"{folder}{os.pathsep}{libraries}"]
            command += ["-d", folder, path]
        else:
            fetched(work / "scala", *(f"org.scala-lang:{one}:{SCALA}" for one in COMPILER))
            scalac = ["java", "-cp", f"{work / 'scala'}/*", "scala.tools.nsc.Main", "-nowarn"]
            command = [*scalac, "-release", "17", "-cp", libraries, "-d", folder, path]
        subprocess.run(command, check=True)
    if fix.more is not None:
        compiled(fix.more, folder)


@click.command(help=__doc__)
@click.argument("fix", type=click.Choice(sorted(FIXES)))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def main(fix: str, folder: Path) -> None:
    try:
        compiled(FIXES[fix], folder)
    except NoMavenError as missing:
        click.echo(str(missing), err=True)
        sys.exit(2)
    except (ValueError, KeyError, subprocess.CalledProcessError) as failed:
        click.echo(f"the fix {fix} does not fit the source of Kafka {KAFKA}: {failed}", err=True)
        sys.exit(2)
    click.echo(f"compiled into {folder}; play the example with --classes {folder}")


if __name__ == "__main__":
    main()
