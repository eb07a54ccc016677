"""Suspicions about Kafka's transactions that one broker decides: the same requests to both.

docs/kafka-diff.md tells what became of each, and of those that are argued from the code.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from attrs import define

from chaos.real.kafka.judge import Judge, KafkaBroker
from refimpl.api.produce import ADMIN_CLIENT
from refimpl.records.coordinators import (
    TRANSACTIONS_TOPIC,
    CoordinatorRecord,
    TransactionLogKey,
    write_record,
)
from refimpl.storage.format.batch import encode_batch
from refimpl.storage.format.record import Record
from refimpl.transactions.log_records import KIND
from tests.kafka.clients import read_all
from tests.kafka.test_transaction_tools import SECONDS, SETTINGS, Kafkas, Ours, Server
from tests.wire.asking import NOW, TIMEOUT, create, topic
from tests.wire.client import Client

KAFKA, OURS = "kafka", "ours"
LATER = {
    *("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
    *(
        "NOT_COORDINATOR",
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_ENOUGH_REPLICAS",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
}
NO_ANSWER_S = 4.0
Told = dict[str, Any]


class At(NamedTuple):
    """The id and epoch of a producer."""

    producer_id: int
    producer_epoch: int


@define
class Asking:
    """Requests to one broker, about one transactional id after the other."""

    port: int
    address: str
    client: Client

    def ask(self, api: str, version: int, **values: Any) -> dict[str, Any]:
        return self.client.ask(api, version, values)

    def init(self, name: str, at: At | None = None, *, patient: bool = True) -> Any:
        """The identity that an instance is given, or the error."""
        own = at._asdict() if at else {"producer_id": -1, "producer_epoch": -1}
        asked = {"transactional_id": name, "transaction_timeout": 600_000, **own}
        answer = until(lambda: self.ask("InitProducerId", 4, **asked), patient)
        error = answer["error_code"]
        return At(answer["producer_id"], answer["producer_epoch"]) if error == "NONE" else error

    def add(self, name: str, at: At, where: str, *partitions: int) -> str:
        """AddPartitionsToTxn: the error of the first partition."""
        topics = [{"name": where, "partitions": list(partitions)}]
        asked = {"transactional_id": name, **at._asdict(), "topics": topics}
        asked = {f"v3_and_below_{key}": value for key, value in asked.items()}

        def answer() -> dict[str, Any]:
            found = self.ask("AddPartitionsToTxn", 3, **asked)
            first = found["results_by_topic_v3_and_below"][0]["results_by_partition"][0]
            return {"error_code": first["partition_error_code"]}

        return until(answer)["error_code"]

    def write(
        self, name: str, at: At, where: str, value: bytes, sequence: int = 0, partition: int = 0
    ) -> str:
        """One record within the transaction, as a client of transaction version 1 does."""
        records = encode_batch(
            [Record(0, NOW, None, value)],
            base_offset=0,
            **at._asdict(),
            base_sequence=sequence,
            transactional=True,
        )
        parts = [{"index": partition, "records": records}]
        asked = {"transactional_id": name, "acks": -1, "timeout": TIMEOUT}
        data = [{"name": where, "partition_data": parts}]

        def answer() -> dict[str, Any]:
            found = self.ask("Produce", 11, **asked, topic_data=data)
            return found["responses"][0]["partition_responses"][0]

        return until(answer)["error_code"]

    def end(
        self, name: str, at: At, *, committed: bool, version: int = 3, patient: bool = True
    ) -> dict[str, Any]:
        """EndTxn, of version 5 as clients of transaction version 2 ask."""
        asked = {"transactional_id": name, **at._asdict(), "committed": committed}
        return until(lambda: self.ask("EndTxn", version, **asked), patient)

    def begun(self, name: str, where: str, *partitions: int) -> At:
        """An instance with an open transaction, and a record in each of these partitions."""
        at = self.init(name)
        assert self.add(name, at, where, *partitions) == "NONE"
        for one in partitions:
            assert self.write(name, at, where, b"A", partition=one) == "NONE"
        return at

    def state(self, name: str) -> str:
        """The state of a transaction as it is listed, or the error."""
        found = self.ask("ListTransactions", 0, state_filters=[], producer_id_filters=[])
        states = {
            one["transactional_id"]: one["transaction_state"] for one in found["transaction_states"]
        }
        return (
            states.get(name, "not listed") if found["error_code"] == "NONE" else found["error_code"]
        )

    def completes(self, name: str) -> None:
        """Wait until all markers are written."""
        until(lambda: _later("Complete" not in self.state(name)))

    def marked(
        self, markers: list[tuple[At, bool, dict[str, list[int]]]], epoch: int = 0
    ) -> dict[str, Any]:
        """WriteTxnMarkers, on a connection of its own that waits for a while."""
        asked = [
            {
                **at._asdict(),
                "transaction_result": committed,
                "topics": [{"name": one, "partition_indexes": of} for one, of in topics.items()],
                "coordinator_epoch": epoch,
            }
            for at, committed, topics in markers
        ]
        with Client.connect(self.port) as client:
            client.connection.settimeout(NO_ANSWER_S)
            return client.ask("WriteTxnMarkers", 1, {"markers": asked})

    def committed(self, where: str) -> list[bytes | None]:
        return [one.value for one in read_all(self.address, where, committed=True)]


def _later(is_early: bool) -> dict[str, Any]:
    return {"error_code": "CONCURRENT_TRANSACTIONS" if is_early else "NONE"}


def until(answer: Callable[[], dict[str, Any]], patient: bool = True) -> dict[str, Any]:
    """The first answer that does not say that it comes too early, or the last one."""
    ends = time.monotonic() + (SECONDS if patient else NO_ANSWER_S)
    while (found := answer())["error_code"] in LATER and time.monotonic() < ends:
        time.sleep(0.05)
    return found


def at_first(asking: Asking) -> Told:
    """All plays, as far as they go without a restart."""
    names = ("parts", "anew", "here", "revived", "late", "torn")
    create(asking.ask, *(topic(name, 2) for name in names))
    asking.ask("FindCoordinator", 4, key_type=1, coordinator_keys=["any"])
    told = _late_marker(asking) | _made_anew(asking) | _answers(asking) | _revived(asking)
    return told | _given_up(asking) | _asked_again(asking)


def _late_marker(asking: Asking) -> Told:
    at = asking.begun("late", "late", 0)
    asking.end("late", at, committed=True)
    asking.completes("late")
    producers = asking.ask(
        "DescribeProducers", 0, topics=[{"name": "late", "partition_indexes": [0]}]
    )
    [one] = producers["topics"][0]["partitions"][0]["active_producers"]
    assert asking.add("late", at, "late", 0) == "NONE"
    assert asking.write("late", at, "late", b"B", 1) == "NONE"
    asking.marked([(at, True, {"late": [0]})], one["coordinator_epoch"])
    aborted = asking.end("late", at, committed=False)["error_code"]
    asking.completes("late")
    return {"late": (aborted, asking.committed("late"))}


def _made_anew(asking: Asking) -> Told:
    at = asking.begun("anew", "anew", 0)
    asking.ask("DeleteTopics", 5, topic_names=["anew"], timeout=TIMEOUT)
    until(lambda: _later(create(asking.ask, topic("anew"))["topics"][0]["error_code"] != "NONE"))
    written = asking.write("anew", at, "anew", b"B")
    ended = asking.end("anew", at, committed=True)["error_code"]
    asking.completes("anew")
    return {"anew": (written, ended, asking.committed("anew"))}


def _answers(asking: Asking) -> Told:
    """WriteTxnMarkers of two producers: a partition that is here, and one that is not."""
    here, gone = {"here": [0]}, {"gone": [0]}
    asking.marked([(At(91_001, 0), True, gone), (At(91_002, 0), True, here)])
    try:
        asking.marked([(At(91_003, 0), True, here), (At(91_004, 0), True, gone)])
    except TimeoutError:
        return {"answered": False}
    return {"answered": True}


def _revived(asking: Asking) -> Told:
    at = asking.begun("revived", "revived", 0)
    fenced = asking.ask(
        "InitProducerId",
        4,
        transactional_id="revived",
        transaction_timeout=600_000,
        producer_id=-1,
        producer_epoch=-1,
    )["error_code"]
    asking.completes("revived")
    answer = asking.end("revived", at, committed=False, version=5)
    if answer["error_code"] != "NONE":
        return {"revived": (fenced, answer["error_code"])}
    again = At(answer["producer_id"], answer["producer_epoch"])
    return {"revived": (fenced, "NONE", asking.add("revived", again, "revived", 1))}


def _given_up(asking: Asking) -> Told:
    """One of two partitions has a later epoch of the producer, so it refuses the marker."""
    at = asking.begun("parts", "parts", 0, 1)
    later = At(at.producer_id, at.producer_epoch + 5)
    asking.marked([(later, False, {"parts": [0]})])
    ended = asking.end("parts", at, committed=True)["error_code"]
    return {"parts": [ended, _state_in_the_end(asking, "parts")]}


def _state_in_the_end(asking: Asking, name: str) -> str:
    """The state of a decided transaction once an instance has asked for its epoch for a while."""
    asking.init(name, patient=False)
    return asking.state(name)


def _asked_again(asking: Asking) -> Told:
    """The answer to InitProducerId is lost, so it is asked again."""
    at = asking.init("again")
    given = asking.init("again", at)
    assert asking.init("again", at) == given == At(at.producer_id, at.producer_epoch + 1)
    return {"at": at}


def after_a_restart(asking: Asking, told: Told) -> None:
    """The same producer asks once more, and the markers are sent again. Then the log is torn."""
    told["parts"].append(_state_in_the_end(asking, "parts"))
    given = asking.init("again", told["at"])
    told["again"] = given if isinstance(given, str) else given.producer_epoch
    asking.init("known")
    _tear(asking)
    told["at"] = asking.begun("torn", "torn", 0)


def _tear(asking: Asking) -> None:
    """Append a record to the coordinator's log that ends too early, as an administrator."""
    key = write_record(CoordinatorRecord(KIND, TransactionLogKey("nobody")))[0]
    records = encode_batch([Record(0, NOW, key, b"\0\0torn")], base_offset=0)
    data = {"name": TRANSACTIONS_TOPIC, "partition_data": [{"index": 0, "records": records}]}
    asked = {"acks": -1, "timeout": TIMEOUT, "topic_data": [data]}
    with Client.connect(asking.port, ADMIN_CLIENT) as client:
        answer = client.ask("Produce", 9, asked)
    assert answer["responses"][0]["partition_responses"][0]["error_code"] == "NONE"


def after_another(asking: Asking, told: Told) -> None:
    """Ids before and behind the torn record, the open transaction, and a second instance."""
    at, later = told["at"], asking.init("torn", patient=False)
    anew = isinstance(later, At) and later.producer_id != at.producer_id
    told["torn"] = {
        "before": asking.state("known"),
        "behind": "another producer id" if anew else later,
        "old instance writes": asking.write("torn", at, "torn", b"B", 1),
        "old instance commits": asking.end("torn", at, committed=True, patient=False)["error_code"],
    }


@pytest.fixture(scope="module")
def told(judge: Judge, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The answer that both give."""
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), settings=SETTINGS)
    broker.format(judge)
    servers = {KAFKA: Kafkas(broker), OURS: Ours(tmp_path_factory.mktemp("ours"))}
    return {name: played(server) for name, server in servers.items()}


def played(server: Server) -> Told:
    """All plays on one server, with two restarts."""
    with _asking(server) as asking:
        found = at_first(asking)
    for then in (after_a_restart, after_another):
        with _asking(server) as asking:
            then(asking, found)
    return found


@contextmanager
def _asking(server: Server) -> Generator[Asking]:
    with server.running() as address:
        port = int(address.rpartition(":")[2])
        with Client.connect(port) as client:
            yield Asking(port, address, client)


def test_a_load_that_fails_serves_a_prefix_in_kafka_and_nothing_here(told: dict[str, Told]) -> None:
    """There the id behind it is new: nobody fences its last instance, nor ends its transaction."""
    assert told[KAFKA]["torn"] == {
        "before": "Empty",
        "behind": "another producer id",
        "old instance writes": "NONE",
        "old instance commits": "INVALID_PRODUCER_ID_MAPPING",
    }
    assert told[OURS]["torn"] == {
        "before": "not listed",
        "behind": "NOT_COORDINATOR",
        "old instance writes": "NONE",
        "old instance commits": "NOT_COORDINATOR",
    }


def test_a_refused_marker_keeps_a_transaction_for_ever_in_kafka_alone(
    told: dict[str, Told],
) -> None:
    assert told[KAFKA]["parts"] == ["NONE", "PrepareCommit", "PrepareCommit"]
    assert told[OURS]["parts"] == ["NONE", "Empty", "Empty"]


def test_who_asks_again_behind_a_failover_is_fenced_in_kafka_alone(told: dict[str, Told]) -> None:
    assert told[KAFKA]["again"] == "PRODUCER_FENCED"
    assert told[OURS]["again"] == 1


def test_a_topic_made_anew_within_a_transaction_is_the_same_to_both(told: dict[str, Told]) -> None:
    assert told[KAFKA]["anew"] == told[OURS]["anew"] == ("NONE", "NONE", [b"B"])


def test_two_markers_of_which_one_is_written_at_once_are_not_answered_by_kafka(
    told: dict[str, Told],
) -> None:
    assert not told[KAFKA]["answered"]
    assert told[OURS]["answered"]


def test_a_fenced_instance_is_revived_by_its_own_abort_in_kafka_alone(
    told: dict[str, Told],
) -> None:
    assert told[KAFKA]["revived"] == ("CONCURRENT_TRANSACTIONS", "NONE", "NONE")
    assert told[OURS]["revived"] == ("CONCURRENT_TRANSACTIONS", "PRODUCER_FENCED")


def test_a_late_marker_of_version_1_ends_the_next_transaction_of_both(
    told: dict[str, Told],
) -> None:
    """B was aborted, so its client was told."""
    assert told[KAFKA]["late"] == told[OURS]["late"] == ("NONE", [b"A", b"B"])
