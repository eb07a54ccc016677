"""Coordinators that end while members commit, join, or while they load: by the wire's own words."""

import asyncio
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import pytest

from refimpl.coordinator.runtime import CoordinatorState
from refimpl.edge import Cluster
from refimpl.messages import group as m
from refimpl.messages.broker import TopicPartition
from refimpl.records.coordinators import OFFSETS_TOPIC
from refimpl.records.schema import NO_ID
from tests.refimpl.edge.patience import PATIENCE_S

AIOKafkaProducer: Any = import_module("aiokafka").AIOKafkaProducer
InvalidTopicError: Any = import_module("aiokafka.errors").InvalidTopicError
NAME = TopicPartition("t", 0)
CONFIGS = {"offsets.topic.num.partitions": "1", "offsets.load.buffer.size": "1"}


class Asking:
    """Three brokers, one group's coordinator, and requests to any of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def send(self, broker: int, body: Any) -> asyncio.Future[Any]:
        """The answer to come."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cluster.hosts[broker].ask(body, answer.set_result)
        return answer

    async def ask(self, broker: int, body: Any) -> Any:
        return await asyncio.wait_for(self.send(broker, body), PATIENCE_S)

    async def coordinator(self, other_than: int = 0) -> int:
        """The coordinator, once there is one."""
        alive = next(b for b, host in self.cluster.hosts.items() if host.up)

        async def found() -> int:
            while True:
                answer = await self.ask(alive, m.FindCoordinatorRequest(m.GROUP, ["g"]))
                (one,) = answer.coordinators
                if one.error is None and one.node_id != other_than:
                    return one.node_id
                await asyncio.sleep(0.01)
                self.cluster.advance(200)

        return await asyncio.wait_for(found(), PATIENCE_S)

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.cluster.until(condition, PATIENCE_S * 1000)

    async def commit(self, broker: int, offset: int) -> str | None:
        answer = await self.ask(broker, commit_of(offset))
        ((_, error),) = answer.partitions
        return error

    async def fetched(self, broker: int) -> int:
        """The committed offset, once the coordinator has loaded."""
        while True:
            answer = await self.ask(broker, m.OffsetFetchRequest("g", [(NAME, NO_ID)]))
            if answer.error is None:
                return answer.partitions[0].offset
            assert answer.error in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
            await asyncio.sleep(0.01)


def commit_of(offset: int) -> m.OffsetCommitRequest:
    return m.OffsetCommitRequest("g", "", -1, None, [m.CommittedPartition(NAME, offset)])


def run(story: Callable[[Asking], Awaitable[None]]) -> None:
    """Tell a story of three brokers."""

    async def told() -> None:
        async with Cluster(brokers=3, configs=CONFIGS, seed=1) as cluster:
            await cluster.create_topic("t", 1, 3)
            await story(Asking(cluster))

    asyncio.run(told())


def test_a_commit_that_was_answered_survives_and_one_that_was_not_may_be_lost() -> None:
    async def story(here: Asking) -> None:
        first = await here.coordinator()
        assert await here.commit(first, 5) is None
        here.cluster.cut(first)
        pending = here.send(first, commit_of(9))
        await asyncio.sleep(0)
        assert not pending.done()
        assert await here.fetched(first) == 5, "whoever reads sees what is committed"
        here.cluster.kill(first)
        here.cluster.expire_session(first)
        second = await here.coordinator(other_than=first)
        assert await here.fetched(second) == 5
        assert await here.commit(second, 6) is None
        assert await here.fetched(second) == 6

    run(story)


def test_a_commit_that_took_too_long_takes_effect_later() -> None:
    async def story(here: Asking) -> None:
        coordinator = await here.coordinator()
        assert await here.commit(coordinator, 5) is None
        others = [broker for broker in here.cluster.hosts if broker != coordinator]
        for broker in others:
            here.cluster.pause(broker)
        pending = here.send(coordinator, commit_of(9))
        await asyncio.sleep(0)
        here.cluster.advance(5_000, coordinator)
        ((_, error),) = (await asyncio.wait_for(pending, PATIENCE_S)).partitions
        assert error == "COORDINATOR_NOT_AVAILABLE"
        assert await here.fetched(coordinator) == 5
        for broker in others:
            here.cluster.resume(broker)
        node = here.cluster.hosts[coordinator].node
        partition = node.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
        await here.until(lambda: partition.replica.high_watermark == partition.log.end)
        assert await here.fetched(coordinator) == 9

    run(story)


def test_a_coordinator_that_ends_while_it_loads_is_followed_by_one_that_has_everything() -> None:
    async def story(here: Asking) -> None:
        first = await here.coordinator()
        for offset in range(1, 200):
            assert await here.commit(first, offset) is None
        await here.cluster.settled()
        here.cluster.kill(first)
        here.cluster.expire_session(first)
        loading: list[int] = []

        def loads() -> bool:
            for broker, host in here.cluster.hosts.items():
                coordinator = host.node.groups.coordinators.by_partition.get(0) if host.up else None
                if coordinator is not None and coordinator.state is CoordinatorState.LOADING:
                    loading.append(broker)
            return bool(loading)

        await here.until(loads)
        second = loading[0]
        answer = await here.ask(second, m.OffsetFetchRequest("g", None))
        assert answer.error == "COORDINATOR_LOAD_IN_PROGRESS"
        heartbeat = await here.ask(second, m.HeartbeatRequest("g", 1, "m"))
        assert heartbeat.error is None, "nobody is to rejoin for it"
        here.cluster.kill(second)
        await here.cluster.restart(first)
        here.cluster.expire_session(second)
        third = await here.coordinator(other_than=second)
        assert await here.fetched(third) == 199

    run(story)


def test_nobody_but_its_coordinator_writes_to_the_offsets_topic() -> None:
    async def story(here: Asking) -> None:
        coordinator = await here.coordinator()
        producer = AIOKafkaProducer(bootstrap_servers=here.cluster.bootstrap)
        await producer.start()
        with pytest.raises(InvalidTopicError):
            await producer.send_and_wait(OFFSETS_TOPIC, b"no record of a coordinator", partition=0)
        await producer.stop()
        assert await here.commit(coordinator, 5) is None

    run(story)
