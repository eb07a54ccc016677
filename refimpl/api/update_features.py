"""UpdateFeatures: the levels of features, `transaction.version` and `share.version` (KIP-584)."""

from typing import Any

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Handling, Values
from refimpl.api.control import timeout_ms
from refimpl.api.permissions import ALTER, with_message
from refimpl.messages.controller import UPGRADE, FeatureUpdate, UpdateFeaturesRequest

RESULTS_UNTIL = 1
"""Later versions have no result for each feature, since all have the same."""

NO_ERROR = "NONE"
"""Kafka's message of such a result."""


def handle(call: Call) -> Handling:
    """Have the controller keep them.

    Version 0 has no type of upgrade. Like Kafka 4.3.1 we take it for an upgrade, whatever its
    `allow_downgrade` says.
    """
    request = call.request
    updates = tuple(
        FeatureUpdate(one.feature, one.max_version_level, getattr(one, "upgrade_type", UPGRADE))
        for one in request.feature_updates
    )
    validate_only = getattr(request, "validate_only", False)
    answer: Any = yield UpdateFeaturesRequest(updates, validate_only, timeout_ms(call))
    values: Values = {"error_code": answer.error, "error_message": answer.message}
    if call.version > RESULTS_UNTIL:
        return values
    return {**values, "results": [] if answer.error else list(map(_result, updates))}


def _result(one: FeatureUpdate) -> Values:
    return {"feature": one.name, "error_code": None, "error_message": NO_ERROR}


PERMISSIONS = (OnCluster((ALTER,), with_message),)
