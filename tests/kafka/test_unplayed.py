"""An example that cannot be played says so by its exit code: 1 is what Kafka did."""

from pathlib import Path

import pytest

from tests.kafka.played import NOT_PLAYED, ROOT, python

EXAMPLES = sorted(one.parent.name for one in (ROOT / "examples").glob("kafka-*/__main__.py"))
WITHOUT_RUN = {
    "kafka-downgrade-forgotten",
    "kafka-elr-cleared",
    "kafka-load-overtaken",
    "kafka-reassignment-stuck",
}
WITHOUT_JARS = {"kafka-classic-left-alone"}


@pytest.mark.parametrize("name", [one for one in EXAMPLES if one not in WITHOUT_JARS])
def test_jars_that_hold_no_kafka_are_not_its_fault(name: str, tmp_path: Path) -> None:
    empty = tmp_path / "jars"
    empty.mkdir()
    run = [] if name in WITHOUT_RUN else [tmp_path / "run"]
    played = python(f"examples/{name}", *run, "--jars", empty)
    assert played.returncode == NOT_PLAYED, played.stdout + played.stderr
    assert "the scenario could not be played" in played.stderr
    assert "Traceback" not in played.stderr
