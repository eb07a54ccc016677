"""SaslAuthenticate: nobody logs in at a listener without SASL."""

from refimpl.api.call import Call, Values
from refimpl.api.permissions import NOTHING

WHY = "SaslAuthenticate request received after successful authentication"
"""Kafka's words, also where there was none."""


def handle(call: Call) -> Values:
    """Refuse, as Kafka does at a PLAINTEXT listener."""
    return {"error_code": "ILLEGAL_SASL_STATE", "error_message": WHY, "auth_bytes": b""}


PERMISSIONS = NOTHING
