"""Topics that a broker asks its controller for, because a client asked for them."""

from typing import Any

import pytest

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.forwarding import AutoTopics, AutoTopicsConfig
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response
from refimpl.messages.cluster import ClusterMetadata, TopicCreated
from refimpl.messages.observations import Refused


@pytest.mark.parametrize(
    "body",
    [
        c.ControlResponse("NOT_CONTROLLER"),
        c.CreateTopicsResponse((c.CreatedTopic("orders", "NOT_CONTROLLER"),)),
    ],
)
def test_who_asks_a_deposed_controller_goes_on_and_may_ask_again(body: object) -> None:
    """The answer of who is not controller names no topics: the broker's process ended of it."""
    context = Context(1, BrokerConfig(), 1)
    topics = AutoTopics(context, ClusterMetadata())
    topics.create(("orders",))
    asked: Request = context.outputs.pop()
    answer = Response(asked.target, asked.source, asked.correlation_id, body)
    assert topics.answered(answer)
    assert context.outputs == [Refused("automatic topics", "NOT_CONTROLLER")]
    assert not topics.answered(answer)
    topics.create(("orders",))
    assert context.outputs[-1].body == asked.body


def asking(**of: Any) -> AutoTopics:
    metadata = ClusterMetadata()
    metadata.apply(TopicCreated("there", b"t" * 16))
    return AutoTopics(Context(1, BrokerConfig(), 1), metadata, AutoTopicsConfig(**of))


def made(topics: AutoTopics) -> list[c.CreatableTopic]:
    """The topics that the controller was asked to create."""
    outputs, topics.context.outputs = topics.context.outputs, []
    return [topic for one in outputs for topic in one.body.body.topics]


def test_what_is_missing_is_asked_for_once_where_that_is_allowed() -> None:
    topics = asking()
    errors = topics.errors(("there", "t", "a/b"), "app", allowed=True)
    assert errors == {"t": "UNKNOWN_TOPIC_OR_PARTITION", "a/b": "INVALID_TOPIC_EXCEPTION"}
    (asked,) = topics.context.outputs
    assert asked.body.body.mutator == c.Mutator("app")
    assert made(topics) == [c.CreatableTopic("t")]
    topics.errors(("t", "u"), allowed=True)
    assert made(topics) == [c.CreatableTopic("u")]
    topics.errors(("there", "t", "u"), allowed=True)
    assert topics.context.outputs == [], "nothing is missing that was not asked for"
    topics.forget()
    topics.errors(("t",), allowed=True)
    assert made(topics) == [c.CreatableTopic("t")]


@pytest.mark.parametrize(("enabled", "allowed"), [(True, False), (False, True)])
def test_where_it_is_not_allowed_nothing_is_made(enabled: bool, allowed: bool) -> None:
    topics = asking(auto_create_topics_enable=enabled)
    errors = topics.errors(("t",), allowed=allowed)
    assert (errors, made(topics)) == ({"t": "UNKNOWN_TOPIC_OR_PARTITION"}, [])


def test_the_coordinators_topics_are_made_as_their_settings_say() -> None:
    topics = asking(
        offsets_topic_num_partitions=7,
        offsets_topic_replication_factor=2,
        offsets_topic_segment_bytes=99,
        transaction_state_log_num_partitions=8,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
    )
    topics.create(("__consumer_offsets", "__transaction_state"))
    offsets, transactions = made(topics)
    assert (offsets.num_partitions, offsets.replication_factor) == (7, 2)
    assert dict(offsets.configs) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "99",
    }
    assert (transactions.num_partitions, transactions.replication_factor) == (8, 1)
    assert dict(transactions.configs) == {
        "unclean.leader.election.enable": "false",
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "segment.bytes": str(100 << 20),
    }


def test_what_was_made_is_no_refusal() -> None:
    topics = asking()
    topics.create(("t",))
    asked: Request = topics.context.outputs.pop()
    body = c.CreateTopicsResponse((c.CreatedTopic("t", None),))
    assert topics.answered(Response(asked.target, asked.source, asked.correlation_id, body))
    assert topics.context.outputs == []
