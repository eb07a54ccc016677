"""Requests that no client sends at will, to one broker and no other."""

import socket
import struct
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from refimpl.wire.messages import is_flexible, read_response, write_request

METADATA, INIT_PRODUCER_ID = 3, 22
PATIENCE_S = 5


@frozen
class Replicas:
    """One partition, as a broker knows it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


def ask(port: int, key: int, version: int, values: Mapping[str, Any]) -> Any:
    """The answer to one request, on a connection of its own. Raises OSError."""
    flexible = is_flexible(key, version)
    head = struct.pack(">hhih", key, version, 1, -1) + b"\0" * flexible
    request = head + write_request(key, version, values)
    with (
        socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(struct.pack(">i", len(request)) + request)
        size = answers.read(4)
        if len(size) < 4:
            raise ConnectionResetError("the broker closed the connection")
        answer = answers.read(*struct.unpack(">i", size))
    return read_response(key, version, answer, 4 + flexible)


def partitions(port: int, topic: str) -> dict[int, Replicas]:
    """The partitions of a topic as this very broker knows them; none if it does not answer.

    An administrator's client asks a broker of its own choice, which may be the paused one.
    """
    no = ("allow_auto_topic_creation", "include_cluster_authorized_operations")
    no = (*no, "include_topic_authorized_operations")
    asked = {"topics": [{"name": topic}], **dict.fromkeys(no, False)}
    try:
        (found,) = ask(port, METADATA, 8, asked).topics
    except OSError:
        return {}
    return {
        one.partition_index: Replicas(one.leader_id, one.replica_nodes, one.isr_nodes)
        for one in found.partitions
    }
