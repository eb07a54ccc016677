"""The recorded answers of real Kafka are still what it answers.

`HIGHWATER_RECORD=1 make test-kafka ARGS="-k recorded"` records them anew.
"""

import os
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.cluster import cluster
from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.wire.recording import differences, keep, kept, record
from tests.wire.scripts import OF_THREE, SCRIPTS
from tests.wire.telemetry_scripts import SETTINGS


@pytest.mark.parametrize("script", SCRIPTS)
def test_kafka_answers_what_was_recorded(script: str, judge: Judge, tmp_path: Path) -> None:
    broker = KafkaBroker(tmp_path, SETTINGS.get(script, {}))
    broker.format(judge)
    with broker.running():
        steps = record(script, broker.port, lagging=True)
    compare(script, steps)


@pytest.mark.parametrize("script", OF_THREE)
def test_three_brokers_of_kafka_answer_what_was_recorded(
    script: str, judge: Judge, tmp_path: Path
) -> None:
    with cluster(tmp_path, judge) as brokers:
        compare(script, record(script, brokers.nodes[1].port, lagging=True))


def compare(script: str, steps: list[dict[str, Any]]) -> None:
    if os.environ.get("HIGHWATER_RECORD"):
        keep(script, steps)
    assert list(differences(kept(script), steps)) == []
