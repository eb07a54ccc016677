"""Brokers and their controller: registrations, sessions, controlled shutdown, and the news."""

from typing import Any

import pytest

from refimpl.controller.controller import BALANCE, SESSIONS
from refimpl.controller.state import ControllerConfig
from refimpl.machines.messages import AlterPartitionRequest
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import BrokerRegistration
from refimpl.messages.observations import (
    Ignored,
    IsrAnswered,
    Refused,
    Registered,
    SessionEnded,
    SessionResumed,
)
from tests.refimpl.controller.asking import Asking

T0 = TopicPartition("t", 0)
SESSION_MS = ControllerConfig().broker_session_timeout_ms


def handled(asking: Asking, now: int, body: Any, source: int = 100) -> list[Any]:
    """All that follows from a request."""
    asking.number += 1
    return [*asking.controller.handle(now, m.Request(source, 0, asking.number, body))]


def registering(broker: int, incarnation: int, previous: int = -1) -> c.BrokerRegistrationRequest:
    return c.BrokerRegistrationRequest(broker, incarnation, previous)


def beat(asking: Asking, now: int, broker: int, *, stop: bool = False, **of: Any) -> list[Any]:
    epoch = of.pop("epoch", asking.controller.registry.epochs[broker])
    known = asking.controller.metadata.metadata_version
    body = c.BrokerHeartbeatRequest(broker, epoch, of.pop("version", known), stop, **of)
    return handled(asking, now, body, broker)


def tick(asking: Asking, now: int, name: str = SESSIONS) -> list[Any]:
    return [*asking.controller.handle(now, m.Timer(now, name))]


def answered(outputs: list[Any]) -> Any:
    (answer,) = [one.body for one in outputs if isinstance(one, m.Response)]
    return answer


def told(outputs: list[Any]) -> dict[int, bool]:
    """The brokers that receive an update, and True for each that receives a full one."""
    return {one.target: one.body.is_full for one in outputs if isinstance(one, m.Request)}


def leader(asking: Asking) -> int | None:
    return asking.partition("t").decision.leader


# Registration (KIP-631)


def test_a_process_that_asks_again_is_told_the_same_and_an_older_one_is_refused() -> None:
    asking = Asking()
    epoch = asking.controller.registry.epochs[1]
    outputs = handled(asking, 0, registering(1, 2, epoch), 1)
    first = answered(outputs)
    assert first == c.BrokerRegistrationResponse(None, 4)
    assert Registered(1, 2, 4) in outputs
    assert answered(handled(asking, 0, registering(1, 2, epoch), 1)) == first
    assert answered(handled(asking, 0, registering(1, 1), 1)) == c.BrokerRegistrationResponse(
        "DUPLICATE_BROKER_REGISTRATION", -1
    )


def test_a_new_process_does_not_lead_what_the_one_before_it_led() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    epoch = asking.controller.registry.epochs[1]
    handled(asking, 0, registering(1, 2, epoch), 1)
    assert (leader(asking), asking.partition("t").decision.isr) == (2, {2})
    assert not asking.controller.metadata.brokers[1].fenced


@pytest.mark.parametrize(("names", "elr"), [(0, {1}), (-1, set[int]()), (None, set[int]())])
def test_a_process_that_does_not_name_the_one_before_it_may_have_lost_records(
    names: int | None, elr: set[int]
) -> None:
    """KIP-966: an older mark of a controlled shutdown says nothing of the process since then."""
    asking = Asking()
    asking.create("t", (1, 2), **{"min.insync.replicas": "2"})
    last = asking.controller.registry.epochs[1]
    handled(asking, 0, registering(1, 2, -1 if names is None else last + names), 1)
    assert asking.partition("t").elr == elr


def test_brokers_that_are_expected_count_as_alive_until_they_register() -> None:
    asking = Asking(brokers=0)
    asking.controller.expect((1, 2))
    asking.create("t", (1, 2))
    assert asking.controller.metadata.brokers[1] == BrokerRegistration(1, 0, 0)
    assert leader(asking) == 1
    handled(asking, 0, registering(1, 1), 1)
    assert leader(asking) == 1, "nobody has led before it"


def test_who_is_expected_is_told_nothing_before_it_registers() -> None:
    asking = Asking(brokers=0)
    asking.controller.expect((1, 2))
    assert told(handled(asking, 0, registering(1, 1), 1)) == {1: True}
    topic = c.CreatableTopic("t", assignments=((0, (1, 2)),))
    assert told(handled(asking, 0, c.CreateTopicsRequest((topic,)))) == {1: False}


def test_news_are_numbered_one_after_the_other() -> None:
    asking = Asking()
    outputs = handled(asking, 0, registering(1, 2, 1), 1)
    outputs += handled(asking, 0, registering(2, 2, 2), 2)
    numbers = [one.correlation_id for one in outputs if isinstance(one, m.Request)]
    assert len(numbers) > 3
    assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]


# Sessions


def test_who_is_silent_for_the_session_time_out_is_fenced_and_another_leads() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    for broker in (2, 3):
        beat(asking, SESSION_MS, broker)
    outputs = tick(asking, SESSION_MS - 1)
    assert m.Timer(SESSION_MS - 1 + SESSION_MS // 6, SESSIONS) in outputs
    assert not [one for one in outputs if isinstance(one, SessionEnded)]
    outputs = tick(asking, SESSION_MS + 1)
    assert [one for one in outputs if isinstance(one, SessionEnded)] == [SessionEnded(1)]
    assert (leader(asking), asking.controller.metadata.brokers[1].fenced) == (2, True)
    assert told(outputs) == {1: False, 2: False, 3: False}


def test_who_is_heard_of_again_takes_part_again() -> None:
    asking = Asking()
    asking.create("t", (1,))
    for broker in (2, 3):
        beat(asking, 2 * SESSION_MS, broker)
    tick(asking, 2 * SESSION_MS)
    assert leader(asking) is None
    outputs = beat(asking, 2 * SESSION_MS, 1)
    assert SessionResumed(1) in outputs
    assert answered(outputs) == c.BrokerHeartbeatResponse(None, False)
    assert (leader(asking), asking.controller.metadata.brokers[1].fenced) == (1, False)
    assert SessionResumed(1) not in beat(asking, 2 * SESSION_MS, 1)


def test_an_earlier_process_is_not_heard() -> None:
    asking = Asking()
    outputs = beat(asking, 0, 1, epoch=99)
    assert answered(outputs).error == "STALE_BROKER_EPOCH"
    assert Ignored("heartbeats of an earlier incarnation") in outputs
    beat(asking, 0, 1, epoch=99, stop=True)
    assert not asking.controller.registry.leaving


def test_who_wants_to_stop_may_when_others_lead() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    outputs = beat(asking, 0, 1, stop=True)
    assert answered(outputs) == c.BrokerHeartbeatResponse(None, True)
    assert leader(asking) == 2
    here = asking.controller.metadata.brokers[1]
    assert (here.fenced, here.in_controlled_shutdown, here.broker_epoch) == (True, True, 1)
    version = asking.controller.metadata.metadata_version
    assert answered(beat(asking, 0, 1, stop=True)) == c.BrokerHeartbeatResponse(None, True)
    assert asking.controller.metadata.metadata_version == version, "said once"


def test_who_is_fenced_may_want_to_stop_as_well() -> None:
    asking = Asking()
    tick(asking, 2 * SESSION_MS)
    assert answered(beat(asking, 2 * SESSION_MS, 1, stop=True)).should_shut_down
    assert asking.controller.metadata.brokers[1].in_controlled_shutdown


def test_a_session_ends_where_the_store_says_so() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    before = asking.controller.metadata.brokers[1]
    asking.controller.vanish(1)
    assert SessionEnded(1) in asking.controller.state.outputs
    assert leader(asking) == 2
    assert asking.controller.metadata.brokers[1] == before._replace(fenced=True)


# News


def test_who_is_behind_is_told_everything_and_the_others_what_changed() -> None:
    asking = Asking()
    version = asking.controller.metadata.metadata_version
    assert told(beat(asking, 0, 1)) == {}
    assert told(beat(asking, 0, 1, version=version - 1)) == {1: True}
    assert asking.controller.metadata.metadata_version == version
    assert told(beat(asking, 0, 1, controller_epoch=-2)) == {1: True}
    assert told(handled(asking, 0, registering(4, 1), 4)) == {
        **dict.fromkeys((1, 2, 3), False),
        4: True,
    }
    assert asking.controller.metadata.metadata_version == version + 1


def test_news_are_for_the_process_that_is_registered() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    assert asking.news[-1].broker_epoch == asking.controller.registry.epochs[3]
    numbers = [
        one.correlation_id
        for topic in "uv"
        for one in handled(asking, 0, c.CreateTopicsRequest((c.CreatableTopic(topic),)))
        if isinstance(one, m.Request)
    ]
    assert len(set(numbers)) == len(numbers) == 6


# Timers, leaders


@pytest.mark.parametrize("interval", [0, 500])
def test_preferred_leaders_are_looked_after_if_that_is_wanted(interval: int) -> None:
    asking = Asking(ControllerConfig(leader_imbalance_check_interval_ms=interval))
    timers = [one for one in asking.controller.start(100) if isinstance(one, m.Timer)]
    wanted = [m.Timer(100 + SESSION_MS // 6, SESSIONS)]
    assert timers == wanted + ([m.Timer(600, BALANCE)] if interval else [])


def test_leaders_go_back_to_the_first_replicas_when_their_time_has_come() -> None:
    asking = Asking(ControllerConfig(leader_imbalance_check_interval_ms=500))
    asking.create("t", (1, 2))
    outputs = [*asking.controller.move_leader(0, T0, 2)]
    assert Ignored("preferred elections") in outputs
    assert leader(asking) == 2
    outputs = tick(asking, 700, BALANCE)
    assert (leader(asking), m.Timer(1200, BALANCE) in outputs) == (1, True)
    before = asking.partition("t")
    tick(asking, 1200, BALANCE)
    assert asking.partition("t") == before, "everything is in its place"


def test_who_may_not_lead_is_refused() -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    outputs = [*asking.controller.move_leader(0, T0, 3)]
    (refused,) = [one for one in outputs if isinstance(one, Refused)]
    assert refused.what == "ElectLeaders"
    assert leader(asking) == 1


# The ISR


@pytest.mark.parametrize(
    ("topic_id", "error"), [(b"another", "UNKNOWN_TOPIC_ID"), (b"", None), (None, None)]
)
def test_a_change_of_the_isr_is_for_the_topic_that_was_meant(
    topic_id: bytes | None, error: str | None
) -> None:
    asking = Asking()
    asking.create("t", (1, 2))
    here = asking.partition("t")
    change = AlterPartitionRequest(1, 1, here.decision.leader_epoch, 0, ((1, 1), (2, 2)))
    id = here.topic_id if topic_id is None else topic_id
    assert asking.ask(c.AlterPartitionRequest(T0, change, id), 1).outcome.error == error
    answers = [one for one in asking.observed if isinstance(one, IsrAnswered)]
    assert [(one.partition, one.active) for one in answers] == (
        [] if error else [(T0, frozenset({1, 2, 3}))]
    )
    gone = c.AlterPartitionRequest(TopicPartition("u", 0), change, id)
    assert asking.ask(gone, 1).outcome.error == "UNKNOWN_TOPIC_ID"


def test_what_a_broker_passes_on_for_a_client_is_answered_as_the_clients_own() -> None:
    """KIP-590."""
    asking = Asking()
    envelope = c.Envelope(c.CreateTopicsRequest((c.CreatableTopic("t"),)))
    (created,) = asking.ask(envelope, 1).topics
    assert (created.name, created.error) == ("t", None)
    assert handled(asking, 0, c.BrokerHeartbeatResponse(None, False)) == []
