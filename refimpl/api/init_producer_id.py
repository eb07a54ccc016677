"""InitProducerId: who an idempotent producer is (KIP-98, KIP-360)."""

from refimpl.api.call import Call, Handling
from refimpl.broker.control_messages import InitProducerIdRequest, InitProducerIdResponse


def handle(call: Call) -> Handling:
    """Get an id that nobody else has, or the next epoch of the producer's own."""
    request = call.request
    response: InitProducerIdResponse = yield InitProducerIdRequest(
        getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
    )
    return {
        "error_code": response.error,
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }
