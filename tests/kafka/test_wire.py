"""The recorded answers of real Kafka are still what it answers.

`HIGHWATER_RECORD=1 make test-kafka ARGS="-k recorded"` records them anew.
"""

import os
from pathlib import Path

import pytest

from tests.kafka.judge import Broker, Judge
from tests.wire.recording import differences, keep, kept, record
from tests.wire.scripts import SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_kafka_answers_what_was_recorded(script: str, judge: Judge, tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.format(judge)
    with broker.running():
        steps = record(script, broker.port, lagging=True)
    if os.environ.get("HIGHWATER_RECORD"):
        keep(script, steps)
    assert list(differences(kept(script), steps)) == []
