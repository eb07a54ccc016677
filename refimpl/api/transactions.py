"""Functions that the handlers of transactional APIs share."""

from refimpl.api.call import Call

FENCED, FENCED_BEFORE = "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"
"""The error of a producer that a newer one has replaced, and what older versions say of it."""


def error_of(call: Call, error: str | None, since: int) -> str | None:
    """An error as this version knows it; PRODUCER_FENCED came later than the APIs (KIP-588)."""
    return FENCED_BEFORE if error == FENCED and call.version < since else error
