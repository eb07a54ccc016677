"""confluent-kafka, recorded: what it says becomes what the trace says, and no more."""

import ctypes
from contextlib import suppress
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.record.clients import (
    Consumer,
    Line,
    Producer,
    committed_at,
    lines,
    message,
    ops,
    refused,
)
from traces.ingest.run import read_trace
from traces.record import HEADER, NotAClientError, recorded
from traces.record.cluster import Cluster
from traces.record.contents import contents
from traces.record.errors import commit_outcome
from traces.record.meta import merged, write

SAFE = {"acks": "all", "enable.idempotence": True}
GROUP = {"group.id": "g", "isolation.level": "read_uncommitted", "enable.auto.commit": False}


def send_one(run: Path, conf: dict[str, Any], client: Producer) -> Line:
    producer = recorded(client, run, conf)
    producer.produce("t", b"v", key=b"k")
    producer.poll(0)
    producer.close()
    return lines(run, "producer#0")[0]


def librdkafka() -> Any:
    """The C library of the package, which can be told to fail."""
    package = Path(confluent_kafka.__file__).parent
    found = [*package.parent.glob("confluent_kafka.libs/librdkafka*"), *package.glob(".dylibs/*")]
    if not found:
        pytest.skip("the C library is not in the package")
    library = ctypes.CDLL(str(found[0]))
    library.rd_kafka_test_fatal_error.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p]
    return library


@pytest.mark.parametrize("hears", [False, True])
def test_a_fatal_error_is_raised_as_the_library_does(tmp_path: Path, hears: bool) -> None:
    """Reports of failed messages come while the fatal error is pending in the interpreter."""
    library, heard = librdkafka(), list[str]()

    def report(error: Any, _message: Any) -> None:
        heard.append(error.name())

    quiet = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "linger.ms": 10_000}
    client = confluent_kafka.Producer(quiet | SAFE)
    producer = recorded(client, tmp_path)
    for _ in range(2):
        producer.produce("t", b"v", on_delivery=report if hears else None)
    handle = ctypes.c_void_p.from_address(id(client) + object.__basicsize__).value
    fatal: int = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    library.rd_kafka_test_fatal_error(handle, fatal, b"on purpose")
    with pytest.raises(KafkaException, match="on purpose") as raised:
        producer.flush(5)
    assert raised.value.args[0].fatal()
    producer.flush(5)
    with suppress(KafkaException):
        producer.close()
    sends = [line for line in lines(tmp_path, "producer#0") if line["op"] == "send"]
    assert [(line["outcome"], line["error"]) for line in sends] == [("info", "_PURGE_QUEUE")] * 2
    assert heard == (["_PURGE_QUEUE"] * 2 if hears else [])


def test_a_send_is_recorded_from_its_call_to_its_report(tmp_path: Path) -> None:
    send = send_one(tmp_path, SAFE, Producer())
    assert send["outcome"] == "ok"
    assert send["invoked_ns"] < send["returned_ns"]
    record = send["records"][0]
    assert {**record, "id": 0} == {
        "topic": "t",
        "id": 0,
        "key": "k",
        "chosen": False,
        "partition": 0,
        "offset": 0,
        "timestamp": 77,
    }


@pytest.mark.parametrize(
    ("error", "retries", "outcome"),
    [
        (KafkaError._MSG_TIMED_OUT, 0, "info"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError._TRANSPORT, 0, "info"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError._PURGE_QUEUE, 0, "info"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError._PURGE_INFLIGHT, 0, "info"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError.REQUEST_TIMED_OUT, 0, "info"),
        (KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 0, "info"),
        (KafkaError.NOT_ENOUGH_REPLICAS, 0, "fail"),
        (KafkaError.NOT_ENOUGH_REPLICAS, 5, "info"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, 0, "fail"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, None, "info"),
        (KafkaError.MSG_SIZE_TOO_LARGE, 5, "fail"),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, 0, "info"),
    ],
)
def test_a_report_of_an_error_fails_only_what_cannot_have_been_stored(
    tmp_path: Path, error: int, retries: int | None, outcome: str
) -> None:
    conf = None if retries is None else {"acks": "all", "retries": retries}
    client = Producer(fate=error)
    producer = recorded(client, tmp_path, conf)
    producer.produce("t", b"v")
    producer.flush()
    producer.close()
    send = lines(tmp_path, "producer#0")[0]
    assert send["outcome"] == outcome
    assert "offset" not in send["records"][0]


def test_errors_bear_kafkas_names(tmp_path: Path) -> None:
    send = send_one(tmp_path, SAFE, Producer(fate=KafkaError.MSG_SIZE_TOO_LARGE))
    assert send["error"] == "MESSAGE_TOO_LARGE"


def test_a_full_queue_is_a_certain_no_and_the_application_hears_of_it(tmp_path: Path) -> None:
    producer = recorded(Producer(refusal=BufferError("Local: Queue full")), tmp_path, SAFE)
    with pytest.raises(BufferError):
        producer.produce("t", b"v")
    producer.close()
    send = lines(tmp_path, "producer#0")[0]
    assert (send["outcome"], send["error"]) == ("fail", "_QUEUE_FULL")


def test_with_acks_0_nobody_knows(tmp_path: Path) -> None:
    client = Producer()
    client._offset = -1001  # pyright: ignore[reportPrivateUsage]
    assert send_one(tmp_path, {"acks": "0"}, client)["outcome"] == "info"


def test_the_users_own_report_is_called(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []

    def of_conf(_error: Any, message: Any) -> None:
        heard.append(("conf", message.offset()))

    def of_call(_error: Any, message: Any) -> None:
        heard.append(("call", message.offset()))

    producer = recorded(Producer, tmp_path, {**SAFE, "on_delivery": of_conf})
    producer.produce("t", b"v")
    producer.produce("t", b"v", callback=of_call)
    producer.close()
    assert heard == [("conf", 0), ("call", 1)]


def test_an_id_travels_in_a_header_from_the_producer_to_the_consumer(tmp_path: Path) -> None:
    client = Producer()
    producer = recorded(client, tmp_path, SAFE)
    for headers in (None, [("a", b"1")], {"b": b"2"}):
        producer.produce("t", b"v", headers=headers)
    producer.close()
    sent = [headers for _, _, _, headers in client.sent]
    assert [[name for name, _ in headers] for headers in sent] == [
        [HEADER],
        ["a", HEADER],
        ["b", HEADER],
    ]
    script = [[message(n, headers) for n, headers in enumerate(sent)]]
    consumer = recorded(Consumer(script=script), tmp_path, GROUP)
    consumer.consume(3)
    consumer.close()
    ids = [send["records"][0]["id"] for send in lines(tmp_path, "producer#0")[:-1]]
    assert [r["id"] for r in lines(tmp_path, "consumer#0")[0]["records"]] == ids
    assert len(set(ids)) == 3


def test_a_consumer_that_closes_is_not_asked_for_its_membership(tmp_path: Path) -> None:
    """librdkafka never answers once the group has ended, and `close` may rebalance after that."""

    class Closing(Consumer):
        closing = False

        def consumer_group_metadata(self) -> bytes:
            assert not self.closing
            return super().consumer_group_metadata()

        def close(self) -> None:
            self.closing = True
            self.rebalance("on_revoke", 0)
            self.rebalance("on_assign", 1)
            self.rebalance("on_revoke", 1)

    client = Closing()
    consumer = recorded(client, tmp_path, GROUP)
    consumer.subscribe(["t"])
    consumer.close()
    about = [
        (line["op"], line.get("member"), line.get("generation"))
        for line in lines(tmp_path, "consumer#0")
        if line["op"] in ("assigned", "revoked")
    ]
    assert about == [("revoked", "member-1", 3), ("assigned", None, None), ("revoked", None, None)]


def test_the_applications_own_id_needs_no_header(tmp_path: Path) -> None:
    client = Producer()

    def own(_topic: str, _key: Any, value: Any, _headers: Any) -> str:
        return value.decode()

    producer = recorded(client, tmp_path, SAFE, id=own)
    producer.produce("t", b"order-7")
    producer.close()
    script = [message(0, value=b"order-7")]
    consumer = recorded(Consumer(script=script), tmp_path, GROUP, id=own)
    consumer.poll()
    consumer.close()
    assert client.sent[0][3] is None
    for process in ("producer#0", "consumer#0"):
        assert lines(tmp_path, process)[0]["records"][0]["id"] == "order-7"


@pytest.mark.parametrize("key", [None, b"", b"k", "schlüssel", b"\xff\x00", b"x" * 40_000])
@pytest.mark.parametrize("partition", [-1, 2])
def test_any_key_and_partition_are_written_down(tmp_path: Path, key: Any, partition: int) -> None:
    client = Producer(fate=KafkaError._MSG_TIMED_OUT)  # pyright: ignore[reportPrivateUsage]
    producer = recorded(client, tmp_path, SAFE)
    producer.produce("t", b"v", key=key, partition=partition)
    producer.close()
    record = lines(tmp_path, "producer#0")[0]["records"][0]
    raw = key.encode() if isinstance(key, str) else key
    expected = None if raw is None else raw.decode("utf-8", "backslashreplace")
    assert record.get("key") == expected
    left = None if key is None else False  # without a key it belongs nowhere
    assert record.get("chosen") is (True if partition >= 0 else left)
    # What the sender asked for, or what the report told of a record that never had an offset.
    assert record["partition"] in (partition, 0)


def test_sends_belong_to_the_transaction_that_was_open(tmp_path: Path) -> None:
    producer = recorded(Producer, tmp_path, {"transactional.id": "till"})
    producer.init_transactions()
    for _ in range(2):
        producer.begin_transaction()
        producer.produce("t", b"v")
        producer.send_offsets_to_transaction(
            [TopicPartition("t", 0, 5)], Consumer().consumer_group_metadata()
        )
        producer.commit_transaction()
    producer.begin_transaction()
    producer.produce("t", b"v")
    producer.abort_transaction()
    producer.close()
    found = lines(tmp_path, "producer#0")
    assert all(line["transactional_id"] == "till" for line in found[:-1])
    inside = [(line["op"], line["txn"]) for line in found if "txn" in line]
    each = ("txn_begin", "send", "txn_offsets", "txn_commit")
    assert inside == [
        *[(op, 0) for op in each],
        *[(op, 1) for op in each],
        *[(op, 2) for op in ("txn_begin", "send", "txn_abort")],
    ]
    offsets = next(line for line in found if line["op"] == "txn_offsets")
    assert offsets["offsets"] == {"t:0": 5}
    assert (offsets["group"], offsets["member"], offsets["generation"]) == ("g", "member-1", 3)


@pytest.mark.parametrize(("must_abort", "outcome"), [(True, "fail"), (False, "info")])
def test_a_commit_that_must_be_aborted_is_the_only_certain_no(
    tmp_path: Path, must_abort: bool, outcome: str
) -> None:
    client = Producer()
    producer = recorded(client, tmp_path, {"transactional.id": "till"})
    producer.begin_transaction()
    client.refusal = refused(KafkaError.INVALID_PRODUCER_EPOCH, must_abort)
    with pytest.raises(type(client.refusal)):
        producer.commit_transaction()
    producer.close()
    commit = lines(tmp_path, "producer#0")[1]
    assert (commit["op"], commit["outcome"]) == ("txn_commit", outcome)
    assert commit["error"] == "INVALID_PRODUCER_EPOCH"


def test_polls_follow_the_callbacks_that_ran_inside_them(tmp_path: Path) -> None:
    client = Consumer()

    def rebalanced() -> Any:
        client.rebalance("on_assign", 0, 1)
        return message(0)

    client.script = [None, rebalanced, message(0, error=KafkaError.UNKNOWN), message(1)]
    consumer = recorded(client, tmp_path, GROUP)
    consumer.subscribe(["t"])
    for _ in range(4):
        consumer.poll(0)
    consumer.close()
    found = lines(tmp_path, "consumer#0")
    # Neither the empty poll nor the one that brought an error is there.
    assert ops(found) == ["subscribe", "assigned", "poll", "poll", "close"]
    assigned = found[1]
    assert assigned["partitions"] == ["t:0", "t:1"]
    assert (assigned["group"], assigned["member"], assigned["generation"]) == ("g", "member-1", 3)
    assert found[2]["isolation"] == "read_uncommitted"
    assert found[2]["invoked_ns"] <= assigned["invoked_ns"]


def test_what_is_committed_while_partitions_are_taken_comes_before_their_loss(
    tmp_path: Path,
) -> None:
    client = Consumer(answer=committed_at(5))

    def on_revoke(consumer: Any, _partitions: Any) -> None:
        consumer.commit(offsets=[TopicPartition("t", 0, 5)], asynchronous=False)

    consumer = recorded(client, tmp_path, GROUP)
    consumer.subscribe(["t"], on_revoke=on_revoke)
    client.rebalance("on_revoke", 0)
    client.rebalance("on_lost", 0)
    consumer.close()
    found = lines(tmp_path, "consumer#0")
    assert ops(found) == ["subscribe", "commit", "revoked", "commit", "lost", "close"]
    assert found[2]["invoked_ns"] <= found[1]["invoked_ns"] <= found[2]["returned_ns"]


def test_moving_positions_inside_a_rebalance_is_a_seek_and_outside_an_assignment(
    tmp_path: Path,
) -> None:
    def on_assign(consumer: Any, _partitions: Any) -> None:
        consumer.assign([TopicPartition("t", 0, 4)])

    client = Consumer()
    consumer = recorded(client, tmp_path, GROUP)
    consumer.subscribe(["t"], on_assign=on_assign)
    client.rebalance("on_assign", 0)
    consumer.assign([TopicPartition("t", 1)])
    consumer.seek(TopicPartition("t", 1, 8))
    consumer.close()
    found = lines(tmp_path, "consumer#0")
    assert ops(found) == ["subscribe", "assigned", "seek", "assign", "seek", "close"]
    assert found[2]["offsets"] == {"t:0": 4}
    assert "offsets" not in found[3]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaError.ILLEGAL_GENERATION, "fail"),
        (KafkaError.UNKNOWN_MEMBER_ID, "fail"),
        (KafkaError._NO_OFFSET, "fail"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError.REQUEST_TIMED_OUT, "info"),
        (KafkaError._TRANSPORT, "info"),  # pyright: ignore[reportPrivateUsage]
        (KafkaError.NOT_COORDINATOR, "info"),
    ],
)
def test_a_commit_that_is_refused_at_once_certainly_was_not_made(
    tmp_path: Path, error: int, outcome: str
) -> None:
    consumer = recorded(Consumer(answer=refused(error)), tmp_path, GROUP)
    with pytest.raises(Exception, match="KafkaError"):
        consumer.commit(message(6), asynchronous=False)
    consumer.close()
    commit = lines(tmp_path, "consumer#0")[0]
    assert (commit["outcome"], commit["offsets"]) == (outcome, {"t:0": 7})


def test_at_once_is_sooner_than_any_client_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    asked = KafkaError.ILLEGAL_GENERATION
    assert [commit_outcome(asked, ms * 1_000_000) for ms in (0, 49, 50)] == ["fail", "fail", "info"]


def test_a_refusal_that_took_long_may_have_been_the_second_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traces.record.errors.FIRST_ATTEMPT_NS", 0)
    consumer = recorded(Consumer(answer=refused(KafkaError.ILLEGAL_GENERATION)), tmp_path, GROUP)
    with pytest.raises(Exception, match="ILLEGAL_GENERATION"):
        consumer.commit(asynchronous=False)
    consumer.close()
    assert lines(tmp_path, "consumer#0")[0]["outcome"] == "info"


def test_partitions_that_were_refused_are_a_call_of_their_own(tmp_path: Path) -> None:
    answer = committed_at(5, 6, errors={1: KafkaError.TOPIC_AUTHORIZATION_FAILED})
    consumer = recorded(Consumer(answer=answer), tmp_path, GROUP)
    consumer.commit(asynchronous=False)
    consumer.close()
    first, second, _ = lines(tmp_path, "consumer#0")
    assert (first["outcome"], first["offsets"]) == ("ok", {"t:0": 5})
    assert (second["outcome"], second["offsets"]) == ("fail", {"t:1": 6})


def test_asynchronous_and_automatic_commits_are_told_apart(tmp_path: Path) -> None:
    consumer = recorded(Consumer, tmp_path, {**GROUP, "enable.auto.commit": True})
    consumer.commit(message(4))
    on_commit = consumer.conf["on_commit"]
    on_commit(None, committed_at(5))
    on_commit(None, committed_at(9))
    on_commit(KafkaError(KafkaError.REQUEST_TIMED_OUT), committed_at(9))
    consumer.close()
    asked, auto, unknown, _ = lines(tmp_path, "consumer#0")
    assert (asked["outcome"], asked["offsets"], asked.get("auto")) == ("ok", {"t:0": 5}, None)
    assert (auto["outcome"], auto["offsets"], auto["auto"]) == ("ok", {"t:0": 9}, True)
    assert (unknown["outcome"], unknown["error"]) == ("info", "REQUEST_TIMED_OUT")


def test_an_asynchronous_commit_that_nobody_answers_is_unknown(tmp_path: Path) -> None:
    consumer = recorded(Consumer(), tmp_path, GROUP)
    consumer.commit(message(4))
    consumer.close()
    assert lines(tmp_path, "consumer#0")[0]["outcome"] == "info"


def test_records_are_processed_unless_the_application_fails(tmp_path: Path) -> None:
    consumer = recorded(Consumer(), tmp_path, GROUP)
    with consumer.process(message(0), message(1)):
        pass
    with pytest.raises(ValueError, match="bad order"), consumer.process(message(2)):
        raise ValueError("bad order")
    consumer.processed(message(3))
    consumer.close()
    found = [line for line in lines(tmp_path, "consumer#0") if line["op"] == "process"]
    assert [[r["offset"] for r in line["records"]] for line in found] == [[0, 1], [3]]
    assert all(line["group"] == "g" for line in found)


def test_committed_offsets_and_watermarks_are_answers(tmp_path: Path) -> None:
    consumer = recorded(Consumer(answer=committed_at(5, -1001)), tmp_path, GROUP)
    consumer.committed([TopicPartition("t", 0), TopicPartition("t", 1)])
    consumer.get_watermark_offsets(TopicPartition("t", 0))
    consumer.get_watermark_offsets(TopicPartition("t", 0), cached=True)
    consumer.close()
    committed, earliest, latest, close = lines(tmp_path, "consumer#0")
    assert committed["offsets"] == {"t:0": 5}
    assert [(x["query"], x["offsets"]) for x in (earliest, latest)] == [
        ("earliest", {"t:0": 0}),
        ("latest", {"t:0": 9}),
    ]
    assert close["op"] == "close"


def test_the_configuration_is_told_with_librdkafkas_defaults(tmp_path: Path) -> None:
    recorded(Producer, tmp_path, {"acks": -1, "retries": "3"}).close()
    recorded(Producer, tmp_path, {"transactional.id": "x"}).close()
    recorded(Consumer, tmp_path, {"group.id": "g", "auto.offset.reset": "smallest"}).close()
    recorded(Producer(), tmp_path, name="silent").close()
    configured = {process.name: process.configured for process in contents(tmp_path).processes}
    assert configured["producer#0"] == {
        "acks": "all",
        "idempotence": False,
        "max_in_flight": 1_000_000,
        "retries": 3,
        "delivery_timeout_ms": 300_000,
        "partitioner": "consistent_random",
    }
    assert configured["producer#1"]["idempotence"] is True
    assert configured["producer#1"]["max_in_flight"] == 5
    assert configured["consumer#0"]["isolation"] == "read_committed"
    assert configured["consumer#0"]["auto_offset_reset"] == "earliest"
    assert configured["consumer#0"]["commit_order"] == "auto"
    assert configured["silent#0"] == {}


def test_what_is_recorded_can_be_read_by_the_checks(tmp_path: Path) -> None:
    producer = recorded(Producer, tmp_path, SAFE)
    producer.produce("t", b"v", key=b"k")
    producer.close()
    script = [message(0, [(HEADER, (7).to_bytes(8, "big"))], leader_epoch=2)]
    consumer = recorded(Consumer(script=script), tmp_path, GROUP)
    consumer.subscribe(["t"])
    with consumer.process(consumer.poll()):
        pass
    consumer.close()
    found = contents(tmp_path)
    nothing = Cluster({}, {}, [])
    write(tmp_path, merged({}, "r", found.processes, found.names, nothing, complete=False))
    run = read_trace(tmp_path)
    assert run.warnings == []
    assert run.meta.producer("producer#0").acks == "all"
    assert run.meta.consumer("consumer#0").group == "g"


def test_something_else_than_a_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAClientError, match=r"expected a Producer or Consumer .* builtins\.dict"):
        recorded({}, tmp_path)


def test_a_batch_that_cannot_be_recorded_says_so(tmp_path: Path) -> None:
    producer = recorded(Producer(), tmp_path)
    with pytest.raises(NotImplementedError, match="call produce for each"):
        producer.produce_batch("t", [])
    producer.close()


def test_an_id_that_no_number_of_64_bits_holds_is_written_all_the_same(tmp_path: Path) -> None:
    def own(_topic: str, _key: Any, _value: Any, _headers: Any) -> int:
        return 2**70

    producer = recorded(Producer(), tmp_path, SAFE, id=own)
    producer.produce("t", b"v")
    producer.close()
    assert lines(tmp_path, "producer#0")[0]["records"][0]["id"] == str(2**70)


@pytest.mark.parametrize("value", [None, b"", b"v", "värde"])
@pytest.mark.parametrize("headers", [None, [("a", b"1")], {"a": None}])
def test_sender_and_reader_hash_a_message_alike_and_any_change_shows(
    tmp_path: Path, value: Any, headers: Any
) -> None:
    client = Producer()
    producer = recorded(client, tmp_path, SAFE, hashes=True)
    producer.produce("t", value, key="k", headers=headers)
    producer.close()
    _, _, _, given = client.sent[0]
    raw = value.encode() if isinstance(value, str) else value
    same: Line = {"key": b"k", "value": raw, "headers": given}
    others: list[Line] = [
        {"key": b""},
        {"key": None},
        {"value": b"V"},
        {"headers": [*given, ("b", b"")]},
    ]
    script = [message(n, **(same | other)) for n, other in enumerate([same, *others])]
    consumer = recorded(Consumer(script=[script]), tmp_path, GROUP, hashes=True)
    consumer.consume(5)
    consumer.close()
    sent = lines(tmp_path, "producer#0")[0]["records"][0]["hash"]
    first, *rest = [r["hash"] for r in lines(tmp_path, "consumer#0")[0]["records"]]
    assert first == sent
    assert sent not in rest


def test_a_static_member_is_named_with_its_group(tmp_path: Path) -> None:
    conf = GROUP | {"group.instance.id": "i1"}
    consumer = recorded(Consumer(script=[[message(0)]]), tmp_path, conf)
    consumer.subscribe(["t"])
    consumer.consume(1)
    consumer.commit()
    consumer.close()
    found = lines(tmp_path, "consumer#0")
    assert [line.get("instance") for line in found] == ["i1", "i1", "i1", None]
    assert contents(tmp_path).processes[0].configured["group_instance_id"] == "i1"


MESSAGES = st.builds(
    message,
    st.integers(0, 2**62),
    st.none() | st.integers(0, 2**63 - 1).map(lambda n: [(HEADER, n.to_bytes(8, "big"))]),
    topic=st.sampled_from(["t", "ü"]),
    partition=st.integers(0, 3),
    key=st.none() | st.binary(max_size=40),
    leader_epoch=st.integers(-1, 2**31 - 1),
)


@given(st.lists(st.lists(MESSAGES, min_size=1, max_size=5), min_size=1, max_size=6))
def test_polls_are_read_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, polls: list[list[Any]]
) -> None:
    run = tmp_path_factory.mktemp("polls")
    consumer = recorded(Consumer(script=[*polls]), run, GROUP)
    expected = [[consumer.record_of(one) for one in several] for several in polls]
    for several in polls:
        assert consumer.consume(10) == several
        consumer.processed(*several)
    consumer.close()
    found = lines(run, "consumer#0")[:-1]
    assert [line["records"] for line in found[::2]] == expected
    assert [line["records"] for line in found[1::2]] == expected
    for poll in found[::2]:
        about = {name: poll[name] for name in ("op", "outcome", "group", "isolation")}
        assert about == {
            "op": "poll",
            "outcome": "ok",
            "group": "g",
            "isolation": "read_uncommitted",
        }


class KafkaProducer:
    """As kafka-python's, by its name."""


KafkaProducer.__module__ = "kafka.producer"

MISTAKES: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "a class without settings": (
        Producer,
        None,
        {},
        "expected the settings of a client beside its class Producer",
    ),
    "a class in the place of a client": (
        KafkaProducer,
        None,
        {},
        "expected a client of kafka-python, found the class KafkaProducer",
    ),
    "an order that there is not": (
        Consumer,
        GROUP,
        {"commit_order": "after"},
        "commit_order: expected one of process_then_commit, commit_then_process, transaction, "
        "auto, none, found 'after'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_in_a_sentence_and_leaves_no_file(
    mistake: str, tmp_path: Path
) -> None:
    client, conf, more, sentence = MISTAKES[mistake]
    with pytest.raises((TypeError, ValueError)) as refused:
        recorded(client, tmp_path / "run", conf, **more)
    assert str(refused.value) == sentence
    assert not (tmp_path / "run").exists()


def test_nothing_cannot_be_processed(tmp_path: Path) -> None:
    consumer = recorded(Consumer, tmp_path, GROUP)
    with pytest.raises(TypeError, match="found None: that poll returned nothing"):
        consumer.processed(None)
