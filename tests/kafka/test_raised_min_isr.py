"""Kafka loses an acknowledged record when min.insync.replicas is raised while the ISR shrinks.

The finding: docs/findings/kafka-raised-min-isr.md.
"""

from pathlib import Path

import orjson
import pytest

from tests.kafka import played

NAME = "kafka-raised-min-isr"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return played.shown(NAME, NAME, tmp_path_factory)


def test_the_check_finds_the_record_that_was_lost(run: Path) -> None:
    played.assert_that_the_check_finds_b(run)


def test_the_minimum_was_confirmed_before_the_record_was_acknowledged(run: Path) -> None:
    faults = orjson.loads((run / "meta.json").read_bytes())["faults"]
    (at_ns,) = [one["at_ns"] for one in faults if one["what"].startswith("the controller has")]
    b, _ = played.sends(run)[-2:]
    assert at_ns < b["returned_ns"]


def test_what_was_promised_could_have_been_kept(run: Path) -> None:
    played.assert_that_it_was_promised(run, "raised-min-isr", killed="SIGTERM broker 1")


def test_the_record_survives_where_the_leader_reads_of_the_change_in_time(tmp_path: Path) -> None:
    played.assert_that_the_control_holds(NAME, tmp_path, "--metadata-in-time")
