"""Kafka deletes local segments that the remote tier has not.

The findings: docs/findings/kafka-tiered-again.md and kafka-tiered-other-lineage.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

AGAIN, LINEAGE = "kafka-tiered-again", "kafka-tiered-other-lineage"
CONTROLS = {AGAIN: "--first-time", LINEAGE: "--restarted"}


def scanned(run: Path) -> set[int]:
    """The ids of the records that the final scan has read."""
    lines = played.lines(run, "scan-ru#0")
    return {one["id"] for line in lines for one in line.get("records", [])}


def sent(run: Path) -> list[int]:
    """The ids of all records; every one was acknowledged."""
    lines = played.sends(run)
    assert {line["outcome"] for line in lines} == {"ok"}
    return [one["id"] for line in lines for one in line["records"]]


@pytest.mark.parametrize("flags", [(), ("--restarted",)], ids=str)
def test_a_consumer_does_not_get_past_what_is_gone(
    flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = played.shown(AGAIN, AGAIN, tmp_path_factory, *flags)
    assert len(sent(run)) == 60
    assert scanned(run) == set()
    described = played.meta(run)
    assert described["complete"] is False
    assert described["topics"]["tiered"]["replication_factor"] == 3
    assert described["topics"]["tiered"]["min_insync_replicas"] == 2


def test_a_clean_election_loses_what_was_acknowledged_after_an_unclean_one(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = played.shown(LINEAGE, LINEAGE, tmp_path_factory)
    new = sent(run)[60:]
    assert len(new) == 60
    assert len({*new} - scanned(run)) > 10


@pytest.mark.parametrize("name", CONTROLS)
def test_the_control_keeps_every_record(name: str, tmp_path: Path) -> None:
    run = played.assert_that_the_control_holds(name, tmp_path, CONTROLS[name])
    assert {*sent(run)[-60:]} <= scanned(run)
    assert played.meta(run)["complete"] is True
