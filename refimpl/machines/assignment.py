"""Which brokers hold a partition's replicas, and how that changes (KIP-455).

Spec: Reassignment.
"""

from collections.abc import Collection, Sequence

from attrs import frozen
