"""The end of a recording: journals become process files, and the proxy reads all partitions itself.

The final scan is that of `highwater record-scan`. Its reader passes a proxy of its own, because no
client library tells producer ids and sequences, of which the ids of records are made.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from attrs import define, field, frozen

from chaos.real.proxy.addresses import Upstream
from chaos.real.proxy.passing import Answered, Connection, Passing
from chaos.real.proxy.proxy import Proxy
from chaos.real.proxy.recording.batches import batches_in, fetched
from chaos.real.proxy.recording.fetching import FetchSession, fetched_partitions
from chaos.real.proxy.recording.links import INTERNAL, Topics, code_of
from refimpl.wire.headers import read_client_id
from refimpl.wire.messages import is_flexible, read_request, read_response
from traces.model.output import number_of
from traces.record.cluster import PATIENCE_S, ClusterError, NoLibraryError, library
from traces.record.command_config import command_config
from traces.record.contents import contents
from traces.record.entries import Line
from traces.record.final_scan import FinalScan, Scanned, isolations, settle_all
from traces.record.meta import BadMetaError, read, write

FETCH, METADATA = 1, 3


class NotFinishedError(Exception):
    """The recording could not be ended; all that was recorded is there."""


@define
class Tap:
    """Records that pass on their way to the reader of the final scan, until it asks for them."""

    _topics: Topics = field(factory=Topics, init=False)
    _sessions: dict[Connection, FetchSession] = field(
        factory=dict[Connection, FetchSession], init=False
    )
    _passed: dict[tuple[str, int], deque[Line]] = field(
        factory=dict[tuple[str, int], deque[Line]], init=False
    )
    _lock: Lock = field(factory=Lock, init=False)

    def reads(self, key: int) -> bool:
        """True for an API that may not pass unread."""
        return key in (FETCH, METADATA)

    def asked(self, passing: Passing) -> Answered | None:
        """A request of the reader."""
        key, version, frame = passing.key, passing.version, passing.frame
        if not self.reads(key):
            return None
        if key == METADATA:
            return lambda found, at: self._learn(read_response(key, version, found, at))
        _, position = read_client_id(frame, flexible=is_flexible(key, version))
        session = self._sessions.setdefault(passing.connection, FetchSession(self._topics))
        session.take(read_request(key, version, frame, position))
        asked = dict(session.asked)

        def answered(found: bytes, at: int) -> None:
            answer = read_response(key, version, found, at)
            for place, one in fetched_partitions(self._topics, answer):
                if place in asked:
                    self._keep(place, memoryview(one.records), asked[place].offset)

        return answered

    def gone(self, connection: Connection) -> None:
        """A connection is closed."""
        self._sessions.pop(connection, None)

    def ending(self) -> None:
        """The scan is over."""

    def _learn(self, answer: Any) -> None:
        for one in answer.topics:
            if not code_of(one) and one.name and getattr(one, "topic_id", None) is not None:
                self._topics.names[one.topic_id] = one.name

    def _keep(self, place: tuple[str, int], data: memoryview, since: int) -> None:
        lines: list[Line] = []
        for position, header in batches_in(data):
            if not header.is_control:
                lines += fetched(*place, data, position, header, since)
        with self._lock:
            kept = self._passed.setdefault(place, deque())
            while kept and kept[-1]["offset"] >= since:  # it is fetched once more
                kept.pop()
            kept.extend(lines)

    def record_of(self, message: Any) -> Line:
        """The record of a message that the reader was given."""
        place, offset = (message.topic(), message.partition()), message.offset()
        with self._lock:
            kept = self._passed.get(place, deque())
            while kept and kept[0]["offset"] < offset:
                kept.popleft()
            if kept and kept[0]["offset"] == offset:
                return kept.popleft()
        return {"topic": place[0], "partition": place[1], "offset": offset}


@frozen
class Finished:
    """The end of a recording. Without topics there was nothing to scan."""

    scanned: Scanned | None
    gone: Sequence[str] = ()

    @property
    def complete(self) -> bool:
        """True if a record that is not in the run is lost."""
        return self.scanned is not None and self.scanned.complete and not self.gone

    def lines(self) -> Iterator[str]:
        """Sentences on the scan, and on everything that the run lacks to be complete."""
        yield from (f"not complete: topic {name} is not there any more" for name in self.gone)
        if self.scanned is None:
            yield "Nothing was scanned." if self.gone else "Nothing was sent or read."
            return
        done = self.scanned
        count = sum(done.partitions.values())
        yield (
            f"{number_of(done.processes, 'process')}; {number_of(len(done.partitions), 'topic')}, "
            f"{number_of(count, 'partition')} scanned"
        )
        yield from done.notes
        for name in done.running:
            yield f"not complete: {name} is still being recorded"
        yield from (f"not complete: {damage}" for damage in done.damaged.values())
        yield from (f"not complete: {name} has no leader" for name in done.headless)
        for name in dict.fromkeys(done.unread):
            yield f"not complete: the scan did not reach the end of {name}"


def finish(
    run: Path,
    targets: Sequence[Upstream],
    to_brokers: ssl.SSLContext | None = None,
    config: Path | None = None,
    timeout_s: float = 30.0,
) -> Finished:
    """End a recording: after that it can be judged. Raises NotFinishedError."""
    left = settle_all(run)
    found = contents(run)
    topics = sorted(found.topics - set(INTERNAL))
    if not topics:
        return Finished(None)

    def scan(bootstrap: str, tap: Tap) -> Finished:
        # The connections are closed under clients that librdkafka has not let go of.
        conf = {**_login(config), "bootstrap.servers": bootstrap, "log_level": "0"}
        there = _existing(conf, topics)
        if not there:
            write(run, {"format": 1, "run": run.name, **read(run), "complete": False})
            return Finished(None, topics)
        done = FinalScan(
            run=run,
            conf=conf,
            topics=there,
            isolations=isolations(found),
            stalled_after_s=timeout_s,
            record_of=tap.record_of,
        ).read(found, left)
        gone = [name for name in topics if name not in there]
        if gone:
            write(run, read(run) | {"complete": False})
        return Finished(done, gone)

    try:
        return asyncio.run(_through(targets, to_brokers, scan))
    except NoLibraryError:
        raise NotFinishedError(
            "the final scan reads with the package `confluent-kafka`, which is not installed: "
            "pip install confluent-kafka"
        ) from None
    except (ClusterError, BadMetaError, OSError) as error:
        raise NotFinishedError(str(error)) from None


async def _through(
    targets: Sequence[Upstream],
    to_brokers: ssl.SSLContext | None,
    scan: Callable[[str, Tap], Finished],
) -> Finished:
    """Scan through a proxy that nobody else connects to."""
    tap = Tap()
    async with Proxy(targets, to_brokers=to_brokers, recorder=tap) as proxy:
        return await asyncio.to_thread(scan, proxy.bootstrap, tap)


def _existing(conf: Mapping[str, Any], topics: Collection[str]) -> list[str]:
    """The topics that are still there. Raises ClusterError."""
    client = library().admin(dict(conf))
    try:
        found = client.list_topics(timeout=PATIENCE_S).topics
    except Exception as error:  # of a library that is loaded when it is called for
        raise ClusterError(f"the cluster does not answer: {error}") from None
    return [name for name in topics if name in found and found[name].error is None]


def _login(config: Path | None) -> dict[str, str]:
    """The login of a file of Kafka's tools; TLS is the proxy's matter."""
    if config is None:
        return {}
    found = dict(command_config(config))
    protocol = found.pop("security.protocol", "PLAINTEXT").upper()
    found = {name: value for name, value in found.items() if not name.startswith("ssl.")}
    by = "SASL_PLAINTEXT" if protocol.startswith("SASL") else "PLAINTEXT"
    return {**found, "security.protocol": by}
