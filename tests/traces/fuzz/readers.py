"""Every reader of traces, fed with bytes: it reads or refuses them, and nothing else happens.

What is read is judged, too, by both checkers, which have to agree on every witness.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen

from tests.traces.fixture import fixture, meta
from tests.traces.importers.brokers import Brokers
from tests.traces.judging import judged
from tests.traces.test_second_checker import disagreements
from traces.importers.otel import import_otel
from traces.importers.segments import import_segments
from traces.importers.verifiable import import_verifiable
from traces.model.arrow import pa, pq
from traces.model.problems import BadInput
from traces.second_checker import read

HISTORIES = Path(__file__).parents[1] / "data" / "histories"
FIXTURE = fixture(2, steps=6)
NAME, LINES = max(FIXTURE.lines.items(), key=lambda item: len(item[1]))
META = json.dumps(meta()).encode()


class Broken(AssertionError):
    """The checkers disagree about what was read."""


@frozen
class Reader:
    """A reader to feed bytes to, and good inputs to begin with."""

    feed: Callable[[Path, bytes], None]
    seeds: tuple[bytes, ...]


def text_of(lines: list[Any]) -> bytes:
    """Lines of a process file."""
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def parquet() -> bytes:
    """A process file of three calls in columns."""
    sink = pa.BufferOutputStream()
    rows = [line for line in LINES if set(line) == set(LINES[1])][:3]
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue().to_pybytes()


def judge(path: Path) -> None:
    """Both checkers' opinion of a recording; raises `Broken` where they disagree."""
    one = judged(path)
    if differ := disagreements(one, read(path)):
        raise Broken(differ[0])


def run_with(name: str) -> Callable[[Path, bytes], None]:
    """A run in which one file holds the bytes."""

    def feed(folder: Path, content: bytes) -> None:
        (folder / "meta.json").write_bytes(META)
        if name == "meta.json":
            (folder / f"{NAME}.ndjson").write_bytes(text_of(LINES))
        (folder / name).write_bytes(content)
        judge(folder)

    return feed


def history(folder: Path, content: bytes) -> None:
    """A Jepsen history of these bytes."""
    (folder / "history.edn").write_bytes(content)
    judge(folder / "history.edn")


def imported(read_it: Callable[[list[Path], Path], Any]) -> Callable[[Path, bytes], None]:
    """A source that is imported."""

    def feed(folder: Path, content: bytes) -> None:
        (folder / "source.log").write_bytes(content)
        read_it([folder / "source.log"], folder / "run")
        judge(folder / "run")

    return feed


def segment(folder: Path, content: bytes) -> None:
    """A segment of the log of one replica of two."""
    brokers = Brokers(folder / "brokers", nodes=(1, 2))
    brokers.append(3)
    brokers.replicate()
    brokers.segments(2)[0].write_bytes(content)
    import_segments(brokers.roots, folder / "run")
    judge(folder / "run")


def _segment() -> bytes:
    with TemporaryDirectory() as folder:
        brokers = Brokers(Path(folder), nodes=(1, 2))
        brokers.append(3)
        return brokers.segments(1)[0].read_bytes()


_SENT = (
    b'{"name": "producer_send_success", "timestamp": 1, "value": "0", "key": null, '
    b'"topic": "t", "partition": 0, "offset": 0}\n{"name": "shutdown_complete", "timestamp": 2}\n'
)
_CONSUMED = (
    b'{"name": "records_consumed", "timestamp": 1, "count": 2, "partitions": [{"topic": "t", '
    b'"partition": 0, "count": 2, "minOffset": 0, "maxOffset": 1}]}\n'
)
_SPANS = (
    b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "00000000000000000000000000000001",'
    b' "spanId": "0000000000000001", "name": "send", "kind": 4, "startTimeUnixNano": "1", '
    b'"endTimeUnixNano": "2", "attributes": [{"key": "messaging.system", "value": '
    b'{"stringValue": "kafka"}}, {"key": "messaging.destination.name", "value": {"stringValue": '
    b'"t"}}]}]}]}]}'
)
READERS: Mapping[str, Reader] = {
    "lines": Reader(run_with(f"{NAME}.ndjson"), (text_of(LINES), text_of(LINES[:3]))),
    "compressed": Reader(
        run_with(f"{NAME}.ndjson.gz"), (gzip.compress(text_of(LINES[:3]), mtime=0),)
    ),
    "parquet": Reader(run_with(f"{NAME}.parquet"), (parquet(),)),
    "meta": Reader(run_with("meta.json"), (META,)),
    "history": Reader(
        history, tuple(path.read_bytes() for path in sorted(HISTORIES.glob("*.edn")))
    ),
    "verifiable": Reader(imported(import_verifiable), (_SENT, _CONSUMED)),
    "otel": Reader(imported(import_otel), (_SPANS,)),
    "segment": Reader(segment, (_segment(),)),
}


def feed(name: str, content: bytes) -> bool:
    """True if a reader accepts the bytes. Any exception but a refusal is a finding."""
    with TemporaryDirectory(prefix="highwater-fuzz-") as folder:
        try:
            READERS[name].feed(Path(folder), content)
        except BadInput:
            return False
    return True
