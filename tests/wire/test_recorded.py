"""Our broker's answers to administrators beside those of Kafka, field by field."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import pytest

from refimpl.edge.testing.blocking import BlockingCluster
from tests.wire.differences import ROWS, Row
from tests.wire.recording import differences, kept, record
from tests.wire.scripts import OF_THREE, SCRIPTS
from tests.wire.telemetry_scripts import SETTINGS

# Kafka is given the same settings, of which some have no effect here.
pytestmark = pytest.mark.filterwarnings("ignore::refimpl.edge.NoEffectWarning")

#: As the recorded broker was configured
CONFIGS = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "1000",
}

Unexplained: TypeAlias = list[tuple[str, Mapping[str, Any], str, Any, Any]]


@pytest.fixture(scope="module")
def compared() -> tuple[Mapping[str, Unexplained], set[Row]]:
    """The differences that no row explains, by script; and the rows that explain some."""
    used: set[Row] = set()
    scripts = [*SCRIPTS, *OF_THREE]
    found = {script: unexplained(kept(script), answers(script), used) for script in scripts}
    return found, used


def answers(script: str) -> list[dict[str, Any]]:
    brokers, configs = (
        (3, {}) if script in OF_THREE else (1, {**CONFIGS, **SETTINGS.get(script, {})})
    )
    with BlockingCluster(brokers=brokers, configs=configs) as cluster:
        first, _, _ = cluster.bootstrap.partition(",")
        return record(script, int(first.rpartition(":")[2]))


def unexplained(
    steps: list[dict[str, Any]], ours: list[dict[str, Any]], used: set[Row]
) -> Unexplained:
    """The differences that no row of the table speaks of."""
    found: Unexplained = []
    for theirs, other in zip(steps, ours, strict=True):
        for path, kafkas, own in differences(theirs, other):
            rows = [row for row in ROWS if row.covers(theirs, path, kafkas, own)]
            used.update(rows)
            if not rows:
                name = f"{theirs['api']} v{theirs['version']}"
                found.append((name, theirs["asked"], path, kafkas, own))
    return found


@pytest.mark.parametrize("script", [*SCRIPTS, *OF_THREE])
def test_we_answer_as_kafka_does(
    script: str, compared: tuple[Mapping[str, Unexplained], set[Row]]
) -> None:
    found = compared[0][script]
    assert found == [], "\n".join(map(str, found))


def test_every_row_of_the_table_is_still_a_difference(
    compared: tuple[Mapping[str, Unexplained], set[Row]],
) -> None:
    assert [row.reason for row in ROWS if row not in compared[1]] == []
