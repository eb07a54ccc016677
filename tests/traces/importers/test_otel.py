"""OpenTelemetry spans as runs, under all the names that their attributes have had."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from traces.importers.cli import import_
from traces.importers.otel import NAMES, SpanSettings, id_of_traceparent, import_otel
from traces.ingest.run import read_trace

Span = dict[str, Any]
Line = dict[str, Any]

NEW = {what: names[0] for what, names in NAMES.items()}
OLD = {what: names[-1] for what, names in NAMES.items()} | {"operation": "messaging.operation"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


def wrapped(value: Any) -> Line:
    """As OTLP writes a value: in its type, and integers in strings."""
    return {"intValue": str(value)} if type(value) is int else {"stringValue": value}


def span(
    names: dict[str, str], id: str, parent: str = "", links: tuple[str, ...] = (), **attributes: Any
) -> Span:
    about = {names[what]: value for what, value in {"system": "kafka", **attributes}.items()}
    return {
        "traceId": TRACE,
        "spanId": id,
        "parentSpanId": parent,
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        "attributes": [{"key": key, "value": wrapped(value)} for key, value in about.items()],
        "links": [{"traceId": TRACE, "spanId": link} for link in links],
    }


def document(*spans: Span, service: str = "shop") -> Line:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def written(folder: Path, *documents: Any) -> Path:
    file = folder / "spans.json"
    file.write_bytes(b"\n".join(orjson.dumps(one) for one in documents))
    return file


def lines(run: Path, process: str) -> list[Line]:
    raw = (run / f"{process}.ndjson").read_bytes()
    return [orjson.loads(line) for line in raw.splitlines()]


@pytest.mark.parametrize("names", [NEW, OLD], ids=["new", "old"])
def test_a_message_is_followed_from_its_producer_to_its_processing(
    tmp_path: Path, names: dict[str, str]
) -> None:
    where: Line = {"topic": "orders", "partition": "2", "offset": 7}
    made = span(names, "aa", operation="publish", key="k", **where)
    done = span(names, "bb", parent="aa", operation="process", group="g", **where)
    import_otel([written(tmp_path, document(made, done))], tmp_path / "run")
    (send,) = lines(tmp_path / "run", "shop_producer#0")
    poll, process = lines(tmp_path / "run", "shop_consumer#0")
    record = {"topic": "orders", "partition": 2, "offset": 7, "id": f"{TRACE}:aa"}
    assert send["records"] == [{**record, "key": "k"}]
    assert (send["outcome"], send["invoked_ns"], send["returned_ns"]) == ("ok", 1000, 2000)
    assert (poll["op"], process["op"]) == ("poll", "process")
    assert poll["records"] == process["records"] == [record]
    assert process["group"] == "g"


def test_a_send_without_an_offset_was_not_seen_to_be_answered(tmp_path: Path) -> None:
    made = span(NEW, "aa", operation="send", topic="orders")
    import_otel([written(tmp_path, document(made))], tmp_path / "run")
    assert lines(tmp_path / "run", "shop_producer#0")[0]["outcome"] == "info"


@pytest.mark.parametrize(
    ("exception", "outcome"),
    [
        ("org.apache.kafka.common.errors.RecordTooLargeException", "fail"),
        ("org.apache.kafka.common.errors.TimeoutException", "info"),
        ("_MSG_TIMED_OUT", "info"),
    ],
)
def test_an_error_fails_only_what_cannot_have_been_stored(
    tmp_path: Path, exception: str, outcome: str
) -> None:
    made = span(NEW, "aa", operation="send", topic="orders", error=exception)
    made["status"] = {"code": 2}
    import_otel([written(tmp_path, document(made))], tmp_path / "run")
    assert lines(tmp_path / "run", "shop_producer#0")[0]["outcome"] == outcome


def test_a_batch_tells_its_messages_by_links_and_no_offsets(tmp_path: Path) -> None:
    got = span(NEW, "cc", links=("aa", "bb"), operation="receive", topic="orders")
    imported = import_otel([written(tmp_path, document(got))], tmp_path / "run")
    (poll,) = lines(tmp_path / "run", "shop_consumer#0")
    assert poll["records"] == [{"topic": "orders", "id": f"{TRACE}:{id}"} for id in ("aa", "bb")]
    assert imported.skipped == {"offsets of records in batches": 2}
    assert "read.offset" in read_trace(tmp_path / "run").evidence.missing


def test_a_span_that_names_no_operation_is_told_by_its_kind(tmp_path: Path) -> None:
    spans = [span(NEW, id, topic="orders") | {"kind": kind} for id, kind in (("aa", 4), ("bb", 5))]
    spans[1]["kind"] = "SPAN_KIND_CONSUMER"
    imported = import_otel([written(tmp_path, document(*spans))], tmp_path / "run")
    assert set(imported.calls) == {"shop/producer#0", "shop/consumer#0"}


def test_what_is_not_about_kafka_is_counted(tmp_path: Path) -> None:
    rabbit = span(NEW, "aa", topic="orders", operation="send")
    rabbit["attributes"][0]["value"] = {"stringValue": "rabbitmq"}
    made = span(NEW, "bb", topic="orders", operation="create")
    done = CliRunner().invoke(
        import_,
        ["otel", str(written(tmp_path, document(rabbit, made))), "--out", str(tmp_path / "run")],
    )
    assert done.exit_code == 0, done.output
    assert "not taken over: 1 spans that are not about Kafka" in done.output
    assert "not taken over: 1 spans about neither sending" in done.output


def test_lines_of_the_collectors_file_are_read_one_by_one(tmp_path: Path) -> None:
    made = [span(NEW, id, operation="send", topic="orders", offset=0) for id in ("aa", "bb")]
    source = written(tmp_path, *(document(one) for one in made))
    imported = import_otel([source], tmp_path / "run")
    assert imported.calls == {"shop/producer#0": 2}


@pytest.mark.parametrize("everything", [True, False])
def test_spans_are_samples_unless_somebody_says_otherwise(tmp_path: Path, everything: bool) -> None:
    made = span(NEW, "aa", operation="send", topic="orders", partition="0", offset=0)
    known = SpanSettings(all_spans=everything, acks="all")
    import_otel([written(tmp_path, document(made))], tmp_path / "run", known)
    run = read_trace(tmp_path / "run")
    assert run.meta.complete is False
    assert ("producers" in run.evidence.missing) is not everything
    assert ("consumers" in run.evidence.missing) is not everything


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"startTimeUnixNano": None}, "resourceSpans[0].scopeSpans[0].spans[0].startTimeUnixNano"),
        ({"endTimeUnixNano": "soon"}, "endTimeUnixNano: expected a whole number, found 'soon'"),
        ({"spanId": 7}, "spans[0].spanId: expected a string, found 7"),
        ({"attributes": 5}, "spans[0].attributes: expected a list, found 5"),
    ],
)
def test_what_is_malformed_is_said_by_line_and_field_and_nothing_is_written(
    tmp_path: Path, change: Line, said: str
) -> None:
    made = span(NEW, "aa", operation="send", topic="orders") | change
    source = written(tmp_path, document(), document(made))
    out = tmp_path / "run"
    done = CliRunner().invoke(import_, ["otel", str(source), "--out", str(out)])
    assert done.exit_code == 2
    assert f"spans.json:2: {said}" in done.output or said in done.output
    assert "spans.json:2: " in done.output
    assert not out.exists()


def test_a_span_without_a_topic_and_a_file_that_is_not_otlp_are_refused(tmp_path: Path) -> None:
    nameless = document(span(NEW, "aa", operation="send"))
    refusals: list[tuple[Any, str]] = [
        (nameless, "messaging.destination.name: is missing"),
        ([], "expected an object with resourceSpans"),
    ]
    for content, said in refusals:
        source = written(tmp_path, content)
        done = CliRunner().invoke(import_, ["otel", str(source), "--out", str(tmp_path / "run")])
        assert done.exit_code == 2
        assert said in done.output


def test_the_scan_finds_a_message_by_the_span_in_its_header() -> None:
    header = ("traceparent", f"00-{TRACE}-aa-01".encode())
    assert id_of_traceparent("t", None, None, [("other", b"x"), header]) == f"{TRACE}:aa"
    assert id_of_traceparent("t", None, None, None) is None
    assert id_of_traceparent("t", None, None, [("traceparent", b"nonsense")]) is None
