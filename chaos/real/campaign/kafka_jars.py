"""The jars of a release of Apache Kafka, by Maven."""

import re
from pathlib import Path

from chaos.real.kafka import judge
from chaos.real.kafka.judge import CACHE, jars

POM = Path(judge.__file__).with_name("pom.xml")
_VERSION = re.compile(r"(?<=<kafka\.version>)[^<]+(?=</kafka\.version>)")
_RELEASE = re.compile(r"\d+\.\d+\.\d+")


class UnknownReleaseError(ValueError):
    """A name that no release of Kafka has."""


def jars_of(version: str) -> Path:
    """The folder of a release's jars, fetched once. Raises `NoMavenError`."""
    if _RELEASE.fullmatch(version) is None:
        raise UnknownReleaseError(f"expected a release such as 4.3.1, found {version!r}")
    pom = POM.read_text(encoding="utf-8")
    if _VERSION.search(pom)[0] == version:  # type: ignore[index]
        return jars()
    other = CACHE / f"pom-{version}.xml"
    other.parent.mkdir(parents=True, exist_ok=True)
    other.write_text(_VERSION.sub(version, pom), encoding="utf-8")
    return jars(other, f"jars-{version}")
