"""Which Kafka an example starts: the jars of a release, and classes that stand before them."""

import os
from pathlib import Path

import click

from chaos.real.kafka.judge import CACHE, maven
from chaos.real.kafka.judge import jars as maven_jars

KAFKA = "4.3.1"
_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)

jars_option = click.option(
    "--jars",
    type=_FOLDER,
    help="A folder of Kafka's jars, such as libs/ of a download.  [default: 4.3.1, by Maven]",
)
classes_option = click.option(
    "--classes",
    type=_FOLDER,
    help="A folder of classes to put before the jars: a Kafka with a patch.",
)


def class_path(jars: Path | None, classes: Path | None = None) -> str:
    """As the JVM takes it. Raises `NoMavenError` where Maven is to bring the jars, and is not."""
    patched = [str(classes.resolve())] if classes else []
    return os.pathsep.join([*patched, f"{(jars or maven_jars()).resolve()}/*"])


def with_test_jars(classpath: str) -> str:
    """A class path with Kafka's test jars that LocalTieredStorage is in; a folder of jars that has
    them is left as it is."""
    folders = [Path(one).parent for one in classpath.split(os.pathsep) if one.endswith("*")]
    if any(one for folder in folders for one in folder.glob("kafka-storage-*test.jar")):
        return classpath
    tests = CACHE / "test-jars"
    for name in ("kafka-storage", "kafka-clients"):
        if not (tests / f"{name}-{KAFKA}-test.jar").exists():
            fetched(tests, f"org.apache.kafka:{name}:{KAFKA}:jar:test")
    return os.pathsep.join([classpath, f"{tests.resolve()}/*"])


def fetched(folder: Path, *artifacts: str) -> None:
    """Let Maven copy these artifacts into a folder. Raises `NoMavenError`."""
    folder = folder.resolve()
    pom = folder / "pom.xml"
    folder.mkdir(parents=True, exist_ok=True)
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        "<groupId>highwater</groupId><artifactId>fixes</artifactId><version>1</version></project>"
    )
    for one in artifacts:
        maven("-f", pom, "dependency:copy", f"-Dartifact={one}", f"-DoutputDirectory={folder}")
