"""Every class and method that docs/kafka-diff.md names stands in Kafka's sources at the line that
its link says."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from chaos.real.kafka.judge import CACHE, maven
from docs import kafka_lines

RELEASED = {
    kafka_lines.RELEASE: tuple(kafka_lines.ROOMS),
    kafka_lines.ON_ZOOKEEPER: ("kafka_2.13",),
}


@pytest.fixture(scope="module")
def sources() -> Path:
    """The released sources, fetched once and unpacked."""
    folder = CACHE / "sources"
    for release, artifacts in RELEASED.items():
        for artifact in artifacts:
            _unpacked(folder, release, artifact)
    return folder


def _unpacked(folder: Path, release: str, artifact: str) -> None:
    target = folder / release / artifact
    if target.is_dir():
        return
    named = f"org.apache.kafka:{artifact}:{release}:jar:sources"
    maven("dependency:copy", f"-Dartifact={named}", f"-DoutputDirectory={folder}")
    with ZipFile(folder / f"{artifact}-{release}-sources.jar") as jar:
        jar.extractall(target)


def test_every_link_is_the_line_of_its_symbol(sources: Path) -> None:
    page = kafka_lines.PAGE.read_text(encoding="utf-8")
    found = kafka_lines.links(page, sources)
    assert len(found) > 100
    assert found == kafka_lines.defined(page)


def test_a_symbol_that_kafka_does_not_have_is_named(sources: Path) -> None:
    with pytest.raises(LookupError, match=r"has no Partition\.expandIsr"):
        kafka_lines.address("Partition.expandIsr", kafka_lines.RELEASE, sources)


def test_the_page_is_written_by_the_same_rule(sources: Path) -> None:
    command = [sys.executable, kafka_lines.__file__, "--check", str(sources)]
    assert subprocess.run(command, check=False).returncode == 0
