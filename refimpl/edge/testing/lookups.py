"""Finds brokers and partitions of a cluster, or says in one sentence why there are none."""

import errno
import linecache
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from refimpl.broker.partition import Partition
from refimpl.edge.server.arguments import nearest
from refimpl.edge.server.errors import ClusterError, UnknownBroker, UnknownPartition
from refimpl.edge.server.host import BrokerHost
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import ClusterMetadata, PartitionRegistration

Hosts = Mapping[int, BrokerHost]


def listed(names: Iterable[object]) -> str:
    """`1, 2 and 3`."""
    texts = [str(one) for one in names]
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]])) or "none"


def broker(hosts: Hosts, number: int | None) -> BrokerHost:
    """A broker of the cluster, whether it runs or not."""
    if number is None or number not in hosts:
        nobody = ", which `leader` answers where nobody leads" if number is None else ""
        raise UnknownBroker(f"there is no broker {number!r}{nobody}; there are {listed(hosts)}")
    return hosts[number]


def running(hosts: Hosts, number: int, wanted: str) -> BrokerHost:
    """One that is up."""
    host = broker(hosts, number)
    if not host.up:
        raise ClusterError("BROKER_NOT_AVAILABLE", f"broker {number} is down: it cannot {wanted}")
    return host


def down(hosts: Hosts, number: int) -> BrokerHost:
    """One that is not."""
    host = broker(hosts, number)
    if host.up:
        raise ClusterError("INVALID_REQUEST", f"broker {number} runs: it cannot be restarted")
    return host


def partition(metadata: ClusterMetadata, topic: str, number: int) -> PartitionRegistration:
    """The controller's decision about a partition."""
    name = TopicPartition(topic, number)
    if name in metadata.partitions:
        return metadata.partitions[name]
    topics = sorted({one.topic for one in metadata.partitions})
    if topic not in topics:
        near = nearest(topic, topics) or f"; topics: {listed(topics)}"
        raise UnknownPartition(f"there is no topic {topic!r}{near}")
    numbers = sorted(one.partition for one in metadata.partitions if one.topic == topic)
    raise UnknownPartition(
        f"topic {topic} has no partition {number!r}; partitions: {listed(numbers)}"
    )


def replica(hosts: Hosts, metadata: ClusterMetadata, topic: str, number: int, on: int) -> Partition:
    """The replica of a partition on one broker."""
    replicas = partition(metadata, topic, number).replicas
    found = broker(hosts, on).node.partitions.get(TopicPartition(topic, number))
    if found is None:
        message = f"broker {on} has no replica of {topic}-{number}; replicas: {listed(replicas)}"
        raise UnknownPartition(message, "REPLICA_NOT_AVAILABLE")
    return found


def may_lead(
    hosts: Hosts, metadata: ClusterMetadata, topic: str, number: int, wanted: int
) -> PartitionRegistration:
    """A partition that a broker may lead now: it has a replica, is up and is in sync."""
    found, name = partition(metadata, topic, number), f"{topic}-{number}"
    broker(hosts, wanted)
    if wanted not in found.replicas:
        why = f"broker {wanted} has no replica of {name}; replicas: {listed(found.replicas)}"
        raise ClusterError("INVALID_REPLICA_ASSIGNMENT", why)
    running(hosts, wanted, f"lead {name}")
    if wanted not in found.decision.isr:
        why = (
            f"broker {wanted} is not in sync for {name}; ISR: {listed(sorted(found.decision.isr))}"
        )
        raise ClusterError("ELIGIBLE_LEADERS_NOT_AVAILABLE", why)
    return found


def port_taken(host: BrokerHost, refused: OSError) -> OSError:
    """The same error, with the broker and the address that it could not have."""
    reason = "is in use" if refused.errno == errno.EADDRINUSE else f"({refused.strerror})"
    where = f"broker {host.id} cannot listen: {host.host}, port {host.port}, {reason}"
    return OSError(refused.errno, where)


def unsettled(hosts: Hosts, metadata: ClusterMetadata) -> str:
    """The reason for which not every running broker knows of every decision."""
    reasons: list[str] = []
    for host in hosts.values():
        registration = metadata.brokers.get(host.id)
        if not host.up:
            continue
        if host.paused:
            reasons.append(f"broker {host.id} is paused")
        elif registration is None or registration.fenced:
            reasons.append(f"broker {host.id} is not registered with the controller")
        elif host.node.metadata.metadata_version != metadata.metadata_version:
            reasons.append(f"broker {host.id} has not heard of the last decision of the controller")
    return "; ".join(reasons)


def condition_named(condition: Callable[[], Any]) -> str:
    """The file and line of a condition, and its first line."""
    code = getattr(condition, "__code__", None)
    if code is None:
        return repr(condition)
    line = linecache.getline(code.co_filename, code.co_firstlineno).strip()
    return f"{code.co_filename}:{code.co_firstlineno}" + (f": {line}" if line else "")
