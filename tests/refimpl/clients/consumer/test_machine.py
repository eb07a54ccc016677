"""The consumer's machine, without brokers: what its application receives."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from refimpl.clients.consumer.config import ConsumerConfig
from refimpl.clients.consumer.machine import ConsumerMachine
from refimpl.clients.consumer.messages import (
    AskCommitted,
    AskOffsets,
    CallFailed,
    CommitOffsets,
    Disconnected,
    Poll,
    Polled,
)
from refimpl.clients.consumer.position import OffsetAndEpoch
from refimpl.clients.producer.messages import Unauthenticated
from refimpl.messages import group as g
from refimpl.messages.broker import (
    FetchedPartition,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    Request,
    Response,
    Timer,
    TopicPartition,
)
from tests.refimpl.clients.consumer.scripts import Ours

ORDERS = TopicPartition("orders", 0), TopicPartition("orders", 1)


class NoOpener:
    """Nothing is ever fetched."""

    def batches(self, partition: TopicPartition, data: Any) -> Iterable[Any]:
        """Refuse."""
        raise NotImplementedError


def test_a_seek_makes_errors_of_the_position_before_void() -> None:
    """A fetch may fail once more between a poll that has ended and the seek that follows it."""
    config = ConsumerConfig.of({"bootstrap.servers": "h:1"})
    machine = ConsumerMachine(config, NoOpener(), (-1,), lambda: 0.5)
    machine.assign(0, ORDERS)
    for name in ORDERS:
        machine.seek(name, OffsetAndEpoch(99))
        machine.fail("OFFSET_OUT_OF_RANGE", "there is no such offset", (name,))
    machine.seek(ORDERS[0], OffsetAndEpoch(1))
    answers = [machine.handle(now, Poll(now, 0)) for now in (1, 2)]
    told = [one for outputs in answers for one in outputs if isinstance(one, CallFailed | Polled)]
    sentence = "there is no such offset"
    assert told == [CallFailed(1, "OFFSET_OUT_OF_RANGE", sentence, (ORDERS[1],)), Polled(2)]


def test_a_broker_that_lets_nobody_in_ends_all_calls_that_wait() -> None:
    config = ConsumerConfig.of({"bootstrap.servers": "h:1", "group.id": "g"})
    machine = ConsumerMachine(config, NoOpener(), (-1,), lambda: 0.5)
    machine.assign(0, ORDERS)
    for number, message in enumerate(
        (
            Poll("poll", 1000),
            AskOffsets("ends", dict.fromkeys(ORDERS, -1)),
            AskCommitted("committed", ORDERS),
            CommitOffsets("commit", {ORDERS[0]: (OffsetAndEpoch(5), "")}),
        )
    ):
        machine.handle(number, message)
    reason = Unauthenticated("SASL_AUTHENTICATION_FAILED", "no such user")
    outputs = machine.handle(9, Disconnected(-1, reason))
    refused = {one.handle: one.error for one in outputs if isinstance(one, CallFailed)}
    assert refused == dict.fromkeys(("poll", "ends", "committed", "commit"), reason.error)
    later = machine.handle(10, Poll("later", 1000))
    assert not any(isinstance(one, CallFailed) for one in later)


class Host:
    """A host whose brokers answer at once, as long as they are asked; it counts the requests."""

    def __init__(self, machine: ConsumerMachine) -> None:
        self.machine, self.asked = machine, Counter[type]()

    def run(self, until_ms: int) -> None:
        """Answer all that is asked up to a time; the machine's timers come when they are due."""
        now, timers, inputs = 0, list[int](), list[Any]([Timer(0, "consumer")])
        while inputs or timers:
            if not inputs:
                now = min(timers)
                timers = [one for one in timers if one > now]
                inputs.append(Timer(now, "consumer"))
            if now > until_ms:
                return
            for output in self.machine.handle(now, inputs.pop(0)):
                if isinstance(output, Timer):
                    timers.append(output.at_ms)
                elif isinstance(output, Request):
                    self.asked[type(output.body)] += 1
                    assert self.asked.total() < 100
                    answer = _answer(output.body)
                    inputs.append(Response(output.target, -1, output.correlation_id, answer))


def _answer(body: Any) -> Any:
    match body:
        case MetadataRequest():
            leaders = [PartitionMetadata(one, None, 1, 0, frozenset((1,))) for one in ORDERS]
            return MetadataResponse(leaders)
        case FetchRequest():
            error = "OFFSET_OUT_OF_RANGE"
            return FetchResponse(
                [FetchedPartition(one.partition, error) for one in body.partitions]
            )
        case g.FindCoordinatorRequest():
            return g.FindCoordinatorResponse([g.FoundCoordinator(body.keys[0], None, 1)])
        case _:
            assert isinstance(body, g.OffsetFetchRequest)
            found = [g.FetchedOffset(one) for one in ORDERS]
            return g.OffsetFetchResponse(body.group_id, None, found)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_without_a_reset_brokers_are_not_asked_again_at_once(group_id: str | None) -> None:
    """The application hears of the error when it polls; until then nothing has changed."""
    given = {"bootstrap.servers": "h:1", "auto.offset.reset": "none"}
    config = ConsumerConfig.of({**given, "group.id": group_id})
    machine = ConsumerMachine(config, NoOpener(), (-1,), lambda: 0.5)
    machine.assign(0, ORDERS)
    for name in ORDERS if group_id is None else ():
        machine.seek(name, OffsetAndEpoch(99))
    host = Host(machine)
    host.run(until_ms=1000)
    kind = FetchRequest if group_id is None else g.OffsetFetchRequest
    assert 2 <= host.asked[kind] <= 15


NODES = {"partitions": 2, "nodes": 2, "reset": "none", "most": 1}


def asked(events: dict[str, Any], api: str) -> int:
    """The id of the only request of an API in the events of a step."""
    (found,) = [one["id"] for one in events["sent"] if one["api"] == api]
    return found


def fetched(partition: int, offsets: list[int], error: str = "", replica: int = -1) -> Any:
    records = [[at, 0] for at in offsets]
    return {str(partition): {"error": error, "records": records, "replica": replica}}


def test_a_follower_is_read_until_it_does_not_have_the_offset() -> None:
    """KIP-392: the leader names it, and is asked again before anything is reset."""
    ours = Ours(NODES | {"partitions": 1})
    ours.play(["seek", 0, 5, -1])
    first = ours.play(["poll"])
    assert [one["node"] for one in first["sent"]] == [1]
    ours.play(["answer", asked(first, "Fetch"), fetched(0, [], replica=2)])
    second = ours.play(["poll"])
    assert [one["node"] for one in second["sent"]] == [2]
    ours.play(["answer", asked(second, "Fetch"), fetched(0, [], "OFFSET_OUT_OF_RANGE")])
    third = ours.play(["poll"])
    assert [(one["node"], one["api"]) for one in third["sent"]] == [(1, "Fetch")]
    assert third["positions"] == {"0": ["fetching", 5, -1]}


def test_a_follower_whose_connection_has_ended_is_left() -> None:
    ours = Ours(NODES | {"partitions": 1})
    ours.play(["seek", 0, 5, -1])
    ours.play(["answer", asked(ours.play(["poll"]), "Fetch"), fetched(0, [], replica=2)])
    assert [one["node"] for one in ours.play(["poll"])["sent"]] == [2]
    ours.sent.clear()
    ours.give(Disconnected(2))
    assert [one["node"] for one in ours.sent] == [1]


def test_a_fetch_of_a_position_that_has_moved_names_no_follower() -> None:
    ours = Ours(NODES | {"partitions": 1})
    ours.play(["seek", 0, 5, -1])
    old = asked(ours.play(["poll"]), "Fetch")
    ours.play(["seek", 0, 9, -1])
    ours.play(["answer", old, fetched(0, [], replica=2)])
    assert [one["node"] for one in ours.play(["poll"])["sent"]] == [1]


def test_an_error_of_a_fetch_is_none_of_a_position_that_is_reset() -> None:
    ours = Ours(NODES | {"partitions": 1})
    ours.play(["seek", 0, 5, -1])
    old = asked(ours.play(["poll"]), "Fetch")
    ours.play(["end", 0])
    ours.play(["answer", old, fetched(0, [], "TOPIC_AUTHORIZATION_FAILED")])
    assert "error" not in ours.play(["poll"])


def test_a_truncated_position_waits_for_a_seek_whatever_a_fetch_says() -> None:
    ours = Ours(NODES | {"partitions": 1})
    ours.play(["seek", 0, 5, -1])
    old = asked(ours.play(["poll"]), "Fetch")
    ours.play(["seek", 0, 9, 0])
    end = {"0": {"error": "", "offset": 3, "epoch": 0}}
    ours.play(["answer", asked(ours.play(["poll"]), "OffsetForLeaderEpoch"), end])
    assert ours.play(["poll"])["error"] == "LOG_TRUNCATION"
    ours.play(["answer", old, fetched(0, [], "KAFKA_STORAGE_ERROR")])
    assert ours.play(["poll"])["sent"] == []


def test_a_partition_that_was_paused_is_behind_those_that_waited() -> None:
    ours = Ours(NODES | {"partitions": 3, "nodes": 1})
    for partition in range(3):
        ours.play(["seek", partition, 5, -1])
    rows = fetched(0, [5]) | fetched(1, [5]) | fetched(2, [5])
    first = asked(ours.play(["poll"]), "Fetch")
    ours.play(["pause", 0])
    ours.play(["answer", first, rows])
    returned = [ours.play(["poll"])["records"]]
    ours.play(["resume", 0])
    returned += [ours.play(["poll"])["records"] for _ in range(2)]
    assert returned == [{"1": [5]}, {"2": [5]}, {"0": [5]}]
