"""Share groups through a recording proxy: what members are given and settle is judged."""

from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Producer

from chaos.real.proxy.recording.journals import Journals
from chaos.real.proxy.recording.links import Link, Topics
from chaos.real.proxy.recording.sharing import ShareGroups
from refimpl.edge.testing.blocking import BlockingCluster
from refimpl.machines.share_partition import DeliveryState, SharePartition
from tests.chaos.real.test_proxy import SECONDS, Running
from tests.chaos.real.test_proxy_recording import ended, lines, verdicts
from traces.record.settling import settle

ck: Any = import_module("confluent_kafka")
admins: Any = import_module("confluent_kafka.admin")
COUNT = 24
GROUP = "workers"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def recording(run: Path) -> Generator[Running]:
    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("orders", 1, 3)
        made = Running(cluster.bootstrap, "--control", "0", "--record", str(run))
        yield made
        if made.process.poll() is None:
            made.process.kill()
            made.process.communicate()


def sent(bootstrap: str, count: int = COUNT) -> None:
    """So many records; the group reads them from the start."""
    where = {"bootstrap.servers": bootstrap, "log_level": 0}
    entry = admins.ConfigEntry(
        "share.auto.offset.reset",
        "earliest",
        incremental_operation=admins.AlterConfigOpType.SET,
    )
    group = admins.ConfigResource(admins.ResourceType.GROUP, GROUP, incremental_configs=[entry])
    admin = admins.AdminClient(where)
    admin.incremental_alter_configs([group])[group].result(SECONDS)
    producer: Any = Producer({**where, "enable.idempotence": True})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=0)
    assert producer.flush(SECONDS) == 0


def member(bootstrap: str) -> Any:
    conf = {"bootstrap.servers": bootstrap, "group.id": GROUP, "log_level": 0}
    found: Any = ck.ShareConsumer({**conf, "share.acknowledgement.mode": "explicit"})
    found.subscribe(["orders"])
    return found


def settled(consumer: Any, count: int) -> list[int]:
    """Settle so many records by their offsets: the answers are awaited."""
    types, done = ck.AcknowledgeType, list[int]()
    while len(done) < count:
        for one in consumer.poll(1):
            first = one.delivery_count() == 1
            again = first and one.offset() % 3 == 1
            refused = one.offset() % 3 == 2
            kind = types.RELEASE if again else types.REJECT if refused else types.ACCEPT
            consumer.acknowledge(one, kind)
            if not again:
                done.append(one.offset())
        consumer.commit_sync()
    return done


def test_what_members_are_given_and_settle_holds(recording: Running, run: Path) -> None:
    sent(recording.bootstrap)
    first = member(recording.bootstrap)
    done = settled(first, COUNT // 2)
    first.close()
    second = member(recording.bootstrap)
    done += settled(second, COUNT - len(done))
    second.close()
    ended(recording)
    assert sorted(done) == [*range(COUNT)]
    found = verdicts(run)
    assert {found[id] for id in ("S1", "S2", "S4")} == {"holds"}
    assert "violated" not in found.values()
    given = [one for call in lines(run, "acquire") for one in call["records"]]
    counts = {one["offset"]: one["delivery_count"] for one in given}
    assert {offset for offset, count in counts.items() if count > 1} >= {*range(1, COUNT, 3)}
    sends = {one["id"] for call in lines(run, "send") for one in call["records"]}
    assert {one["id"] for one in given} == sends
    calls = lines(run, "acknowledge")
    assert {call["outcome"] for call in calls} == {"ok"}
    acks = [one["ack"] for call in calls for one in call["records"]]
    assert {*acks} == {"accept", "release", "reject"}
    assert len({call["member"] for call in calls}) == 2


def test_a_record_that_is_given_again_is_noticed(
    recording: Running, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that answers an acknowledgement, and forgets it."""
    sent(recording.bootstrap)

    def available(*_: object) -> DeliveryState:
        return DeliveryState.AVAILABLE

    monkeypatch.setattr(SharePartition, "_target", available)
    first = member(recording.bootstrap)
    assert settled(first, COUNT // 2)
    first.close()
    second = member(recording.bootstrap)
    assert settled(second, COUNT // 2)
    second.close()
    ended(recording)
    assert verdicts(run)["S2"] == "violated"


# Requests one by one

TOPIC = UUID(int=7)


class Seen:
    """The share groups of one connection."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.journals = folder, Journals(folder)
        self.link = Link("app", lambda: 1, self.journals)
        topics = Topics()
        topics.names[TOPIC] = "t"
        self.groups = ShareGroups(topics)

    def acknowledge(self, *batches: tuple[int, int, tuple[int, ...]]) -> Any:
        """A ShareAcknowledge of offsets from one to another, with these types."""
        acks = [
            SimpleNamespace(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in batches
        ]
        asked = SimpleNamespace(partition_index=0, acknowledgement_batches=acks)
        topics = [SimpleNamespace(topic_id=TOPIC, partitions=[asked])]
        about = {"group_id": "g", "member_id": "m", "topics": topics}
        return self.groups.acknowledge(self.link, SimpleNamespace(**about))

    def calls(self) -> list[dict[str, Any]]:
        """All that was written down."""
        self.groups.gone(self.link)
        self.journals.end_all()
        for journal in self.folder.glob("*.journal"):
            settle(journal)
        return lines(self.folder, "acknowledge")


def answer(partition: int = 0, code: int = 0, refused: int = 0) -> Any:
    one = SimpleNamespace(partition_index=partition, error_code=code)
    topics = [SimpleNamespace(topic_id=TOPIC, partitions=[one])]
    return SimpleNamespace(error_code=refused, responses=topics)


def test_one_type_stands_for_a_batch_and_a_gap_for_no_record(tmp_path: Path) -> None:
    seen = Seen(tmp_path)
    seen.acknowledge((0, 2, (1,)), (3, 6, (2, 0, 3, 4)))(answer())
    (call,) = seen.calls()
    acks = {one["offset"]: one["ack"] for one in call["records"]}
    assert acks == {0: "accept", 1: "accept", 2: "accept", 3: "release", 5: "reject", 6: "renew"}
    assert call["outcome"] == "ok"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (answer(code=121), "INVALID_RECORD_STATE"),
        (answer(refused=122), "SHARE_SESSION_NOT_FOUND"),
        (answer(partition=1), None),
    ],
)
def test_an_acknowledgement_that_is_not_taken_is_open(
    tmp_path: Path, said: Any, error: str | None
) -> None:
    seen = Seen(tmp_path)
    seen.acknowledge((0, 0, (1,)))(said)
    (call,) = seen.calls()
    assert (call["outcome"], call.get("error")) == ("info", error)
