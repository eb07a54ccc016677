"""AddOffsetsToTxn: a group's offsets become part of a transaction (KIP-98)."""

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import READ, on_group, on_transaction
from refimpl.api.transactions import error_of
from refimpl.messages.transaction_coordination import AddOffsetsToTxnRequest

FENCED = 2


def handle(call: Call) -> Handling:
    """Add the partition of the group's offsets."""
    request = call.request
    answer = yield AddOffsetsToTxnRequest(
        *(request.transactional_id, request.producer_id, request.producer_epoch),
        request.group_id,
    )
    return {"error_code": error_of(call, answer.error, FENCED)}


PERMISSIONS = (on_transaction(), on_group(READ))
