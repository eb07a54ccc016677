"""InitProducerId: the identity of an idempotent or transactional producer (KIP-98, KIP-360)."""

from refimpl.api.call import Call, Handling
from refimpl.api.transactions import error_of
from refimpl.messages.controller import InitProducerIdRequest, InitProducerIdResponse
from refimpl.messages.transaction_coordination import InitTransactionalIdRequest
from refimpl.wire.messages import milliseconds

FENCED = 4


def handle(call: Call) -> Handling:
    """Get an id that no other producer has, or the next epoch of a transactional id."""
    request = call.request
    identity = getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    if request.transactional_id is None:
        asked = InitProducerIdRequest(*identity)
    else:
        timeout_ms = milliseconds(request.transaction_timeout)
        asked = InitTransactionalIdRequest(request.transactional_id, timeout_ms, *identity)
    response: InitProducerIdResponse = yield asked
    return {
        "error_code": error_of(call, response.error, FENCED),
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }
