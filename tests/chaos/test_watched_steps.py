"""Each step that a node says it made is judged by the rules that it could break."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import define, field

from chaos.oracles.watch import ReplicationOracles
from chaos.sim.addresses import TOPIC
from refimpl.machines.messages import FetchRequest, LeaderAndIsr
from refimpl.messages import observations as o
from refimpl.messages.broker import TopicPartition
from refimpl.storage.replica.memory import RecordBatch
from tests.chaos.seen import Seen

HERE = TopicPartition(TOPIC, 0)
REQUEST = FetchRequest(2, 1, 1, 1, 3, 1)
BATCH = RecordBatch((1,))
DECIDED = o.Decided(
    HERE, "Elect", 1, 0, LeaderAndIsr(1, 1, frozenset((1,)), 1), frozenset(), frozenset((1,))
)


@define
class Judges:
    """Stands for the oracle of a partition: what it was asked, in order."""

    replicas: dict[int, Any] = field(
        factory=lambda: {1: SimpleNamespace(high_watermark=3, log=SimpleNamespace(end=3))}
    )
    asked: list[tuple[Any, ...]] = field(factory=list[Any])

    def __getattr__(self, name: str) -> Any:
        def ask(*of: Any) -> None:
            shown = [one for one in of if one is not self.replicas[1]]
            self.asked.append((name, *shown))

        return ask


@pytest.mark.parametrize(
    ("seen", "asked"),
    [
        (o.Written(HERE, 2, 3), [("wrote", 2, 3), ("eager",)]),
        (o.HighWatermarkAdvanced(HERE, 2, 3), [("moved", 2)]),
        (o.FetchHeard(HERE, REQUEST, False, 1), [("heard", REQUEST, 1), ("eager",)]),
        (o.FetchHeard(HERE, REQUEST, True, 1), []),
        (o.AnswerTaken(HERE, 1, True, 3, 3), [("cut", 3)]),
        (o.AnswerTaken(HERE, 1, True, 4, 2), [("cut", 4), ("moved", 2)]),
        (o.AnswerTaken(HERE, 1, False, 2, 3), [("copied", 2)]),
        (o.AnswerTaken(HERE, 1, False, 3, 3), []),
        (o.AnswerTaken(HERE, 1, False, 3, 2), [("moved", 2)]),
        (o.LogRestarted(HERE, 4, 3), [("cut", 4)]),
        (o.BecameLeader(HERE, False, 2), [("became_leader",), ("moved", 2), ("eager",)]),
        (o.BecameFollower(HERE, 4), [("cut", 4)]),
        (o.IsrAltered(HERE, 2, True), [("eager",)]),
        (o.Acknowledged(HERE, -1, BATCH, 2), [("acked", 2, BATCH)]),
        (o.Acknowledged(HERE, 1, BATCH, 2), []),
        (o.RecordsRead(HERE, 2, ()), [("read", 2, ())]),
        (o.Registered(1, 1, 1), [("registered",)]),
        (o.Registered(9, 1, 1), []),
        (DECIDED, [("decided", DECIDED)]),
    ],
    ids=range(19),
)
def test_a_step_is_judged(seen: Any, asked: list[tuple[Any, ...]]) -> None:
    judges, simulation = Judges(), Seen()
    oracle: Any = judges
    watched: Any = simulation
    ReplicationOracles({HERE: oracle}).attach(watched)
    simulation.observe(1, seen)
    assert judges.asked == asked
