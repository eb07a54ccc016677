"""ShareFetch: acknowledge records, and acquire others (KIP-932, KIP-1206, KIP-1222)."""

from typing import Any

from refimpl.api.authorization import Each
from refimpl.api.call import Call, Handling, Values
from refimpl.api.errors import MOVED, code
from refimpl.api.permissions import READ, on_group, refused_partitions, topic_by_id
from refimpl.api.shares import (
    NO_LEADER,
    REFUSED,
    UNKNOWN_ID,
    acknowledgements,
    by_topic_id,
    endpoints,
    is_nameless,
    leader,
    named,
)
from refimpl.messages.share import (
    BATCH_OPTIMIZED,
    ShareFetchedPartition,
    ShareFetchRequest,
    ShareFetchResponse,
)
from refimpl.wire.messages import milliseconds


def handle(call: Call) -> Handling:
    """Acknowledge, and fetch or wait."""
    request = call.request
    if is_nameless(request) or _renews_and_fetches(request):
        return REFUSED
    partitions, unknown = named(call, request.topics)
    forgotten, _ = named(call, request.forgotten_topics_data)
    answer: ShareFetchResponse = yield ShareFetchRequest(
        request.group_id,
        request.member_id,
        request.share_session_epoch,
        tuple(partitions),
        tuple(forgotten),
        acknowledgements(partitions),
        0 if unknown else milliseconds(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.max_records,
        request.batch_size,
        getattr(request, "share_acquire_mode", BATCH_OPTIMIZED),
        getattr(request, "is_renew_ack", False),
        call.connection,
    )
    found = by_topic_id(call, [(one.partition, _shown(call, one)) for one in answer.partitions])
    for topic_id, number in unknown if answer.error is None else ():
        partition = _values(number, UNKNOWN_ID, NO_LEADER)
        found.append({"topic_id": topic_id, "partitions": [partition]})
    moved = [
        one.partition
        for one in answer.partitions
        if one.error in MOVED or one.acknowledge_error in MOVED
    ]
    return {
        "error_code": answer.error,
        "error_message": None,
        "acquisition_lock_timeout": answer.lock_timeout_ms,
        "responses": found,
        "node_endpoints": endpoints(call, moved),
    }


def _renews_and_fetches(request: Any) -> bool:
    """True if a request renews locks, and wants records, too (KIP-1222)."""
    wanted = request.max_bytes, request.min_bytes, request.max_records
    return getattr(request, "is_renew_ack", False) and any((*wanted, request.max_wait))


def _values(number: int, error: str | None, current: Values) -> dict[str, object]:
    return {
        "partition_index": number,
        "error_code": error,
        "error_message": None,
        "acknowledge_error_code": 0,
        "acknowledge_error_message": None,
        "current_leader": current,
        "records": b"",
        "acquired_records": [],
    }


def _shown(call: Call, one: ShareFetchedPartition) -> Values:
    current = leader(
        call, one.partition, one.error if one.error in MOVED else one.acknowledge_error
    )
    return {
        **_values(one.partition.partition, one.error, current),
        "error_message": one.error_message,
        "acknowledge_error_code": code(one.acknowledge_error),
        "acknowledge_error_message": one.acknowledge_message,
        "records": one.records,
        "acquired_records": [
            {"first_offset": first, "last_offset": last, "delivery_count": count}
            for first, last, count in one.acquired
        ],
    }


PERMISSIONS = (
    on_group(READ),
    Each("topics", READ, topic_by_id, refused_partitions(), "responses", whole_first=True),
)
