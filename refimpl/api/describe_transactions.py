"""DescribeTransactions: transactional ids and their open transactions (KIP-664)."""

from refimpl.api.authorization import Changed, Each, Resource, may
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic
from refimpl.api.permissions import DESCRIBE, TOPIC, TRANSACTIONAL_ID, refused_name
from refimpl.messages.transaction_coordination import (
    DescribeTransactionRequest,
    DescribeTransactionResponse,
)


def handle(call: Call) -> Handling:
    """Describe each transactional id."""
    states: list[Values] = []
    for transactional_id in call.request.transactional_ids:
        answer: DescribeTransactionResponse = yield DescribeTransactionRequest(transactional_id)
        states.append(_described(answer))
    return {"transaction_states": states}


def _described(one: DescribeTransactionResponse) -> Values:
    named = {"error_code": one.error, "transactional_id": one.transactional_id}
    if one.error is not None:
        return named
    topics = by_topic((name, name.partition) for name in one.partitions)
    return {
        **named,
        "transaction_state": one.state,
        "transaction_timeout": one.timeout_ms,
        "transaction_start_time": one.start_ms,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "topics": [{"topic": topic, "partitions": of} for topic, of in topics.items()],
    }


def _transactional_itself(call: Call, element: str) -> Resource:
    return TRANSACTIONAL_ID, element


def _transaction_topics(call: Call, answer: Values) -> Values:
    """The topics of a transaction that the client may not describe are left out."""

    def shown(state: Values) -> Values:
        topics = [o for o in state.get("topics", ()) if may(call, DESCRIBE, TOPIC, o["topic"])]
        return {**state, "topics": topics}

    return {**answer, "transaction_states": [shown(one) for one in answer["transaction_states"]]}


PERMISSIONS = (
    Each(
        "transactional_ids",
        DESCRIBE,
        _transactional_itself,
        refused_name("transactional_id"),
        "transaction_states",
    ),
    Changed(_transaction_topics),
)
