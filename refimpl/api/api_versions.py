"""ApiVersions: what is served (KIP-35), since version 3 with features (KIP-584).

A version that is not served is answered too, in a body of version 0 that names what is (KIP-511):
`unsupported`.
"""

import re

from refimpl.api.call import Call, Values
from refimpl.api.permissions import NOTHING
from refimpl.api.table import APIS
from refimpl.controller.features import SUPPORTED, level_of

UNSUPPORTED_BODY = 0
WITH_SOFTWARE, FEATURES_FROM_0 = 3, 4
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The name and the version of a client's software (KIP-511)."""

#: Said of Produce, whose versions before 3 are not served: without it librdkafka before 2.8 takes
#: a broker for too old to compress (KAFKA-18659)
FIRST_PRODUCE = 0

TELEMETRY = (71, 72)
"""GetTelemetrySubscriptions, PushTelemetry"""


def handle(call: Call) -> Values:
    """All APIs with their first and last versions, and the features of the cluster.

    Versions before 4 leave out a feature that may be at level 0 (KAFKA-17011).
    """
    if call.version >= WITH_SOFTWARE:
        request = call.request
        software = request.client_software_name, request.client_software_version
        if not all(SOFTWARE.fullmatch(one) for one in software):
            return {"error_code": "INVALID_REQUEST"}
        call.session.software = software
    now = call.broker.node.metadata.features
    supported = [
        {"name": name, "min_version": first, "max_version": last}
        for name, (first, last) in SUPPORTED.items()
        if first or call.version >= FEATURES_FROM_0
    ]
    levels = {name: level_of(name, now, call.broker.configs) for name in SUPPORTED}
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in levels.items()
        if level
    ]
    return {
        "error_code": None,
        "api_keys": _listed(telemetry=call.broker.client_telemetry is not None),
        "supported_features": supported,
        "finalized_features_epoch": now.epoch,
        "finalized_features": finalized,
    }


def unsupported() -> Values:
    """The answer to a version from the future."""
    return {"error_code": "UNSUPPORTED_VERSION", "api_keys": _listed()}


def _listed(*, telemetry: bool = False) -> list[Values]:
    """All APIs; those of telemetry, as in Kafka, where there is somebody who takes it."""
    return [
        {
            "api_key": api.key,
            "min_version": api.first if api.key else FIRST_PRODUCE,
            "max_version": api.last,
        }
        for api in sorted(APIS.values(), key=lambda one: one.key)
        if telemetry or api.key not in TELEMETRY
    ]


PERMISSIONS = NOTHING
