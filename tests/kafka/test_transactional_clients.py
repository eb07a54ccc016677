"""Our transactional producers on real Kafka: the tests of our own brokers, there."""

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.kafka.clients import create_topics
from tests.refimpl.edge.clients import test_transactional as ours
from tests.refimpl.edge.clients.test_transactional import Where

test_a_loop = ours.test_a_loop_has_the_same_calls
test_fencing = ours.test_a_newer_producer_fences_the_older_one
test_close = ours.test_an_open_transaction_is_aborted_by_close
test_order_of_calls = ours.test_calls_out_of_their_order_are_refused
test_ends = ours.test_committed_records_are_seen_and_aborted_ones_are_not
test_generations = ours.test_offsets_of_an_older_generation_can_only_be_aborted
test_read_process_write = ours.test_read_process_write_counts_each_record_once
test_dropped = ours.test_what_was_not_sent_is_dropped_by_an_abort


@pytest.fixture(scope="module")
def broker(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("broker"))
    broker.settings["group.initial.rebalance.delay.ms"] = "0"
    broker.format(judge)
    with broker.running():
        yield broker


@pytest.fixture
def where(broker: KafkaBroker, request: pytest.FixtureRequest) -> Where:
    """Topics of one test, on the broker of all."""
    test = cast("Any", request).node
    name = re.sub(r"\W", "-", test.name)
    where = Where(broker.address, name)
    create_topics(broker.address, {where.source: {}}, partitions=2)
    create_topics(broker.address, {where.out: {}}, partitions=3)
    return where
