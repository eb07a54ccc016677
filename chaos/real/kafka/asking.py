"""Requests that examples send to one broker itself, the coordinators of transactional ids, and the
clock of a recording."""

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import count
from typing import Any

from attrs import frozen

from refimpl.records.coordinators import TRANSACTIONS_TOPIC, partition_for
from refimpl.wire.messages import is_flexible, load_request_schema, read_response, write_request
from traces.record import boots

STATE = TRANSACTIONS_TOPIC
STATE_PARTITIONS = 50
METADATA = 3
PATIENCE_S = 5


@frozen
class Replicas:
    """One partition, as a broker knows it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def clock_domain() -> str:
    """The name of this machine's clock, as the recorder has it."""
    return boots.clock_domain()


def ask(
    port: int, key: int, version: int, values: Mapping[str, Any], patience_s: float = PATIENCE_S
) -> Any:
    """The answer to one request, on a connection of its own.

    Raises OSError, and ValueError for a field that the request has not.
    """
    known = {one.name for one in fields(load_request_schema(key, version))}
    if unknown := values.keys() - known:
        raise ValueError(f"expected fields among {sorted(known)}, found {sorted(unknown)}")
    flexible = is_flexible(key, version)
    head = struct.pack(">hhih", key, version, 1, -1) + b"\0" * flexible
    request = head + write_request(key, version, values)
    with (
        socket.create_connection(("127.0.0.1", port), patience_s) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        size = answers.read(4)
        if len(size) < 4:
            raise ConnectionResetError("the broker closed the connection")
        answer = answers.read(*struct.unpack(">i", size))
    return read_response(key, version, answer, 4 + flexible)


def partitions(port: int, topic: str, patience_s: float = PATIENCE_S) -> dict[int, Replicas]:
    """The partitions of a topic as this very broker knows them; none if it knows no such topic.

    An administrator's client asks a broker of its own choice, which may be the paused one.
    Raises OSError if the broker does not answer.
    """
    no = ("allow_auto_topic_creation", "include_cluster_authorized_operations")
    no = (*no, "include_topic_authorized_operations")
    asked = {"topics": [{"name": topic}], **dict.fromkeys(no, False)}
    (found,) = ask(port, METADATA, 8, asked, patience_s).topics
    return {
        one.partition_index: Replicas(one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in found.partitions
    }


def ids_on(partition: int) -> Iterator[str]:
    """Transactional ids whose coordinator leads this partition of `__transaction_state`."""
    named = (f"app-{number}" for number in count())
    return (one for one in named if partition_for(one, STATE_PARTITIONS) == partition)
