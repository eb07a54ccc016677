"""The errors that clients ask again after are those of Kafka's own list."""

import json

from kio.schema.errors import ErrorCode

from chaos.real.kafka.judge import Judge


def test_errors_are_final_or_retriable_as_in_kafka(judge: Judge) -> None:
    answer = judge.run("Retriable")
    assert answer.status == 0, answer.complaints
    kafka = json.loads(answer.out)
    assert {one.name.upper(): one.retriable for one in ErrorCode} == kafka
