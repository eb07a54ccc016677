"""The plans for requests to create topics or to add partitions: pure functions.

Each reads the metadata and returns assignments, or raises ApiError with Kafka's message
(ReplicationControlManager of Kafka 4.3).
"""

import re
from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from refimpl.controller.errors import ApiError
from refimpl.controller.placement import (
    PLACEMENTS,
    Assignment,
    Rng,
    UsableBroker,
    Wanted,
)
from refimpl.messages.cluster import ClusterMetadata, Topic
from refimpl.messages.controller import DEFAULT, CreatableTopic, NewPartitions

LONGEST_NAME = 249
MOST_PARTITIONS = 10_000
"""The number of partitions that one request may create (KAFKA-19073)."""

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


@frozen
class Defaults:
    """A topic's default partitions and replicas, and the placement of its replicas."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    placement: str = "striped"


def check_name(name: str) -> None:
    """Refuse a name that cannot be a folder's on every system."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > LONGEST_NAME:
        reason = f"the length of '{name}' is longer than the max allowed length {LONGEST_NAME}"
    elif not _LEGAL.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if reason is not None:
        raise ApiError("INVALID_TOPIC_EXCEPTION", f"Topic name is invalid: {reason}")


def metric_name(topic: str) -> str:
    """A topic's name in metrics, where a period is an underscore."""
    return topic.replace(".", "_")


def check_new(name: str, topics: Mapping[str, Topic]) -> None:
    """Refuse a name that is invalid, taken, or equal to another topic's in metrics."""
    check_name(name)
    if name in topics:
        raise ApiError("TOPIC_ALREADY_EXISTS", f"Topic '{name}' already exists.")
    own = metric_name(name)
    if "_" not in own:
        return  # a name in metrics without underscore is the name of one topic
    other = next((one for one in topics if metric_name(one) == own), None)
    if other is not None:
        raise ApiError(
            "INVALID_TOPIC_EXCEPTION", f"Topic '{name}' collides with existing topic: {other}"
        )


def check_size(topics: Sequence[CreatableTopic], defaults: Defaults) -> None:
    """Refuse a request that creates more partitions than one request may."""
    total = 0
    for topic in topics:
        if topic.assignments:
            total += len(topic.assignments)
        elif topic.num_partitions == DEFAULT:
            total += defaults.num_partitions
        else:
            total += max(0, topic.num_partitions)
    if total > MOST_PARTITIONS:
        raise ApiError("POLICY_VIOLATION", "Excessively large number of partitions per request.")


def check_growth(topics: Sequence[NewPartitions], metadata: ClusterMetadata) -> None:
    """Refuse a request that adds more partitions to topics than one request may."""
    known = metadata.topics
    more = (
        one.total_count - len(known[one.name].partitions) for one in topics if one.name in known
    )
    if sum(max(0, count) for count in more) > MOST_PARTITIONS:
        raise ApiError("POLICY_VIOLATION", "Unable to perform excessively large batch operation.")


def usable(metadata: ClusterMetadata) -> list[UsableBroker]:
    """The brokers that may be given replicas."""
    return [UsableBroker(one.broker_id, one.rack, one.fenced) for one in metadata.brokers.values()]


def plan_topic(
    topic: CreatableTopic,
    metadata: ClusterMetadata,
    active: Collection[int],
    defaults: Defaults,
    rng: Rng,
) -> list[Assignment]:
    """The assignments of a new topic's partitions, each with at least one active broker."""
    nulls = [name for name, value in topic.configs if value is None]
    if nulls:
        raise ApiError(
            "INVALID_CONFIG", f"Null value not supported for topic configs: {','.join(nulls)}"
        )
    if topic.assignments:
        return _assigned(topic, metadata, active)
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
        raise ApiError(
            "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."
        )
    count = defaults.num_partitions if topic.num_partitions == DEFAULT else topic.num_partitions
    factor = topic.replication_factor
    if factor == DEFAULT:
        factor = defaults.default_replication_factor
    return _placed(Wanted(count, factor), metadata, active, defaults, rng, prefixed=True)


def _placed(
    wanted: Wanted,
    metadata: ClusterMetadata,
    active: Collection[int],
    defaults: Defaults,
    rng: Rng,
    *,
    prefixed: bool = False,
) -> list[Assignment]:
    unable = f"Unable to replicate the partition {wanted.replication_factor} time(s): "
    try:
        placed = PLACEMENTS[defaults.placement](usable(metadata), wanted, rng)
    except ApiError as error:
        prefix = unable if prefixed and error.error == "INVALID_REPLICATION_FACTOR" else ""
        raise ApiError(error.error, f"{prefix}{error.message}") from None
    if not all(any(one in active for one in replicas) for replicas in placed):
        raise ApiError(
            "INVALID_REPLICATION_FACTOR",
            f"{unable}All brokers are currently fenced or in controlled shutdown.",
        )
    return placed


def _assigned(
    topic: CreatableTopic, metadata: ClusterMetadata, active: Collection[int]
) -> list[Assignment]:
    """Assignments that an operator has made, by partition number."""
    manual = "A manual partition assignment was specified, but "
    if topic.replication_factor != DEFAULT:
        raise ApiError("INVALID_REQUEST", f"{manual}replication factor was not set to -1.")
    if topic.num_partitions != DEFAULT:
        raise ApiError("INVALID_REQUEST", f"{manual}numPartitions was not set to -1.")
    found: dict[int, Assignment] = {}
    factor: int | None = None
    for number, replicas in topic.assignments:
        if number in found:
            raise ApiError(
                "INVALID_REPLICA_ASSIGNMENT",
                f"Found multiple manual partition assignments for partition {number}",
            )
        check_assignment(replicas, metadata, factor)
        factor = len(replicas)
        _check_active(number, replicas, active)
        found[number] = tuple(replicas)
    if set(found) != set(range(len(found))):
        raise ApiError(
            "INVALID_REPLICA_ASSIGNMENT",
            "partitions should be a consecutive 0-based integer sequence",
        )
    return [found[number] for number in range(len(found))]


def _check_active(number: int, replicas: Sequence[int], active: Collection[int]) -> None:
    if not any(one in active for one in replicas):
        raise ApiError(
            "INVALID_REPLICA_ASSIGNMENT",
            "All brokers specified in the manual partition assignment for partition "
            f"{number} are fenced or in controlled shutdown.",
        )


def check_assignment(
    replicas: Sequence[int], metadata: ClusterMetadata, replication_factor: int | None = None
) -> None:
    """Refuse an assignment that is empty, names an unknown broker, or names one twice."""
    if not replicas:
        raise ApiError(
            "INVALID_REPLICA_ASSIGNMENT",
            "The manual partition assignment includes an empty replica list.",
        )
    previous = None
    for broker in sorted(replicas):
        if broker not in metadata.brokers:
            raise ApiError(
                "INVALID_REPLICA_ASSIGNMENT",
                f"The manual partition assignment includes broker {broker}, "
                "but no such broker is registered.",
            )
        if broker == previous:
            raise ApiError(
                "INVALID_REPLICA_ASSIGNMENT",
                f"The manual partition assignment includes the broker {broker} more than once.",
            )
        previous = broker
    if replication_factor not in (None, len(replicas)):
        raise ApiError(
            "INVALID_REPLICA_ASSIGNMENT",
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{replication_factor} replica(s).",
        )


def plan_partitions(
    wanted: NewPartitions,
    metadata: ClusterMetadata,
    active: Collection[int],
    defaults: Defaults,
    rng: Rng,
) -> list[Assignment]:
    """The assignments of the partitions that a topic gets in addition."""
    topic = metadata.topics.get(wanted.name)
    if topic is None:
        raise ApiError("UNKNOWN_TOPIC_OR_PARTITION")
    here = len(topic.partitions)
    if wanted.total_count == here:
        raise ApiError("INVALID_PARTITIONS", f"Topic already has {here} partition(s).")
    if wanted.total_count < here:
        raise ApiError(
            "INVALID_PARTITIONS",
            f"The topic {wanted.name} currently has {here} partition(s); {wanted.total_count} "
            "would not be an increase.",
        )
    additional, first = wanted.total_count - here, topic.partitions[0].replicas
    if wanted.assignments is None:
        place = Wanted(additional, len(first), here, first[0])
        return _placed(place, metadata, active, defaults, rng)
    if len(wanted.assignments) != additional:
        raise ApiError(
            "INVALID_REPLICA_ASSIGNMENT",
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified.",
        )
    for number, replicas in enumerate(wanted.assignments, here):
        check_assignment(replicas, metadata, len(first))
        _check_active(number, replicas, active)
    return [tuple(replicas) for replicas in wanted.assignments]
