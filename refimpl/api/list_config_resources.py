"""ListConfigResources: of what there are configurations (KIP-1142; version 0 is KIP-714's)."""

from refimpl.api.authorization import OnCluster
from refimpl.api.call import Call, Values
from refimpl.api.metadata import alive_brokers
from refimpl.api.permissions import DESCRIBE_CONFIGS, with_error

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SUPPORTED = {0: (CLIENT_METRICS,), 1: (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)}
"""Types of resources that may be asked for, by version."""


def handle(call: Call) -> Values:
    """Brokers, topics, and the groups and client metrics that are configured."""
    supported = SUPPORTED[call.version]
    wanted = getattr(call.request, "resource_types", ()) or supported
    if not set(wanted) <= set(supported):
        return {"error_code": "UNSUPPORTED_VERSION", "config_resources": ()}
    brokers = [str(one) for one in sorted(alive_brokers(call.broker))]
    names = {
        **dict.fromkeys((BROKER_LOGGER, BROKER), brokers),
        TOPIC: list(call.broker.node.metadata.topics),
        **{
            number: [one.name for one in call.broker.node.metadata.configs if one.type == kind]
            for number, kind in ((GROUP, "group"), (CLIENT_METRICS, "client-metrics"))
        },
    }
    found = [
        {"resource_name": name, "resource_type": kind}
        for kind in (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
        if kind in wanted
        for name in names[kind]
    ]
    return {"error_code": None, "config_resources": found}


PERMISSIONS = (OnCluster((DESCRIBE_CONFIGS,), with_error),)
