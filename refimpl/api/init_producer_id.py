"""InitProducerId: the identity of an idempotent or transactional producer (KIP-98, KIP-360)."""

from refimpl.api.authorization import FAILED, Proceed, Result, may, may_cluster
from refimpl.api.call import Call, Handling
from refimpl.api.permissions import (
    CLUSTER,
    IDEMPOTENT_WRITE,
    TOPIC,
    TRANSACTIONAL_FAILED,
    TRANSACTIONAL_ID,
    WRITE,
)
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


def _init_producer_id(call: Call, proceed: Proceed) -> Result:
    """WRITE on a transactional id; IDEMPOTENT_WRITE, or WRITE on any topic, without (KIP-679)."""
    refused = {"producer_id": -1, "producer_epoch": -1}
    name = call.request.transactional_id
    if name is not None:
        if may(call, WRITE, TRANSACTIONAL_ID, name):
            return proceed(call)
        return {**refused, "error_code": TRANSACTIONAL_FAILED}
    authorizer, session = call.broker.node.authorizer, call.session
    if may_cluster(call, IDEMPOTENT_WRITE) or (
        authorizer is not None
        and authorizer.authorize_by_resource_type(
            session.principal, session.host, WRITE.value, TOPIC.value
        )
    ):
        return proceed(call)
    return {**refused, "error_code": FAILED[CLUSTER]}


PERMISSIONS = (_init_producer_id,)
