"""The Java recorder around Kafka's own stand-ins: outcomes, contents, calls, and mistakes."""

import subprocess
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.traces.record.java.building import COMPILED, FORMER, java
from traces.record import settle
from traces.record.digest import digest
from traces.record.errors import CODES, NAMES, commit_outcome, send_outcome
from traces.record.ids import HEADER, text

pytestmark = [
    pytest.mark.kafka,  # its clients come through Maven
    pytest.mark.xdist_group("java-recorder"),
]
VERSIONS = pytest.mark.parametrize("version", [COMPILED, FORMER])
#: Refused of one partition; the Java client does not tell whether others were committed.
OF_ONE = {"OFFSET_METADATA_TOO_LARGE", "INVALID_COMMIT_OFFSET_SIZE", "TOPIC_AUTHORIZATION_FAILED"}
Line = dict[str, Any]


def story(name: str, run: Path, version: str, given: str = "") -> "tuple[list[str], str]":
    """The lines that a story prints, and what it complains of."""
    command = java("highwater.recorder.Stories", name, run, version=version)
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines(), done.stderr


def lines(run: Path, process: str) -> list[Line]:
    done = settle(run / f"{process}.journal")
    return [orjson.loads(line) for line in done.file.read_bytes().splitlines()]


@VERSIONS
def test_the_same_errors_are_a_certain_no_as_in_python(tmp_path: Path, version: str) -> None:
    said, _ = story("outcomes", tmp_path, version)
    seen = set[str]()
    for name, named, once, again, alone, several, late in map(str.split, said):
        code = CODES.get(name)
        assert named == name
        assert (once, again) == (send_outcome(code, 0), send_outcome(code, 5)), name
        assert alone == commit_outcome(code, 0), name
        assert several == ("info" if name in OF_ONE else alone), name
        assert late == "info", name
        seen.add(name)
    assert set(NAMES.values()) - seen == {"UNKNOWN_SERVER_ERROR"}


@VERSIONS
def test_what_is_not_configured_is_as_the_producer_itself_has_it(
    tmp_path: Path, version: str
) -> None:
    said, _ = story("settings", tmp_path, version)
    assert len(said) > 30
    assert all(ours == theirs for ours, theirs, *_ in map(str.split, said)), said


def test_a_hash_and_a_key_are_those_of_the_python_recorder(tmp_path: Path) -> None:
    """Also of bytes that are no UTF-8: cut off, overlong, surrogates."""
    keys = [
        None,
        b"",
        b"k",
        "é漢🙂".encode(),
        b"\xff\xfe",
        b"a\xe2\x82b\xed\xa0\x80c\xf0\x9f\x99",
        b"\xc0\xaf",
    ]
    messages = [
        (key, value, header) for key in keys for value in (None, b"v") for header in (None, b"h")
    ]
    given = "\n".join(" ".join(map(_base64, one)) for one in messages)
    said, _ = story("contents", tmp_path, COMPILED, given)
    expected = [
        (str(digest(value, key, [("h", header), (HEADER, bytes(8))])), text(key))
        for key, value, header in messages
    ]
    found = [line.split() for line in said]
    assert [
        (sum, None if key == "-" else b64decode(key).decode()) for sum, key in _padded(found)
    ] == expected


def _padded(found: list[list[str]]) -> list[tuple[str, str]]:
    return [(one[0], one[1] if len(one) > 1 else "") for one in found]


def _base64(raw: bytes | None) -> str:
    return "-" if raw is None else b64encode(raw).decode()


@VERSIONS
def test_a_producer_tells_sends_reports_and_its_end(tmp_path: Path, version: str) -> None:
    said, _ = story("producer", tmp_path, version)
    found = lines(tmp_path, "p#0")
    first = found[0]["recorder"]["ids"]
    assert found[0]["recorder"]["client"].startswith(f"kafka-clients {version}, Java ")
    assert [(line["op"], line["outcome"], line.get("error")) for line in found] == [
        ("send", "ok", None),
        ("send", "fail", "MESSAGE_TOO_LARGE"),
        ("send", "info", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ("send", "ok", None),
        ("send", "info", None),
        ("send", "fail", "IllegalStateException"),
        ("crash", "ok", None),
    ]
    assert found[0]["records"] == [
        {"topic": "t", "id": first, "partition": 0, "offset": 0} | _stamp(found[0])
    ]
    kept = {"topic": "t", "id": first + 3, "key": "k", "partition": 0, "chosen": True, "offset": 3}
    assert found[3]["records"] == [kept | _stamp(found[3])]
    # One id each, the recorder's; what the application gave is as it was.
    assert said == [
        "1",
        *(f"1 {first + seq}" for seq in range(5)),
        "raised closed",
        "raised fenced",
    ]


def _stamp(line: Line) -> Line:
    return {name: at for name, at in line["records"][0].items() if name == "timestamp"}


@VERSIONS
def test_a_consumer_tells_all_that_it_is_asked_for(tmp_path: Path, version: str) -> None:
    said, _ = story("consumer", tmp_path, version)
    assert said == ["assigned [t-0]", "committed", "revoked [t-0]", "assigned []"]
    found = lines(tmp_path, "c#0")
    calls = [line for line in found if line["op"] != "describe_topics"]
    assert [line["op"] for line in calls] == [
        *("subscribe", "assigned", "poll", "commit", "process", "process", "process", "commit"),
        *("committed", "seek", "seek", "pause", "resume", "list_offsets", "revoked", "assigned"),
        *("subscribe", "close"),
    ]
    poll, commit, whole, one, other = calls[2:7]
    record = {"topic": "t", "partition": 0, "offset": 0, "key": "k"}
    assert [{n: r[n] for n in record} for r in poll["records"]] == [
        record | {"offset": n} for n in range(3)
    ]
    assert (poll["group"], poll["isolation"]) == ("g", "read_uncommitted")
    assert (commit["offsets"], commit["outcome"]) == (
        {"t:0": 3},
        "ok",
    )  # which the call does not name
    assert whole["records"] == other["records"] == poll["records"]
    assert [r["offset"] for r in one["records"]] == [1]
    assert [line.get("other_thread") for line in (whole, one, other)] == [None, None, True]
    assert calls[7]["offsets"] == calls[8]["offsets"] == {"t:0": 2}
    assert calls[9]["offsets"] == {"t:0": 1}
    assert (calls[13]["query"], calls[13]["offsets"]) == ("latest", {"t:0": 2})
    assert calls[14]["partitions"] == ["t:0"]


def test_no_mistake_of_the_recorder_reaches_the_application(tmp_path: Path) -> None:
    said, complaints = story("mistakes", tmp_path, COMPILED)
    assert said == ["1"]
    assert complaints.count("broken#0.journal: recording has stopped: ") == 1
    assert settle(tmp_path / "broken#0.journal").ended == "cut"
    assert [(line["op"], line["outcome"]) for line in lines(tmp_path, "p#0")] == [
        ("send", "ok"),
        ("close", "ok"),
    ]


def test_a_wrong_argument_is_one_clear_message(tmp_path: Path) -> None:
    said, _ = story("arguments", tmp_path, COMPILED)
    assert [line.partition(":")[0] for line in said] == [
        *["IllegalArgumentException"] * 4,
        *("UncheckedIOException", "ConfigException"),
    ]
    assert said[2].startswith(
        "IllegalArgumentException: conf: Invalid value some for configuration acks"
    )
    assert (
        said[5]
        == "ConfigException: highwater.recorder.run: expected the folder of the run, found nothing"
    )
