"""The ids of topics are asked for beside a client's calls, and nothing depends on the answer."""

import asyncio
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from tests.traces.record.clients import lines
from traces.record import recorded
from traces.record.confluent_ids import SharedAdmins, asking
from traces.record.process import Process, now, open_process
from traces.record.run import TAKEN
from traces.record.settling import settle
from traces.record.topic_ids import NO_ID, TopicIds, known

aiokafka: Any = import_module("aiokafka")


def process(run: Path) -> Process:
    return open_process(run, "p", {"role": "producer"}, TAKEN, settle)


def reported(run: Path) -> list[dict[str, str]]:
    found = lines(run, "p#0")
    assert found[-1]["op"] == "close"
    return [line["topic_ids"] for line in found if line["op"] == "describe_topics"]


def test_a_client_is_asked_when_it_meets_a_topic_and_when_it_leaves(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    noted = Event()

    def ask(topics: list[str]) -> dict[str, str]:
        asked.append(topics)
        noted.set()
        return {topic: f"{topic}-{len(asked)}" for topic in topics}

    of = process(tmp_path)
    ids = TopicIds(of, ask)
    for _ in range(3):
        ids.met(("t",))
    assert noted.wait(10)
    ids.leave()
    of.end()
    assert asked == [["t"], ["t"]]
    assert sorted(one["t"] for one in reported(tmp_path)) == ["t-1", "t-2"]


@pytest.mark.parametrize("answer", [ConnectionError(), {}])
def test_what_nobody_answers_is_not_told(tmp_path: Path, answer: Any) -> None:
    def ask(_topics: list[str]) -> dict[str, str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    of = process(tmp_path)
    ids = TopicIds(of, ask)
    ids.met(("t",))
    ids.leave()
    of.end()
    assert reported(tmp_path) == []


def test_an_answer_that_comes_when_the_client_has_left_is_dropped(tmp_path: Path) -> None:
    go, done = Event(), Event()

    def ask(_topics: list[str]) -> dict[str, str]:
        if not go.is_set():
            assert go.wait(10)
            done.set()
        return {"t": "late"}

    of = process(tmp_path)
    ids = TopicIds(of, ask)
    ids.met(("t",))
    ids._over = True  # pyright: ignore[reportPrivateUsage]
    go.set()
    assert done.wait(10)
    of.end()
    assert reported(tmp_path) == []


def test_only_what_is_an_id_is_one() -> None:
    assert known({"a": "x", "b": None, "c": NO_ID, "d": UUID(int=0)}) == {"a": "x"}
    of_kafka_python = UUID("5933ff02-0b87-4c80-b5f9-3ba98b037bb8")
    assert known({"a": of_kafka_python}) == {"a": "WTP_AguHTIC1-TupiwN7uA"}


def test_without_the_address_of_a_cluster_nobody_is_asked() -> None:
    assert asking({"acks": "all"}) is None
    assert asking({"bootstrap.servers": "nowhere:1"}) is not None


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by Linux")
def test_who_is_asked_leaves_no_thread_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("traces.record.confluent_ids.PATIENCE_S", 0.2)
    ask, before = asking({"bootstrap.servers": "127.0.0.1:1"}), threads()
    assert ask is not None
    assert ask(["t"]) == {}
    assert threads() <= before
    assert capfd.readouterr().err == ""


def threads() -> int:
    return len([*Path("/proc/self/task").iterdir()])


def test_a_client_of_aiokafka_has_confluent_kafka_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def by(conf: dict[str, Any]) -> Any:
        def ask(topics: list[str]) -> dict[str, str]:
            asked.append((conf["bootstrap.servers"], topics))
            return {"t": "an-id"}

        return ask

    monkeypatch.setattr("traces.record.aio_ids.asking", by)

    async def application() -> None:
        conf = {"bootstrap_servers": ["a:1", "b:2"], "security_protocol": "PLAINTEXT"}
        client = aiokafka.AIOKafkaConsumer(**conf, enable_auto_commit=False)
        monkeypatch.setattr(client, "stop", no_answer)
        consumer = recorded(client, tmp_path, name="p")
        consumer.assign([aiokafka.TopicPartition("t", 0)])
        await consumer.stop()
        client._closed = True

    asyncio.run(application())
    assert asked == [("a:1,b:2", ["t"])] * 2
    assert [one["t"] for one in reported(tmp_path)] == ["an-id"] * 2


async def no_answer() -> None: ...


def test_an_id_is_written_as_kafka_writes_it_whichever_library_tells_it() -> None:
    """kafka-python tells a UUID; as text that is another id than confluent-kafka's."""
    id = UUID("7fce9f52-a4e0-4350-919e-d31919c25e22")
    assert known({"t": id, "u": UUID(int=0), "v": None}) == {"t": "f86fUqTgQ1CRntMZGcJeIg"}
    assert known({"t": "f86fUqTgQ1CRntMZGcJeIg"}) == known({"t": id})
    other = UUID("2b080ab6-ebf2-4428-970d-51e687ff05ae")
    assert known({"t": "KwgKtuvyRCiXDVHmh/8Frg"}) == known({"t": other})


def test_an_answer_before_its_send_is_written_contradicts_no_time(tmp_path: Path) -> None:
    """The thread that asks for ids may be through before the send that it is for goes on."""
    conf = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 1}
    client: Any = recorded(import_module("confluent_kafka").Producer, tmp_path, conf, name="p")

    def asked_at_once(topic: str) -> None:
        client._process.note("describe_topics", topics=[topic], topic_ids={topic: "x"})
        noted = now()
        while now() == noted:
            pass

    client._met = asked_at_once
    client.produce("t", b"x")
    client.flush(10)
    client._process.end()
    by_seq = sorted(lines(tmp_path, "p#0"), key=lambda line: line["seq"])
    assert [line["op"] for line in by_seq] == ["describe_topics", "send", "close"]
    assert by_seq[0]["returned_ns"] < by_seq[1]["invoked_ns"]


def test_clients_that_leave_together_ask_by_one_admin_client_for_each_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def of_its_own(conf: Any) -> str:
        made.append(conf["bootstrap.servers"])
        return made[-1]

    monkeypatch.setattr("traces.record.confluent_ids.of_its_own", of_its_own)

    def ids_of(client: str, *rest: object) -> dict[str, str]:
        return {"t": client}

    monkeypatch.setattr("traces.record.confluent_ids.ids_of", ids_of)
    admins = SharedAdmins()
    one = {"bootstrap.servers": "a:1", "group.id": "g"}
    for conf in (one, {"bootstrap.servers": "a:1", "acks": "1"}, {"bootstrap.servers": "b:1"}):
        ask = asking(conf)
        assert ask is not None
        ask.admin_of = admins.of
        assert ask(["t"]) == {"t": conf["bootstrap.servers"]}
    assert made == ["a:1", "b:1"]
