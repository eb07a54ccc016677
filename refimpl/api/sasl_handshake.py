"""SaslHandshake: nobody logs in at a listener without SASL; clients take that for final."""

from refimpl.api.call import Call, Values
from refimpl.api.permissions import NOTHING


def handle(call: Call) -> Values:
    """Refuse, as Kafka does at a PLAINTEXT listener."""
    return {"error_code": "ILLEGAL_SASL_STATE", "mechanisms": ()}


PERMISSIONS = NOTHING
