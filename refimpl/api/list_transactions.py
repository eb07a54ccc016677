"""ListTransactions: the transactional ids of this broker (KIP-664), by how long they are open
(KIP-994) and by a pattern (KIP-1152)."""

from operator import itemgetter

from refimpl.api.authorization import Seen
from refimpl.api.call import Call, Handling
from refimpl.api.permissions import DESCRIBE, TRANSACTIONAL_ID
from refimpl.messages.transaction_coordination import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


def handle(call: Call) -> Handling:
    """Every transactional id that this broker coordinates and a filter admits."""
    request = call.request
    answer: ListTransactionsResponse = yield ListTransactionsRequest(
        tuple(request.state_filters),
        tuple(request.producer_id_filters),
        getattr(request, "duration_filter", -1),
        getattr(request, "transactional_id_pattern", None),
    )
    states = [
        {
            "transactional_id": one.transactional_id,
            "producer_id": one.producer_id,
            "transaction_state": one.state,
        }
        for one in answer.transactions
    ]
    return {
        "error_code": answer.error,
        "unknown_state_filters": answer.unknown_states,
        "transaction_states": states,
    }


PERMISSIONS = (
    Seen("transaction_states", DESCRIBE, TRANSACTIONAL_ID, itemgetter("transactional_id")),
)
