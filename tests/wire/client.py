"""A client that says exactly what it is told to, in any version, and shows all of the answer."""

import socket
import struct
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Self
from uuid import UUID

from attrs import define, field
from kio.schema.index import api_key_map

from refimpl.wire.messages import is_flexible, read_response, write_request

API_KEYS: Mapping[str, int] = {
    "".join(part.capitalize() for part in name.split("_")): key for key, name in api_key_map.items()
}
API_VERSIONS = 18
SECONDS = 120


@define
class Client(AbstractContextManager["Client"]):
    """One connection; a request waits for its answer."""

    connection: socket.socket
    client_id: str | None = "script"
    _sent: int = field(default=0, init=False)

    @classmethod
    def connect(cls, port: int, client_id: str = "script") -> Self:
        """To a port of the loopback address."""
        return cls(socket.create_connection(("127.0.0.1", port), SECONDS), client_id)

    def again(self) -> None:
        """Leave this connection, which the broker does not hear for a while, for a new one."""
        port = self.connection.getpeername()[1]
        self.connection.close()
        self.connection = socket.create_connection(("127.0.0.1", port), SECONDS)

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.connection.close()

    def ask(self, api: str, version: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request, as mappings, sequences, numbers and texts."""
        self._sent += 1
        key, flexible = API_KEYS[api], is_flexible(API_KEYS[api], version)
        name = (self.client_id or "").encode()
        length = -1 if self.client_id is None else len(name)
        head = struct.pack(">hhih", key, version, self._sent, length) + name
        body = head + b"\0" * flexible + write_request(key, version, values)
        self.connection.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        assert struct.unpack_from(">i", answer) == (self._sent,)
        start = 5 if flexible and key != API_VERSIONS else 4
        return plain(read_response(key, version, answer, start))

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if not (more := self.connection.recv(size - len(data))):
                raise ConnectionError("the broker closed the connection")
            data += more
        return bytes(data)


def plain(value: Any) -> Any:
    """A message as JSON could hold it; errors by their names, times in ms."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    match value:
        case tuple():
            return [plain(one) for one in value]  # pyright: ignore[reportUnknownVariableType]
        case Enum():
            return value.name.upper()
        case UUID():
            return str(value)
        case timedelta():
            return value // timedelta(milliseconds=1)
        case datetime():
            return int(value.timestamp() * 1000)
        case bytes():
            return value.hex()
        case _:
            return value
