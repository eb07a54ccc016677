"""InitProducerId: who an idempotent producer is (KIP-98, KIP-360)."""

from refimpl.api.call import Call, Handling
from refimpl.messages.controller import InitProducerIdRequest, InitProducerIdResponse

NOT_SERVED = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
"""Of what Kafka answers here, each client takes this for final."""


def handle(call: Call) -> Handling:
    """Get an id that nobody else has; there are no transactions to go on with."""
    request = call.request
    if request.transactional_id is not None:
        error = NOT_SERVED if request.transactional_id else "INVALID_REQUEST"
        return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
    response: InitProducerIdResponse = yield InitProducerIdRequest(
        getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    )
    return {
        "error_code": response.error,
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }
