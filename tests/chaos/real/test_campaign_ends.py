"""A campaign beside brokers that do not answer, and clients that give up."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from attrs import define, evolve, field
from confluent_kafka import Producer

from chaos.real.campaign.draw import draw
from chaos.real.campaign.explained import explained
from chaos.real.campaign.plan import ORDERS, GroupPlan, TopicPlan
from chaos.real.campaign.readers import GroupMembers
from chaos.real.campaign.stage import INTERNAL, Stage
from chaos.real.kafka.asking import Replicas, ask
from refimpl.edge.testing.blocking import BlockingCluster
from tests.chaos.real.played_stage import FakeTarget, planned
from tests.refimpl.edge.patience import PATIENCE_S, until

WHOLE = {0: Replicas(1, (1, 2, 3), (3, 2, 1))}


@define(eq=False)
class KnownStage(Stage):
    """A stage whose brokers know what they are given to know; None does not answer."""

    knows: dict[int, Mapping[str, Mapping[int, Replicas]] | None] = field(kw_only=True)

    def _known(self, node: int, topic: str) -> dict[int, Replicas]:
        known = self.knows[node]
        if known is None:
            raise TimeoutError("timed out")
        return dict(known.get(topic, {}))


def stage_of(**changes: Mapping[str, Mapping[int, Replicas]] | None) -> KnownStage:
    """A stage with one topic; brokers 1 to 3 know it as whole, unless one has another view."""
    plan = evolve(planned(), topics={"orders": TopicPlan(1)})
    plan = evolve(plan, clients=evolve(plan.clients, transactional=()))
    views = {node: changes.get(f"broker_{node}", {"orders": WHOLE}) for node in (1, 2, 3)}
    return KnownStage(plan, FakeTarget(), knows=views)


def test_a_cluster_is_whole_if_every_broker_knows_so_whatever_internal_topics_are_there() -> None:
    assert stage_of().whole()
    assert stage_of(broker_2={"orders": WHOLE, INTERNAL[0]: WHOLE}).whole()


def test_a_broker_that_does_not_answer_is_not_taken_for_content() -> None:
    """On a busy machine a disk was emptied so while another one had not been copied yet."""
    stage = stage_of(broker_2=None)
    assert stage.lacking() == "broker 2 does not answer: timed out"
    assert stage.replicas("orders") == WHOLE
    assert stage_of(broker_1=None).replicas("orders") == WHOLE


@pytest.mark.parametrize(
    ("view", "lacks"),
    [
        ({}, "broker 3 knows of no orders"),
        (
            {"orders": {0: Replicas(1, (1, 2, 3), (1, 2))}},
            "broker 3 knows of orders:0: leader 1, ISR [1, 2]",
        ),
        (
            {"orders": WHOLE, INTERNAL[0]: {0: Replicas(-1, (1,), (1,))}},
            f"broker 3 knows of {INTERNAL[0]}:0: leader -1, ISR [1]",
        ),
    ],
)
def test_what_a_broker_lacks_is_said(
    view: Mapping[str, Mapping[int, Replicas]], lacks: str
) -> None:
    assert stage_of(broker_3=view).lacking() == lacks


def test_a_field_that_a_request_has_not_is_no_field_at_its_default() -> None:
    """DeleteRecords had `timeout_ms`, so it was given no time at all."""
    with pytest.raises(ValueError, match=r"found \['timeout_ms'\]"):
        ask(1, 21, 1, {"timeout_ms": 5_000, "topics": []})


def test_a_member_that_was_fenced_is_made_again_with_its_instance_id(tmp_path: Path) -> None:
    """librdkafka's client is of no use after FENCED_INSTANCE_ID; an application starts anew."""
    group = GroupPlan("g", "classic", 1, static=True, assignor="range")
    with BlockingCluster(brokers=1) as cluster:
        cluster.create_topic(ORDERS, partitions=1)
        plan = draw(1, 0.2, "highwater")
        counts = Counter[str]()
        first = GroupMembers(group, plan, cluster.bootstrap, tmp_path / "first", counts)
        first.start()
        producer: Any = Producer({"bootstrap.servers": cluster.bootstrap})
        producer.produce(ORDERS, b"1")
        producer.flush(PATIENCE_S)
        until(lambda: counts["processed"] > 0)
        second = GroupMembers(group, plan, cluster.bootstrap, tmp_path / "second", Counter())
        second.start()
        until(lambda: counts["fatal"] > 0)
        second.stop()
        first.stop()
    assert first.failures == []
    assert {file.name for file in (tmp_path / "first").iterdir()} >= {
        "g-0-0#0.ndjson",
        "g-0-0#1.ndjson",
    }


REFUSED = (
    'idempotent: KafkaException(KafkaError{FATAL,code=OUT_OF_ORDER_SEQUENCE_NUMBER,val=45,str="'
    'ProduceRequest for kept [0] with 1 message(s) failed due to sequence desynchronization"})'
)


def line(
    op: str, offset: int | None, error: str = "", partition: int = 0, id: int = 0
) -> dict[str, Any]:
    placed = {} if offset is None else {"offset": offset}
    refused = {"error": error} if error else {}
    record = {"topic": "kept", "partition": partition, "id": id or offset, **placed}
    return {"op": op, "records": [record], **refused}


def recorded(folder: Path, refused: dict[str, Any], *others: dict[str, Any], last: int = 4) -> Path:
    """A producer's sends: at 1, one that is refused, and one behind it; and other processes."""
    files = {"idempotent#0": [line("send", 1), refused, line("send", last)], "plain#0": [*others]}
    (folder / "run").mkdir()
    for name, lines in files.items():
        (folder / "run" / f"{name}.ndjson").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return folder


OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_batch_that_is_refused_and_stored_is_one_that_a_snapshot_forgot(tmp_path: Path) -> None:
    folder = recorded(tmp_path, line("send", None, OUT_OF_ORDER), line("send", 2))
    assert dict(explained([REFUSED], folder)) == {REFUSED: "snapshot-forgets"}


def test_a_batch_that_is_refused_and_read_was_stored_as_well(tmp_path: Path) -> None:
    refused = line("send", None, OUT_OF_ORDER, id=9)
    folder = recorded(tmp_path, refused, line("scan", 3, id=9), last=2)
    assert dict(explained([REFUSED], folder)) == {REFUSED: "snapshot-forgets"}


@pytest.mark.parametrize(
    ("refused", "others", "last"),
    [
        (line("send", None, OUT_OF_ORDER), (line("send", 2), line("poll", 3)), 4),
        (line("send", None, OUT_OF_ORDER), (), 2),
        (line("send", None, OUT_OF_ORDER, 1), (), 4),
        (line("send", None, "NOT_ENOUGH_REPLICAS"), (), 4),
    ],
    ids=["others have all offsets", "there is none between", "another partition", "not refused"],
)
def test_a_refusal_that_nothing_shows_to_be_stored_stays_a_find(
    tmp_path: Path, refused: dict[str, Any], others: tuple[dict[str, Any], ...], last: int
) -> None:
    folder = recorded(tmp_path, refused, *others, last=last)
    assert dict(explained([REFUSED], folder)) == {REFUSED: ""}
