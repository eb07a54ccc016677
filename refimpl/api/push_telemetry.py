"""PushTelemetry: a client's metrics (KIP-714)."""

from refimpl.api.call import Call, ClientTelemetry, Values
from refimpl.api.get_telemetry_subscriptions import instance_of
from refimpl.api.permissions import NOTHING
from refimpl.controller.client_metrics import ClientInstance
from refimpl.controller.errors import ApiError
from refimpl.errors import CorruptBatch, MessageTooLarge
from refimpl.storage.format.compression import Codec, decompress


def handle(call: Call) -> Values:
    """Take the metrics, and hand them to whoever takes them from us."""
    request, metrics = call.request, call.broker.node.client_metrics
    client = instance_of(call)
    try:
        interval_ms = metrics.push(
            *(call.broker.now(), client, request.subscription_id),
            *(request.compression_type, len(request.metrics)),
            is_terminating=request.terminating,
        )
    except ApiError as refusal:
        return {"error_code": refusal.error}
    error = _handed_on(call, client, interval_ms) if request.metrics else None
    if error is not None:
        metrics.failed(client, error)
    return {"error_code": error}


def _handed_on(call: Call, client: ClientInstance, interval_ms: int) -> str | None:
    """The error of metrics that do not decompress to what may be sent, or that are refused."""
    request, take = call.request, call.broker.client_telemetry
    try:
        most = call.broker.node.client_metrics.telemetry_max_bytes
        data = decompress(Codec(request.compression_type), request.metrics, most)
        if take is not None:
            told = ClientTelemetry(
                *(client.name, client.client_id, *client.software, client.address),
                *(call.session.principal, request.terminating, interval_ms, data),
            )
            take(told)
    except (CorruptBatch, MessageTooLarge):
        return "INVALID_RECORD"
    except Exception as refused:
        call.broker.telemetry_failed(refused)
        return "INVALID_RECORD"
    return None


PERMISSIONS = NOTHING
