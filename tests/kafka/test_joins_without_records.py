"""Kafka takes a replica with an empty log into the ISR that lacks acknowledged records.

The finding: docs/findings/kafka-joins-without-records.md.
"""

from pathlib import Path

import pytest

from tests.kafka import played

NAME = "kafka-joins-without-records"
#: How many records are acknowledged before the unclean election.
OLD = 10


def lost(run: Path) -> list[int]:
    """The offsets that were acknowledged after the unclean election and are gone."""
    kept = {one["id"] for line in played.lines(run, "scan-ru#0") for one in line.get("records", [])}
    new = [one for line in played.sends(run)[OLD:] for one in line["records"]]
    return [one["offset"] for one in new if one["id"] not in kept]


@pytest.mark.parametrize(
    ("flags", "offsets"), [((), [5, 6, 7, 8, 9]), (("--ends-before",), [5, 6, 7])], ids=str
)
def test_a_clean_election_loses_what_an_unclean_one_had_left(
    flags: tuple[str, ...], offsets: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run = played.shown(NAME, NAME, tmp_path_factory, *flags)
    assert {line["outcome"] for line in played.sends(run)} == {"ok"}
    assert lost(run) == offsets
    judged = played.judged(run)
    assert {judged[id]["verdict"] for id in ("L1", "L9")} == {"allowed"}
    assert not [id for id, one in judged.items() if one["verdict"] == "violated"]


def test_nothing_is_lost_where_logs_can_be_compared(tmp_path: Path) -> None:
    run = played.assert_that_the_control_holds(NAME, tmp_path, "--keep-records")
    assert lost(run) == []
