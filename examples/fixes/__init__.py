"""The fixes that were tried on Kafka's own classes, by the part of Kafka that they change."""

from examples.fixes import eligible, groups, replication, share_groups, tiered, transactions
from examples.fixes.edits import Fix, edited

__all__ = ["FIXES", "Fix", "edited"]

FIXES: dict[str, Fix] = {
    **replication.FIXES,
    **eligible.FIXES,
    **tiered.FIXES,
    **transactions.FIXES,
    **groups.FIXES,
    **share_groups.FIXES,
}
