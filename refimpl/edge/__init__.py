"""The edge: sockets, clocks and disks around the node; the one room that knows that time passes.

`Cluster` is what other people's tests import: brokers in this process, with control over what goes
wrong. `BlockingCluster` is the same for code without an event loop. Each is imported when somebody
asks for it, so that a command starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refimpl.edge.blocking import BlockingCluster
    from refimpl.edge.cluster import Cluster, ClusterError
    from refimpl.edge.faults import Rule

__all__ = ["BlockingCluster", "Cluster", "ClusterError", "Rule"]

_MODULES = {
    "BlockingCluster": "refimpl.edge.blocking",
    "Cluster": "refimpl.edge.cluster",
    "ClusterError": "refimpl.edge.cluster",
    "Rule": "refimpl.edge.faults",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
