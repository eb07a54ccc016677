"""EndTxn: commit or abort (KIP-98); since version 5 with the next epoch in the answer (KIP-890)."""

from refimpl.api.call import Call, Handling
from refimpl.api.permissions import on_transaction
from refimpl.api.transactions import error_of
from refimpl.messages.transaction_coordination import EndTxnRequest, EndTxnResponse

FENCED, NEW_EPOCH = 2, 5


def handle(call: Call) -> Handling:
    """Let the transaction's coordinator decide."""
    request = call.request
    version = 2 if call.version >= NEW_EPOCH else 0
    answer: EndTxnResponse = yield EndTxnRequest(
        *(request.transactional_id, request.producer_id, request.producer_epoch),
        *(request.committed, version),
    )
    return {
        "error_code": error_of(call, answer.error, FENCED),
        "producer_id": answer.producer_id,
        "producer_epoch": answer.producer_epoch,
    }


PERMISSIONS = (on_transaction(),)
