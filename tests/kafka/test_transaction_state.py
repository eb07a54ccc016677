"""A broker takes over the state log and the records that another has written: Kafka ours, we its.

Ids, epochs and open transactions go on: a known producer id gets its next epoch, its last instance
is fenced, and an open transaction is aborted.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from chaos.real.kafka.judge import Judge, KafkaBroker
from tests.kafka.clients import create_topics, read_all
from tests.kafka.test_transaction_tools import SECONDS, SETTINGS, STATE, Kafkas, Ours, Server, begin
from tests.wire.client import Client

TOPIC = "moved"
OF_PARTITION = "partition.metadata"


def described(address: str, *ids: str) -> list[tuple[str, int, int]]:
    """State, producer id and epoch of each transactional id."""
    with Client.connect(int(address.rpartition(":")[2])) as client:
        states = client.ask("DescribeTransactions", 0, {"transactional_ids": ids})
    of = {one["transactional_id"]: one for one in states["transaction_states"]}
    names = ("transaction_state", "producer_id", "producer_epoch")
    return [tuple(of[one][name] for name in names) for one in ids]  # type: ignore[misc]


def end(address: str, transactional_id: str, producer_id: int, epoch: int) -> str:
    """The answer to an instance that commits under this identity."""
    asked: dict[str, Any] = {"transactional_id": transactional_id, "producer_id": producer_id}
    with Client.connect(int(address.rpartition(":")[2])) as client:
        answer = client.ask("EndTxn", 3, {**asked, "producer_epoch": epoch, "committed": True})
    return answer["error_code"]


def wait_until_complete(address: str, *ids: str) -> None:
    """Until all markers are written: a client is told before they are."""
    until = time.monotonic() + SECONDS
    while {state for state, _, _ in described(address, *ids)} != {"CompleteCommit"}:
        assert time.monotonic() < until


def transplant(source: Server, target: Server) -> None:
    """Put the files of one server's logs under the ids of the other's topics."""
    for name in (STATE, f"{TOPIC}-0"):
        old, new = (one.state().parent / name for one in (source, target))
        topic_id = (new / OF_PARTITION).read_bytes()
        shutil.rmtree(new)
        shutil.copytree(old, new)
        (new / OF_PARTITION).write_bytes(topic_id)


@pytest.mark.parametrize("ours_first", [True, False], ids=["Kafka on ours", "we on Kafka's"])
def test_transactions_go_on_where_another_broker_has_left_them(
    judge: Judge, tmp_path: Path, ours_first: bool
) -> None:
    folders = [tmp_path / "kafka", tmp_path / "ours"]
    for folder in folders:
        folder.mkdir()
    broker = KafkaBroker(folders[0], settings=SETTINGS)
    broker.format(judge)
    both: list[Server] = [Kafkas(broker), Ours(folders[1])]
    target, source = both if ours_first else both[::-1]
    with source.running() as address:
        create_topics(address, {TOPIC: {}})
        begin(address, "known", TOPIC).commit_transaction(SECONDS)
        begin(address, "open", TOPIC)
        wait_until_complete(address, "known")
        left = described(address, "known", "open")
    assert left[1][0] == "Ongoing"
    with target.running() as address:
        create_topics(address, {TOPIC: {}})
        begin(address, "other", TOPIC).commit_transaction(SECONDS)
    transplant(source, target)
    with target.running() as address:
        for (_, producer_id, epoch), name in zip(left, ("known", "open"), strict=True):
            producer = begin(address, name, TOPIC)
            [(state, same_id, later)] = described(address, name)
            assert (state, same_id) == ("Ongoing", producer_id)
            assert later > epoch
            assert end(address, name, producer_id, epoch) == "PRODUCER_FENCED"
            producer.commit_transaction(SECONDS)
        wait_until_complete(address, "known", "open")
        offsets = [one.offset for one in read_all(address, TOPIC)]
        committed = [one.offset for one in read_all(address, TOPIC, committed=True)]
    assert len(offsets) == 4, "one record of each transaction"
    assert committed == [offsets[0], *offsets[2:]], "all but that of the open one"
