"""GetTelemetrySubscriptions: the metrics that a client is asked to push (KIP-714)."""

from base64 import urlsafe_b64encode

from refimpl.api.call import Call, Values
from refimpl.api.permissions import NOTHING
from refimpl.controller.client_metrics import ZERO, ClientInstance
from refimpl.controller.errors import ApiError

#: Codecs by their numbers, the preferred one first: zstd, lz4, gzip, snappy
ACCEPTED = (4, 3, 1, 2)


def handle(call: Call) -> Values:
    """The metrics that a client is asked for; one without an id is given one."""
    node = call.broker.node
    client = instance_of(call)
    if client.id == ZERO:
        client = instance_of(call, call.broker.new_id())
    try:
        asked = node.client_metrics.subscribe(call.broker.now(), client)
    except ApiError as refusal:
        return {"error_code": refusal.error}
    return {
        "error_code": None,
        "client_instance_id": client.id,
        "subscription_id": asked.subscription_id,
        "accepted_compression_types": ACCEPTED,
        "push_interval": asked.interval_ms,
        "telemetry_max_bytes": node.client_metrics.telemetry_max_bytes,
        "delta_temporality": True,
        "requested_metrics": asked.metrics,
    }


def instance_of(call: Call, new_id: bytes | None = None) -> ClientInstance:
    """The client of a request, by its own id or by a new one."""
    known, session = call.request.client_instance_id, call.session
    id = new_id or (ZERO if known is None else known.bytes)
    name = urlsafe_b64encode(id).decode().rstrip("=")
    of_client = call.client_id or "", session.software, session.host, session.port
    return ClientInstance(id, name, *of_client, call.connection)


PERMISSIONS = NOTHING
