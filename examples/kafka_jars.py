"""Which Kafka an example starts: the jars of a release, and classes that stand before them."""

import os
from pathlib import Path

import click

from chaos.real.kafka.judge import jars as maven_jars

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
