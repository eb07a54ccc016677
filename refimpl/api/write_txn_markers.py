"""WriteTxnMarkers: the end of transactions, from their coordinator or an operator (KIP-98,
KIP-664, KIP-890).
"""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import by_topic, partitions
from refimpl.api.permissions import ALTER, CLUSTER_ACTION, refused_partitions
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


def _no_marker(call: Call, error: str) -> Values:
    of = refused_partitions("partition_indexes")
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [of(call, topic, error) for topic in marker.topics],
            }
            for marker in call.request.markers
        ]
    }


PERMISSIONS = (OnCluster((ALTER, CLUSTER_ACTION), _no_marker),)
