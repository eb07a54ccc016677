"""The recorded answers of real Kafka to generated requests are still what it answers.

`HIGHWATER_RECORD=1 make test-kafka ARGS="-k generated_requests"` records them anew;
`HIGHWATER_APIS=Fetch,Produce` asks about these alone.
"""

import os
from collections.abc import Iterator

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.api.table import APIS
from tests.wire.generated import BROKER, chunks, keep, kept, warm

NAMES = os.environ.get("HIGHWATER_APIS", ",".join(api.name for api in APIS.values())).split(",")


@pytest.fixture(scope="module")
def port(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), BROKER)
    broker.format(judge)
    with broker.running():
        warm(broker.port)
        yield broker.port


@pytest.mark.parametrize("name", NAMES)
def test_kafka_answers_generated_requests_as_recorded(name: str, port: int) -> None:
    answers = {one.id: one.answers() for one in chunks(port, name)}
    if os.environ.get("HIGHWATER_RECORD"):
        keep(name, answers)
    assert kept(name) == answers
