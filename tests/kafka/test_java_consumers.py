"""Our consumer beside Kafka's own: positions, resets, validation, fetches and what polls return."""

import os
from collections.abc import Generator
from typing import Any

import pytest

from chaos.real.kafka.judge import answering
from tests.refimpl.clients.consumer.scripts import Other, Script

SEED = int(os.environ.get("HIGHWATER_SEED", "0"))
SCRIPTS = int(os.environ.get("HIGHWATER_SCRIPTS", "600"))
PLAYER = "org.apache.kafka.clients.consumer.internals.Consumers"

pytestmark = pytest.mark.kafka


@pytest.fixture
def kafka() -> Generator[Other]:
    """Kafka's consumer, which takes one step after the other."""
    with answering(PLAYER) as play:
        yield play


def test_the_same_is_asked_and_the_same_is_returned(kafka: Other) -> None:
    steps = records = 0
    apis: set[str] = set()
    for seed in range(SEED, SEED + SCRIPTS):
        script = Script(seed, kafka)
        found = script.play(40)
        assert found is None, f"seed {seed}: {found}"
        steps, records = steps + len(script.steps), records + script.records
        apis |= {one["api"] for _, _, one in script.waiting}
    # Where ours differs on purpose, a script ends.
    assert steps > 20 * SCRIPTS
    assert records > 5 * SCRIPTS
    assert apis == {"Fetch", "ListOffsets", "OffsetForLeaderEpoch"}


def test_kafkas_consumer_returns_what_a_leader_has_lost(kafka: Other) -> None:
    """Records of an old leader wait behind others while the new one validates their position."""
    asked: dict[str, int] = {}

    def play(*step: Any) -> Any:
        events = kafka([*step])
        asked.update({one["api"]: one["id"] for one in events["sent"]})
        return events.get("records")

    def fetched(records: dict[int, list[int]], epoch: int) -> Any:
        rows = {str(p): [[at, epoch] for at in offsets] for p, offsets in records.items()}
        return {p: {"error": "", "records": one, "replica": -1} for p, one in rows.items()}

    play("new", {"partitions": 2, "nodes": 1, "reset": "none", "most": 1})
    play("seek", 0, 5, -1)
    play("seek", 1, 5, -1)
    play("poll")
    play("answer", asked["Fetch"], fetched({0: [5], 1: [5]}, 0))
    while "OffsetForLeaderEpoch" not in asked and asked["Fetch"] == 0:
        play("poll")
    play("answer", asked["Fetch"], fetched({0: [6, 7, 8], 1: [6, 7]}, 0))
    assert play("poll") == {"0": [6]}
    # Another leader, which does not have record 6 of partition 1, and writes others there.
    play("leader", 1, 1, 1)
    assert play("poll") == {"0": [7]}
    end = {"1": {"error": "", "offset": 6, "epoch": 0}}
    play("answer", asked["OffsetForLeaderEpoch"], end)
    returned = [play("poll") for _ in range(3)]
    assert returned == [{"0": [8]}, {"1": [6]}, {"1": [7]}]
