"""Requests that are generated from Kafka's message definitions, and the answers to them.

A chunk is one API in one version, with topics, groups and users of its own, so that any may be
asked alone. The answers of Kafka are kept in a file for each API.
"""

import json
import lzma
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from attrs import define, evolve, field
from kio import index

from refimpl.api.table import APIS, Api
from refimpl.wire.messages import API_VERSIONS, is_flexible
from tests.wire.bases import BASES, Scene
from tests.wire.client import Client
from tests.wire.mutations import Mutation, mutations
from tests.wire.raw import read
from tests.wire.recording import NOT_YET, settled

FOLDER = Path(__file__).parent / "recorded" / "generated"
CLOSED, SILENT, HUNG = "closed", "no answer", "hangs"
SOON_SECONDS, HUNG_SECONDS, READY_SECONDS = 0.3, 2.0, 30
PAUSE_SECONDS, TRIES = 0.05, 5
NAMES = (
    *("name", "topic", "topic_name", "group_id", "group", "resource_name", "transactional_id"),
    *("key", "user", "entity_name"),
)
_CHUNK = re.compile(r"k\d+v\d+(?!\d)")
PLANNED = {"epoch": 0, "producer": {"producer_id": 1000, "producer_epoch": 0}}
"""Values that belong to a run, as they decide which others are wrong ones."""
SETTLING = (*NOT_YET, "UNKNOWN_TOPIC_OR_PARTITION")
BROKER = {
    "share.coordinator.state.topic.num.partitions": "2",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "metric.reporters": "Telemetry",
}
"""Settings of the broker that is asked, beside those of the scripts."""

Answer = dict[str, Any] | str
Answers = dict[str, Answer]


@define
class Asker:
    """Sends bytes as requests, and tells an answer from a closed connection and from none."""

    port: int
    _connection: socket.socket | None = None
    _sent: int = field(default=0)

    def ask(self, key: int, version: int, flexible: bool, body: bytes) -> bytes | str:
        """The answer's frame without its length; CLOSED, SILENT or HUNG if there is none."""
        connection = self._connected()
        self._send(connection, key, version, flexible, body)
        try:
            frame = self._frame(connection, SOON_SECONDS)
            if frame is None:
                return self._waited(connection)
        except OSError:
            self.close()
            return CLOSED
        return frame

    def close(self) -> None:
        """Leave the connection; the next request makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._connection = socket.create_connection(("127.0.0.1", self.port), READY_SECONDS)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._connection

    def _send(
        self, connection: socket.socket, key: int, version: int, flexible: bool, body: bytes
    ) -> None:
        self._sent += 1
        head = struct.pack(">hhih", key, version, self._sent, 9) + b"generated"
        frame = head + b"\0" * flexible + body
        connection.sendall(struct.pack(">i", len(frame)) + frame)

    def _waited(self, connection: socket.socket) -> bytes | str:
        """An answer that takes its time; a later request is answered first if there is none."""
        wanted = self._sent
        self._send(connection, API_VERSIONS, 0, False, b"")
        frame = self._frame(connection, HUNG_SECONDS)
        if frame is None:
            self.close()
            return HUNG
        if struct.unpack_from(">i", frame) != (wanted,):
            return SILENT
        assert self._frame(connection, READY_SECONDS) is not None
        return frame

    def _frame(self, connection: socket.socket, seconds: float) -> bytes | None:
        connection.settimeout(seconds)
        try:
            head = connection.recv(4)
        except TimeoutError:
            return None
        connection.settimeout(READY_SECONDS)
        (size,) = struct.unpack(">i", head + self._exactly(connection, 4 - len(head), head))
        return self._exactly(connection, size, b"?")

    def _exactly(self, connection: socket.socket, size: int, before: bytes) -> bytes:
        if not before:
            raise ConnectionError
        data = bytearray()
        while len(data) < size:
            if not (more := connection.recv(size - len(data))):
                raise ConnectionError
            data += more
        return bytes(data)


@define
class Chunk:
    """All requests of one API in one version."""

    api: Api
    version: int
    port: int

    @property
    def id(self) -> str:
        """The names of its topics and groups begin so."""
        return f"k{self.api.key}v{self.version}"

    def answers(self) -> Answers:
        """The broker's answer to each, by its label."""
        asker = Asker(self.port)
        with Client.connect(self.port, "setup") as client:
            try:
                return dict(self._asked(asker, client))
            finally:
                asker.close()

    def _asked(self, asker: Asker, client: Client) -> Iterator[tuple[str, Answer]]:
        number = 0
        for at, base in enumerate(BASES[self.api.name]):
            scene = Scene(_patient(client), f"{self.id}b{at}")
            scene.known["version"] = self.version
            scene.begin()
            base.once(scene)
            base.before(scene)
            planned = evolve(scene, known={**scene.known, **PLANNED})
            for one in mutations(self.api, self.version, dict(base.values(planned))):
                number += 1
                scene.number = number
                base.before(scene)
                yield f"{at} {one.label}", self._asked_once(asker, one, dict(base.values(scene)))

    def _asked_once(self, asker: Asker, one: Mutation, values: dict[str, Any]) -> Answer:
        body = one.body(values)
        flexible = is_flexible(self.api.key, min(max(one.version, self.api.first), self.api.last))
        for _ in range(TRIES):
            frame = asker.ask(self.api.key, one.version, flexible, body)
            answer = self._read(frame, one.version)
            if not any(each in json.dumps(answer) for each in NOT_YET):
                break
            time.sleep(PAUSE_SECONDS)
        return answer  # pyright: ignore[reportPossiblyUnboundVariable]

    def _read(self, frame: bytes | str, version: int) -> Answer:
        if isinstance(frame, str):
            return frame
        try:
            flexible = is_flexible(self.api.key, version)
            start = 5 if flexible and self.api.key != API_VERSIONS else 4
            schema = index.load_response_schema(self.api.key, version)
            found = read(schema, frame, start)
        except Exception:  # of another version than the request: whatever it is, as bytes
            return frame[4:].hex()
        return settled(self._own(found))

    def _own(self, value: Any) -> Any:
        """An answer without what belongs to other chunks."""
        if isinstance(value, dict):
            return {key: self._own(one) for key, one in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return [self._own(one) for one in listed if not self._is_strange(one)]
        return value

    def _is_strange(self, value: Any) -> bool:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            names = [fields[key] for key in NAMES if isinstance(fields.get(key), str)]
        else:
            names = [value] if isinstance(value, str) else []
        found = [one.group() for name in names if (one := _CHUNK.match(name))]
        return any(one != self.id for one in found)


def _patient(client: Client) -> Any:
    def do(api: str, version: int, /, **values: Any) -> dict[str, Any]:
        until = time.monotonic() + READY_SECONDS
        while True:
            answer = client.ask(api, version, values)
            if time.monotonic() > until or not any(one in json.dumps(answer) for one in SETTLING):
                return answer
            time.sleep(PAUSE_SECONDS)

    return do


def warm(port: int) -> None:
    """Let all coordinators, and the topics that they keep their state in, be there."""
    with Client.connect(port) as client:
        do = _patient(client)
        do("FindCoordinator", 6, key_type=0, coordinator_keys=["g"])
        do("FindCoordinator", 6, key_type=1, coordinator_keys=["x"])
        key = "g:AAAAAAAAAAAAAAAAAAAAAQ:0"
        do("FindCoordinator", 6, key_type=2, coordinator_keys=[key])


def chunks(port: int, name: str | None = None) -> Iterator[Chunk]:
    """Every announced version of every API, or of one."""
    for api in APIS.values():
        if name in (None, api.name):
            yield from (Chunk(api, version, port) for version in range(api.first, api.last + 1))


def kept(name: str) -> dict[str, Answers]:
    """Kafka's answers to the requests of an API, by chunk and label."""
    return json.loads(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()))


def keep(name: str, answers: dict[str, Answers]) -> None:
    """Write the file anew."""
    FOLDER.mkdir(exist_ok=True)
    text = json.dumps(answers, sort_keys=True, separators=(",", ":"))
    (FOLDER / f"{name}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))
