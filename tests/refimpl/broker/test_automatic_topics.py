"""Topics that a broker asks its controller for, because a client asked for them."""

import pytest

from refimpl.broker import control_messages as c
from refimpl.broker.cluster import ClusterMetadata
from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.forwarding import AutoTopics
from refimpl.broker.messages import Request, Response
from refimpl.broker.observations import Refused


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
