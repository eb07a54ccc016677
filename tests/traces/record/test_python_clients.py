"""kafka-python and aiokafka, recorded: stand-ins around the real libraries' records and errors."""

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from attrs import define, field

from tests.traces.record.clients import lines, ops
from traces.record import HEADER, recorded
from traces.record.errors import NAMES

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    kafka: Any = import_module("kafka")
kafka_errors: Any = import_module("kafka.errors")
kafka_future: Any = import_module("kafka.future")
kafka_records: Any = import_module("kafka.consumer.fetcher")
aiokafka: Any = import_module("aiokafka")
aio_errors: Any = import_module("aiokafka.errors")

PARTITION = kafka.TopicPartition("t", 0)
AIO_PARTITION = aiokafka.TopicPartition("t", 0)


@define
class Metadata:
    """The place of a stored record, with the fields of both libraries."""

    partition: int
    offset: int
    timestamp: int


@define
class KafkaProducer:
    """As kafka.KafkaProducer: every future is settled by `fate` before it is handed out."""

    fate: Exception | None = None
    refusal: Exception | None = None
    settings: dict[str, Any] = field(factory=dict[str, Any])
    headers: list[Any] = field(factory=list[Any])
    _transaction_manager: Any = None

    @property
    def config(self) -> dict[str, Any]:
        return kafka.KafkaProducer.DEFAULT_CONFIG | self.settings

    def send(self, topic: str, value: Any, key: Any, headers: Any, *_: Any) -> Any:
        if self.refusal is not None:
            raise self.refusal
        self.headers.append(headers)
        future = kafka_future.Future()
        if self.fate is None:
            future.success(Metadata(0, 4, 77))
        else:
            future.failure(self.fate)
        return future

    def commit_transaction(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def init_transactions(self) -> None: ...
    def begin_transaction(self) -> None: ...
    def close(self) -> None: ...


@define
class Generation:
    generation_id: int = 2
    member_id: str = "m"


@define
class Coordinator:
    """Both doors of a commit, and the hand that opens them by itself."""

    fate: Exception | None = None
    _generation: Generation = field(factory=Generation)
    commit_offsets_sync: Callable[..., Any] = field(init=False)
    commit_offsets_async: Callable[..., Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.commit_offsets_sync = self.sync
        self.commit_offsets_async = self.later

    def sync(self, offsets: Any, **_: Any) -> None:
        if self.fate is not None:
            raise self.fate

    def later(self, offsets: Any, callback: Any = None) -> Any:
        future = kafka_future.Future()
        return future.success(None) if self.fate is None else future.failure(self.fate)


@define
class KafkaConsumer:
    """As kafka.KafkaConsumer, subscribed when it was made."""

    script: list[Any] = field(factory=list[Any])
    listener: Any = None
    _coordinator: Coordinator = field(factory=Coordinator)

    @property
    def config(self) -> dict[str, Any]:
        return kafka.KafkaConsumer.DEFAULT_CONFIG | {"group_id": "g"}

    def subscription(self) -> set[str]:
        return {"t"}

    def subscribe(self, topics: Any, pattern: Any = None, listener: Any = None) -> None:
        self.listener = listener

    def poll(self, **_: Any) -> Any:
        return self.script.pop(0)

    def commit(self) -> None:
        self._coordinator.commit_offsets_sync({PARTITION: kafka.OffsetAndMetadata(5, "", -1)})

    def by_itself(self) -> None:
        self._coordinator.commit_offsets_async({PARTITION: kafka.OffsetAndMetadata(9, "", -1)})

    def close(self, **_: Any) -> None: ...


for stand_in in (KafkaProducer, KafkaConsumer):
    stand_in.__module__ = "kafka.stand_in"


def kafka_record(offset: int) -> Any:
    headers = [(HEADER, (100 + offset).to_bytes(8, "big"))]
    known = {"topic": "t", "partition": 0, "offset": offset, "leader_epoch": 3, "timestamp": 77}
    about = dict.fromkeys(kafka_records.ConsumerRecord._fields) | known
    return kafka_records.ConsumerRecord(**{**about, "key": b"k", "headers": headers})


@pytest.mark.parametrize("errors", [kafka_errors, aio_errors])
def test_both_libraries_know_our_errors_by_their_codes(errors: Any) -> None:
    named: Any = errors.__dict__
    known: dict[int, str] = {
        kind.errno: kind.message
        for kind in named.values()
        if type(getattr(kind, "errno", None)) is int
    }
    shared = known.keys() & NAMES.keys()
    assert len(shared) > 30
    renamed = {"NOT_LEADER_FOR_PARTITION", "MESSAGE_SIZE_TOO_LARGE", "INVALID_TOPIC", "UNKNOWN"}
    renamed |= {"STALE_LEADER_EPOCH_CODE", "GROUP_LOAD_IN_PROGRESS", "INVALID_TOPIC_EXCEPTION"}
    renamed |= {"INVALID_REPLICATION_ASSIGNMENT"}
    differ = {known[code] for code in shared if known[code] != NAMES[code]}
    assert differ <= renamed


@pytest.mark.parametrize(
    ("error", "retries", "outcome", "name"),
    [
        (None, 0, "ok", None),
        (kafka_errors.KafkaTimeoutError(), 0, "info", "KafkaTimeoutError"),
        (kafka_errors.KafkaConnectionError(), 0, "info", "KafkaConnectionError"),
        (kafka_errors.NotEnoughReplicasError(), 0, "fail", "NOT_ENOUGH_REPLICAS"),
        (kafka_errors.NotEnoughReplicasError(), float("inf"), "info", "NOT_ENOUGH_REPLICAS"),
        (kafka_errors.RecordListTooLargeError(), float("inf"), "fail", "RECORD_LIST_TOO_LARGE"),
    ],
)
def test_a_future_of_kafka_python_tells_what_is_known(
    tmp_path: Path, error: Any, retries: float, outcome: str, name: str | None
) -> None:
    client = KafkaProducer(fate=error, settings={"retries": retries})
    producer = recorded(client, tmp_path)
    producer.send("t", b"v", key=b"k")
    producer.close()
    send = lines(tmp_path, "producer#0")[0]
    assert (send["outcome"], send.get("error")) == (outcome, name)
    assert ("offset" in send["records"][0]) == (error is None)
    assert client.headers[0] == [(HEADER, send["records"][0]["id"].to_bytes(8, "big"))]


def test_what_kafka_python_refuses_at_the_call_was_never_sent(tmp_path: Path) -> None:
    producer = recorded(KafkaProducer(refusal=kafka_errors.KafkaTimeoutError()), tmp_path)
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        producer.send("t", b"v")
    producer.close()
    assert lines(tmp_path, "producer#0")[0]["outcome"] == "fail"


@define
class Manager:
    """The state of transactions, as far as the recorder asks."""

    abortable: bool
    producer_id_and_epoch: Any

    def has_abortable_error(self) -> bool:
        return self.abortable


@define
class Identity:
    producer_id: int = 5
    epoch: int = 1


@pytest.mark.parametrize(("abortable", "outcome"), [(True, "fail"), (False, "info")])
def test_kafka_python_knows_when_a_transaction_can_only_be_aborted(
    tmp_path: Path, abortable: bool, outcome: str
) -> None:
    client = KafkaProducer(settings={"transactional_id": "x"})
    client._transaction_manager = Manager(abortable, Identity())  # pyright: ignore[reportPrivateUsage]
    producer = recorded(client, tmp_path)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v")
    client.refusal = kafka_errors.KafkaTimeoutError()
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        producer.commit_transaction()
    producer.close()
    init, begin, send, commit, _ = lines(tmp_path, "producer#0")
    assert (init["producer_id"], init["producer_epoch"]) == (5, 1)
    assert all(line["txn"] == 0 for line in (begin, send, commit))
    assert commit["outcome"] == outcome


def test_commits_of_kafka_python_meet_in_one_place(tmp_path: Path) -> None:
    client = KafkaConsumer()
    consumer = recorded(client, tmp_path)
    consumer.commit()
    client.by_itself()
    client._coordinator.fate = kafka_errors.IllegalGenerationError()  # pyright: ignore[reportPrivateUsage]
    client.by_itself()
    with pytest.raises(kafka_errors.IllegalGenerationError):
        consumer.commit()
    consumer.close()
    found = lines(tmp_path, "consumer#0")
    commits = [line for line in found if line["op"] == "commit"]
    committed = [(c.get("auto", False), c["outcome"], c["offsets"]["t:0"]) for c in commits]
    assert committed == [(False, "ok", 5), (True, "ok", 9), (True, "fail", 9), (False, "fail", 5)]
    assert all(c["generation"] == 2 and c["member"] == "m" for c in commits)


def test_a_consumer_of_kafka_python_tells_what_it_was_given(tmp_path: Path) -> None:
    heard: list[str] = []

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_assigned(self, assigned: Any) -> None:
            heard.append("assigned")

        def on_partitions_revoked(self, revoked: Any) -> None:
            heard.append("revoked")

    client = KafkaConsumer(script=[{}, {PARTITION: [kafka_record(0), kafka_record(1)]}])
    consumer = recorded(client, tmp_path)
    consumer.subscribe(["t"], listener=Listener())
    client.listener.on_partitions_revoked(set())
    client.listener.on_partitions_assigned({PARTITION})
    consumer.poll()
    answer = consumer.poll()
    with consumer.process(*answer[PARTITION]):
        pass
    client.listener.on_partitions_lost({PARTITION})
    consumer.close()
    assert heard == ["revoked", "assigned", "revoked"]
    found = lines(tmp_path, "consumer#0")
    expected = ["subscribe", "subscribe", "assigned", "poll", "process", "lost", "close"]
    assert ops(found) == expected
    poll, process = found[3], found[4]
    assert poll["isolation"] == "read_uncommitted"
    assert [(r["id"], r["epoch"], r["key"]) for r in poll["records"]] == [
        (100, 3, "k"),
        (101, 3, "k"),
    ]
    assert process["records"] == poll["records"]


def test_a_call_of_another_thread_than_the_one_that_polls_says_so(tmp_path: Path) -> None:
    client = KafkaConsumer(script=[{PARTITION: [kafka_record(0), kafka_record(1)]}])
    consumer = recorded(client, tmp_path)
    first, second = consumer.poll()[PARTITION]
    consumer.processed(first)
    for call in (partial(consumer.processed, second), consumer.commit):
        thread = Thread(target=call)
        thread.start()
        thread.join()
    consumer.commit()
    consumer.close()
    found = [line for line in lines(tmp_path, "consumer#0") if line["op"] in ("process", "commit")]
    assert [(line["op"], line.get("other_thread")) for line in found] == [
        *(("process", None), ("process", True), ("commit", True), ("commit", None)),
    ]


@define
class Sender:
    _acks: Any = -1


@define(slots=False)
class AIOKafkaProducer:
    """As aiokafka.AIOKafkaProducer."""

    fate: Exception | None = None
    refusal: Exception | None = None
    _txn_manager: Any = None
    _sender: Any = field(factory=Sender)

    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    async def send(self, *_: Any) -> Any:
        if self.refusal is not None:
            raise self.refusal
        future = asyncio.get_running_loop().create_future()
        if self.fate is None:
            future.set_result(Metadata(0, 4, 77))
        else:
            future.set_exception(self.fate)
        return future


@define
class AioCoordinator:
    fate: Exception | None = None
    generation: int = 2
    member_id: str = "m"
    _do_commit_offsets: Callable[..., Awaitable[Any]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._do_commit_offsets = self.commit

    async def commit(self, assignment: Any, offsets: Any) -> None:
        if self.fate is not None:
            raise self.fate

    async def request(self, offset: int) -> None:
        await self._do_commit_offsets(None, {AIO_PARTITION: aiokafka.OffsetAndMetadata(offset, "")})


@define
class AIOKafkaConsumer:
    """As aiokafka.AIOKafkaConsumer."""

    script: list[Any] = field(factory=list[Any])
    listener: Any = None
    _coordinator: AioCoordinator = field(factory=AioCoordinator)
    _group_id: str = "g"
    _enable_auto_commit: bool = True
    _isolation_level: str = "read_committed"
    _auto_offset_reset: str = "earliest"

    async def start(self) -> None: ...
    async def stop(self) -> None: ...

    def subscription(self) -> set[str]:
        return set()

    def subscribe(self, topics: Any, pattern: Any = None, listener: Any = None) -> None:
        self.listener = listener

    async def getone(self) -> Any:
        return self.script.pop(0)

    async def getmany(self) -> Any:
        return {AIO_PARTITION: [self.script.pop(0)]}

    async def commit(self) -> None:
        await self._coordinator.request(5)


for stand_in in (AIOKafkaProducer, AIOKafkaConsumer):
    stand_in.__module__ = "aiokafka.stand_in"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (aio_errors.RequestTimedOutError(), "info"),
        (aio_errors.KafkaConnectionError(), "info"),
        (aio_errors.InvalidTimestampError(), "fail"),
    ],
)
def test_a_future_of_aiokafka_tells_what_is_known(tmp_path: Path, error: Any, outcome: str) -> None:
    async def application() -> None:
        async with recorded(AIOKafkaProducer(fate=error), tmp_path) as producer:
            future = await producer.send("t", b"v", key=b"k")
            await asyncio.wait([future])
            assert future.exception() is error

    asyncio.run(application())
    send, close = lines(tmp_path, "producer#0")
    assert (send["outcome"], close["op"]) == (outcome, "close")


def test_whoever_stops_waiting_for_aiokafka_does_not_know(tmp_path: Path) -> None:
    async def application() -> None:
        client = AIOKafkaProducer()
        async with recorded(client, tmp_path) as producer:
            waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

            async def send(*_: Any) -> Any:
                return waiting

            client.send = send
            await producer.send("t", b"v")
            waiting.cancel()
            await asyncio.sleep(0)

    asyncio.run(application())
    assert lines(tmp_path, "producer#0")[0]["outcome"] == "info"


def test_a_consumer_of_aiokafka_tells_what_it_was_given(tmp_path: Path) -> None:
    kind: Any = aiokafka.ConsumerRecord
    headers = ((HEADER, (7).to_bytes(8, "big")),)
    one = kind("t", 0, 4, 77, 0, b"k", b"v", None, 1, 1, headers)

    async def application() -> None:
        client = AIOKafkaConsumer(script=[one])
        async with recorded(client, tmp_path) as consumer:
            consumer.subscribe(["t"])
            await client.listener.on_partitions_revoked(set())
            await client.listener.on_partitions_assigned({AIO_PARTITION})
            consumer.processed(await consumer.getone())
            await consumer.commit()
            await client._coordinator.request(9)  # pyright: ignore[reportPrivateUsage]
            await client.listener.on_partitions_revoked({AIO_PARTITION})

    asyncio.run(application())
    found = lines(tmp_path, "consumer#0")
    assert ops(found) == [
        "subscribe",
        "assigned",
        "poll",
        "process",
        "commit",
        "commit",
        "revoked",
        "close",
    ]
    assert found[1]["generation"] == 2
    assert found[2]["records"][0]["id"] == 7
    assert found[2]["isolation"] == "read_committed"
    committed = [(c.get("auto", False), c["offsets"]) for c in found if c["op"] == "commit"]
    assert committed == [(False, {"t:0": 5}), (True, {"t:0": 9})]
    configured = found[0]["recorder"]["configured"]
    assert configured["commit_order"] == "auto"
    assert configured["group"] == "g"


def test_a_call_of_another_task_or_of_an_executor_says_so(tmp_path: Path) -> None:
    one: Any = aiokafka.ConsumerRecord("t", 0, 4, 77, 0, b"k", b"v", None, 1, 1, ())

    async def application() -> None:
        async with recorded(AIOKafkaConsumer(script=[one]), tmp_path) as consumer:
            message = await consumer.getone()
            await consumer.commit()
            await asyncio.create_task(consumer.commit())
            await asyncio.to_thread(consumer.processed, message)

    asyncio.run(application())
    found = [line for line in lines(tmp_path, "consumer#0") if line["op"] in ("process", "commit")]
    assert [line.get("other_thread") for line in found] == [None, True, True]
