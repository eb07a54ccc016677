"""The fixes that were tried on Kafka's own classes, by the part of Kafka that they change."""

from examples.fixes import groups, replication, share_groups, transactions
from examples.fixes.edits import Fix, edited

__all__ = ["FIXES", "Fix", "edited"]

FIXES: dict[str, Fix] = {
    **replication.FIXES,
    **transactions.FIXES,
    **groups.FIXES,
    **share_groups.FIXES,
}
