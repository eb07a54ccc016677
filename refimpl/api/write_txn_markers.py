"""WriteTxnMarkers: the end of transactions, from their coordinator or an operator (KIP-98,
KIP-664, KIP-890).
"""

from typing import Any

from refimpl.api.call import Call, Handling
from refimpl.api.control import by_topic, partitions
from refimpl.messages.transactions import (
    TxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


def handle(call: Call) -> Handling:
    """Have the markers written; one answer for all."""
    answer: WriteTxnMarkersResponse = yield WriteTxnMarkersRequest(
        tuple(_marker(one) for one in call.request.markers)
    )
    return {
        "markers": [
            {
                "producer_id": producer_id,
                "topics": [
                    {
                        "name": topic,
                        "partitions": [
                            {"partition_index": number, "error_code": error} for number, error in of
                        ],
                    }
                    for topic, of in by_topic(
                        (name, (name.partition, error)) for name, error in errors.items()
                    ).items()
                ],
            }
            for producer_id, errors in answer.errors.items()
        ]
    }


def _marker(one: Any) -> TxnMarker:
    return TxnMarker(
        one.producer_id,
        one.producer_epoch,
        one.transaction_result,
        tuple(partitions(one.topics, "name", "partition_indexes")),
        one.coordinator_epoch,
        getattr(one, "transaction_version", 0),
    )
