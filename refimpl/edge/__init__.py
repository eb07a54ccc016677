"""The edge: sockets, clocks and disks around the node; the one room that knows that time passes.

`Cluster` is what other people's tests import: brokers in this process, with control over what goes
wrong. `BlockingCluster` is the same for code without an event loop. Each is imported when somebody
asks for it, so that a command starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refimpl.edge.server.arguments import NoEffectWarning
    from refimpl.edge.server.errors import ClusterError, NotRunning, UnknownBroker, UnknownPartition
    from refimpl.edge.server.faults import Rule
    from refimpl.edge.testing.blocking import BlockingCluster
    from refimpl.edge.testing.cluster import Cluster
    from refimpl.edge.testing.security import Security

__all__ = [
    "BlockingCluster",
    "Cluster",
    "ClusterError",
    "NoEffectWarning",
    "NotRunning",
    "Rule",
    "Security",
    "UnknownBroker",
    "UnknownPartition",
]

_MODULES = {
    "BlockingCluster": "refimpl.edge.testing.blocking",
    "Cluster": "refimpl.edge.testing.cluster",
    "ClusterError": "refimpl.edge.server.errors",
    "NoEffectWarning": "refimpl.edge.server.arguments",
    "NotRunning": "refimpl.edge.server.errors",
    "Rule": "refimpl.edge.server.faults",
    "Security": "refimpl.edge.testing.security",
    "UnknownBroker": "refimpl.edge.server.errors",
    "UnknownPartition": "refimpl.edge.server.errors",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
