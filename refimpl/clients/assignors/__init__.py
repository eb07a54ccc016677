"""The assignors of Kafka's consumer: which member of a classic group reads which partitions."""

from refimpl.clients.assignors.model import Assignment, Member, Partition, Racks, unracked
from refimpl.clients.assignors.protocol import (
    ASSIGNORS,
    COOPERATIVE_STICKY,
    PROTOCOL_TYPE,
    RANGE,
    ROUND_ROBIN,
    STICKY,
    Assignor,
    read_assignment,
    write_assignment,
)

__all__ = [
    "ASSIGNORS",
    "COOPERATIVE_STICKY",
    "PROTOCOL_TYPE",
    "RANGE",
    "ROUND_ROBIN",
    "STICKY",
    "Assignment",
    "Assignor",
    "Member",
    "Partition",
    "Racks",
    "read_assignment",
    "unracked",
    "write_assignment",
]
