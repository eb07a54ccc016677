"""An idempotent producer among faults drawn at random: each record once, in order, none lost."""

import pytest

from refimpl.messages.broker import ProduceRequest, TopicPartition
from tests.refimpl.clients.producer.world import World

ERRORS = ("NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "KAFKA_STORAGE_ERROR")


def run(seed: int, settings: dict[str, object] | None = None, steps: int = 150) -> World:
    """Sends, answers, refusals, lost connections and time, as the seed has it."""
    world = World(
        {"linger.ms": 3, "batch.size": 12, "delivery.timeout.ms": 4000, "request.timeout.ms": 1000}
        | (settings or {}),
        partitions=3,
        nodes=2,
        seed=seed,
    )
    random = world.random
    sent = 0
    for _ in range(steps):
        match random.randrange(10):
            case 0 | 1 | 2:
                world.send(b"%06d" % sent, random.randrange(3))
                sent += 1
            case 3 | 4 | 5 | 6 if world.requests:
                node = random.choice([one.target for one in world.requests])
                first = next(one for one in world.requests if one.target == node)
                refused = random.random() < 0.15 and isinstance(first.body, ProduceRequest)
                world.answer(first, random.choice(ERRORS) if refused else None)
            case 7 if random.random() < 0.5:
                node = random.choice((1, 2))
                waiting = sum(1 for one in world.requests if one.target == node)
                world.disconnect(node, random.randint(0, waiting))
            case 8 if random.random() < 0.3:
                world.leaders[random.randrange(3)] = random.choice((1, 2))
                world.epoch += 1
            case _:
                world.advance(random.choice((1, 20, 20, 200, 200, 1500)))
    for _ in range(60):
        world.settle()
        world.advance(200)
    world.sent = sent
    return world


def disorder(world: World) -> list[str]:
    """The errors in the logs."""
    wrong: list[str] = []
    for partition in range(3):
        log = world.logs.get(TopicPartition("t", partition), [])
        if len({*log}) < len(log):
            wrong.append("twice")
        if sorted(log) != log:
            wrong.append("order")
    for handle, told in world.written.items():
        log = world.logs[told.partition]
        if log[told.offset] != handle:
            wrong.append("offset")
    return wrong


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_an_idempotent_producer_writes_each_record_once_and_in_order(first: int) -> None:
    bumps = 0
    for seed in range(first, first + 40):
        world = run(seed)
        assert disorder(world) == [], seed
        assert len(world.written) + len(world.failed) == world.sent
        bumps += world.machine.delivery.epoch
    assert bumps > 4


def test_a_producer_without_idempotence_does_not() -> None:
    found = [one for seed in range(40) for one in disorder(run(seed, {"acks": "1"}))]
    assert {"twice", "order"} <= {*found}
    assert "offset" not in found
