"""Whatever bytes lie in the files of a run, they are read or refused by name; nothing else happens.

Bytes come in two ways: any at all, and those of a good file with some of them changed.
"""

import gzip
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.traces.fuzz.readers import HISTORIES, LINES, META, NAME, parquet, text_of
from traces.importers.otel import import_otel
from traces.importers.verifiable import import_verifiable
from traces.ingest.history import Reading, read_history
from traces.ingest.run import read_trace
from traces.model.problems import BadInput

HISTORY = (HISTORIES / "poll-skip.edn").read_bytes()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["t:0", "id", "topic", "offset", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
USED = {name for line in LINES for name in line} | {"offsets", "partitions", "query"}
MORE = {"topics", "high_watermark", "leader_epochs", "topic_ids", "reason", "control"}
FIELDS = sorted(USED | MORE)


@st.composite
def changed(draw: st.DrawFn, good: bytes) -> bytes:
    """A good file with a few stretches of it replaced."""
    content = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 30)))
        content[start:end] = draw(st.binary(max_size=8) | st.sampled_from([b"}", b'"', b"-1", b""]))
    return bytes(content)


@st.composite
def mistaken(draw: st.DrawFn) -> bytes:
    """Good lines, of which one has another value of some field."""
    lines = [dict(line) for line in LINES]
    line = draw(st.sampled_from(lines))
    where: Any = line
    if line.get("records") and draw(st.booleans()):
        line["records"] = [dict(record) for record in line["records"]]
        where = line["records"][0]
        name = draw(st.sampled_from(["topic", "partition", "offset", "id", "key", "ack", "epoch"]))
    else:
        name = draw(st.sampled_from(FIELDS))
    where[name] = draw(JSON)
    return text_of(lines)


def read(files: dict[str, bytes]) -> None:
    with TemporaryDirectory() as folder:
        run = Path(folder)
        for name, content in files.items():
            (run / name).write_bytes(content)
        with suppress(BadInput):
            read_trace(run)


@given(st.binary(max_size=300) | changed(text_of(LINES)) | mistaken())
def test_any_lines(content: bytes) -> None:
    read({"meta.json": META, f"{NAME}.ndjson": content})


@given(st.binary(max_size=300) | changed(gzip.compress(text_of(LINES), mtime=0)))
def test_any_compressed_file(content: bytes) -> None:
    read({"meta.json": META, f"{NAME}.ndjson.gz": content})


@given(st.binary(max_size=300) | changed(META) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_meta(content: bytes) -> None:
    read({"meta.json": content, f"{NAME}.ndjson": text_of(LINES)})


@given(st.binary(max_size=300) | changed(HISTORY))
def test_any_history(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "history.edn"
        path.write_bytes(content)
        with suppress(BadInput):
            read_history(path, Reading())


@given(st.binary(max_size=300) | changed(parquet()))
@example(parquet().replace(b"process", b"\x84rocess"))
def test_any_parquet(content: bytes) -> None:
    read({"meta.json": META, f"{NAME}.parquet": content})


@pytest.mark.parametrize("read_it", [import_verifiable, import_otel])
@given(
    content=st.binary(max_size=300)
    | changed(
        b'{"name": "producer_send_success", "timestamp": 1, "value": "0", "key": null, '
        b'"topic": "t", "partition": 0, "offset": 0}\n{"name": "shutdown_complete"}\n'
    )
    | JSON.map(lambda value: json.dumps({"name": "records_consumed", "partitions": value}).encode())
    | JSON.map(lambda value: json.dumps({"resourceSpans": value}).encode())
)
def test_any_source_of_an_import(read_it: Any, content: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "source.log"
        path.write_bytes(content)
        with suppress(BadInput):
            read_it([path], Path(folder) / "run")
