"""Judge recordings of client calls against Kafka's promises, one verdict for each promise.

    >>> import traces
    >>> run = traces.load("examples/leader-kill-acks1")
    >>> judged = traces.check(run)
    >>> judged.verdict, judged["L4"].verdict, judged["L4"].count
    ('allowed', 'allowed', 406)

In Spark, over a table of operations of any size:

    findings = traces.violations(spark.read.parquet("ops/orders-17/part-*.parquet"), run, ["L4"])
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traces.api import Result, check, load, violations

__all__ = ["Result", "check", "load", "violations"]


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: a recorder needs none of the modules behind it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from traces import api

    return getattr(api, name)
