"""The kinds of faults, in the simulator's words where it has them, and the effect of each."""

from collections.abc import Mapping

from attrs import frozen

KAFKA, HIGHWATER = "kafka", "highwater"
TARGETS = (KAFKA, HIGHWATER)


@frozen
class Kind:
    """A kind of fault.

    `effect` names the unit in which its effect is counted. A fault whose count is zero did nothing.
    `weight` says how often it comes beside the others, `most_ms` how long it may last.
    """

    name: str
    says: str
    effect: str
    hows: tuple[str, ...] = ("",)
    weight: float = 1.0
    least_ms: int = 0
    most_ms: int = 0
    targets: tuple[str, ...] = TARGETS


_KAFKA = (KAFKA,)
_STOPS = ("short", "long")
"""Shorter than a broker's session, so that nobody notices, or longer than it."""

_KINDS = (
    Kind("crash", "kill -9 {broker}, and start it again", "ms down", _STOPS, 3.0),
    Kind("stop", "SIGTERM {broker}, and start it again", "ms down", ("",), 1.5, 0, 4_000),
    Kind("pause", "SIGSTOP {broker}", "ms paused", _STOPS, 3.0),
    Kind("disk", "kill -9 {broker}, and start it with empty log directories", "bytes lost"),
    Kind("controller_crash", "kill -9 the controller", "ms down", _STOPS, 0.7, targets=_KAFKA),
    Kind("controller_pause", "SIGSTOP the controller", "ms paused", _STOPS, 0.7, targets=_KAFKA),
    Kind("requests", "{how} of clients", "requests met", (), 3.0, 300, 5_000),
    Kind(
        *("cut", "hold what is fetched from {broker} by followers", "requests met"),
        *(("one", "all"), 1.5, 500, 9_000, _KAFKA),
    ),
    Kind(
        *("slow", "delay what is fetched from {broker} by followers", "requests met"),
        *(("one", "all"), 1.0, 1_000, 9_000, _KAFKA),
    ),
    Kind(
        *("lag", "hold the news of the metadata for {broker}", "requests met"),
        *(("",), 2.5, 300, 15_000, _KAFKA),
    ),
    Kind(
        *("expire", "drop the heartbeats of {broker} to the controller", "requests met"),
        *(("",), 1.0, 4_000, 12_000, _KAFKA),
    ),
    Kind(
        *("isr", "{how} AlterPartition of {broker}", "requests met"),
        *(("hold", "delay", "copy", "drop-response", "disconnect"), 2.0, 1_000, 8_000, _KAFKA),
    ),
    Kind("elect", "elect the preferred leaders", "leaders moved", ("",), 2.0),
    Kind("reassign", "move moved:{partition} to {value}", "replicas moved", ("",), 0.7),
    Kind("add_partition", "give grown one partition more", "partitions", ("",), 0.4),
    Kind("recreate", "delete the topic again, and make it again", "topics", ("",), 0.5),
    Kind("delete_records", "delete records of kept:{partition}", "offsets", ("",), 0.8),
    Kind(
        *("configure", "set {how} of configured", "settings"),
        *(("min_isr", "retention", "cleanup", "unclean"), 1.0, 1_000, 9_000),
    ),
    Kind("client_crash", "kill a transactional client, and start it again", "clients"),
    Kind("client_pause", "SIGSTOP a transactional client", "clients", ("",), 1.0, 1_000, 12_000),
    Kind("client_takeover", "another instance takes over a transactional id", "clients"),
    Kind("member_leave", "a member of {group} leaves, and another joins", "members"),
    Kind("member_restart", "a member of {group} is made again", "members", ("",), 1.0, 0, 3_000),
    Kind(
        *("transaction_version", "downgrade {how}", "features", ("transaction.version",)),
        *(0.7, 1_000, 12_000),
    ),
    Kind(
        *("elr_version", "downgrade {how}", "features", ("eligible.leader.replicas.version",)),
        *(0.5, 1_000, 12_000, _KAFKA),
    ),
    Kind(
        *("older_disk", "kill -9 {broker}, and start it with what its disk held before"),
        *("bytes lost", ("",), 0.7, 1_000, 20_000),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
OF_CLIENTS = tuple(name for name in KINDS if name.startswith("client_"))
OF_MEMBERS = tuple(name for name in KINDS if name.startswith("member_"))

#: Requests of clients that a rule breaks, by who makes them.
REQUESTS: Mapping[str, tuple[str, ...]] = {
    "producers": (
        *("hold Produce", "delay Produce", "drop Produce", "drop-response Produce"),
        *("disconnect Produce", "disconnect-unhandled Produce", "delay Metadata"),
    ),
    "readers": ("delay Fetch", "disconnect Fetch", "drop-response Fetch"),
    "classic": (
        *("drop-response OffsetCommit", "hold OffsetCommit", "disconnect OffsetCommit"),
        *("hold Heartbeat", "drop-response Heartbeat"),
    ),
    "consumer": (
        *("drop-response OffsetCommit", "hold OffsetCommit", "hold ConsumerGroupHeartbeat"),
        *("drop-response ConsumerGroupHeartbeat", "disconnect ConsumerGroupHeartbeat"),
    ),
    "transactions": (
        *("hold EndTxn", "drop-response EndTxn", "disconnect EndTxn", "delay EndTxn"),
        *("drop-response AddPartitionsToTxn", "delay AddPartitionsToTxn"),
    ),
}
