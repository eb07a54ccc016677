"""OpenTelemetry's messaging spans (OTLP as JSON, whole or a line at a time) of Kafka clients.

The names of their attributes have changed three times, so each is looked up under all its names. A
message's id is its producing span, which consumers know by parent or link. Spans are sampled, and
clocks are wall clocks. Unless the user says that every span is here, a message may have an
unrecorded producer, and nothing can be called lost or made up.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import define, frozen

from traces.importers.verifiable import EXCEPTIONS
from traces.importers.writer import Imported, SourceFile, write_run
from traces.model.problems import Problems
from traces.record.entries import Line
from traces.record.errors import CODES, send_outcome

LOST = (
    "whatever was not sampled, unless --all-spans says that everything was",
    "commits, assignments, generations, leader epochs, transactions, isolation",
    "time across processes: wall clocks err",
    "the offsets of records that a batch span only counts",
)

# Newest name first.
NAMES: dict[str, tuple[str, ...]] = {
    "system": ("messaging.system",),
    "topic": ("messaging.destination.name", "messaging.destination"),
    "partition": (
        "messaging.destination.partition.id",
        "messaging.kafka.destination.partition",
        "messaging.kafka.source.partition",
        "messaging.kafka.partition",
    ),
    "offset": ("kafka.offset", "messaging.kafka.offset", "messaging.kafka.message.offset"),
    "key": ("messaging.kafka.message.key", "messaging.kafka.message_key"),
    "group": (
        "messaging.consumer.group.name",
        "messaging.kafka.consumer.group",
        "messaging.kafka.consumer_group",
    ),
    "client": ("messaging.client.id", "messaging.client_id", "messaging.kafka.client_id"),
    "operation": (
        "messaging.operation.type",
        "messaging.operation",
        "messaging.operation.name",
    ),
    "error": ("error.type", "exception.type"),
}
# What the span is about, in each version's words.
OPERATIONS = {
    "send": "send",
    "publish": "send",
    "create": "",  # made, and not sent yet: another span sends it
    "receive": "poll",
    "poll": "poll",
    "process": "process",
    "deliver": "process",
    "settle": "",
    "commit": "",
}
BY_KIND = {4: "send", "SPAN_KIND_PRODUCER": "send", 5: "process", "SPAN_KIND_CONSUMER": "process"}
ERROR = (2, "STATUS_CODE_ERROR")


@frozen
class SpanSettings:
    """Settings that spans do not contain; a user who knows them can give them."""

    all_spans: bool = False
    acks: str | None = None


def id_of_traceparent(_topic: str, _key: Any, _value: Any, headers: Any) -> str | None:
    """The id of a message, for `record-scan --id`: the producing span, as its header names it."""
    for name, value in headers or ():
        if name == "traceparent":
            parts = bytes(value).decode("ascii", "replace").split("-")
            return f"{parts[1]}:{parts[2]}" if len(parts) >= 4 else None
    return None


def import_otel(sources: Iterable[Path], out: Path, known: SpanSettings | None = None) -> Imported:
    """Make a run of these spans; refuses what is malformed."""
    known = known or SpanSettings()
    imported, problems = Imported(lost=LOST), Problems()
    spans: list[_Span] = []
    for path in sources:
        spans += _read(SourceFile(path, problems, imported))
    problems.raise_any()
    spans.sort(key=lambda span: (span.process, span.start, span.end))
    processes: dict[str, list[Line]] = {}
    producers: dict[str, Any] = {}
    consumers: dict[str, Any] = {}
    receiving = {span.process for span in spans if span.op == "poll"}
    for span in spans:
        named = f"{span.process}#0"
        if span.op == "send":
            producers[named] = {} if known.acks is None else {"acks": known.acks}
        else:
            consumers[named] = {"group": span.group} if span.group else {}
        processes.setdefault(named, []).extend(_calls(span, named, span.process in receiving))
    if not known.all_spans:
        # Named and without a file: the checks know that something is missing.
        producers["not-sampled"], consumers["not-sampled"] = {}, {}
    source = "OpenTelemetry messaging spans"
    senders = "all" if known.all_spans else "some"
    meta = {"source": source, "senders": senders, "producers": producers, "consumers": consumers}
    write_run(out, processes, meta, imported)
    return imported


@define
class _Span:
    """One span of a Kafka client."""

    process: str
    op: str
    start: int
    end: int
    records: list[Line]
    outcome: str = "ok"
    error: str | None = None
    group: str | None = None


def _calls(span: _Span, process: str, receives: bool) -> Iterator[Line]:
    """The calls of the trace that a span records."""
    clock: Line = {"clock": f"wall-{process}"}
    times: Line = {"invoked_ns": span.start, "returned_ns": span.end}
    about: Line = {"outcome": span.outcome, "records": span.records, **clock}
    about |= {"group": span.group} if span.group and span.op != "send" else {}
    about |= {"error": span.error} if span.error else {}
    if span.op == "process" and not receives:
        # What is processed was delivered before, and no span of its own says when.
        yield {"op": "poll", **about, "outcome": "ok"}
    if span.op != "process" or span.outcome == "ok":
        yield {"op": span.op, **about, **times}


def _read(source: SourceFile) -> Iterator[_Span]:
    data = source.path.read_bytes()
    try:
        documents: list[tuple[int, Any]] = [(1, orjson.loads(data))]
    except orjson.JSONDecodeError:
        documents = list(_lines(source, data))
    for number, document in documents:
        source.line = number
        yield from _spans(source, document)


def _lines(source: SourceFile, data: bytes) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(data.splitlines(), 1):
        source.line = number
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                source.problem("", f"expected JSON: {error.msg}")


def _spans(source: SourceFile, document: Any) -> Iterator[_Span]:
    if type(document) is not dict:
        source.problem("", "expected an object with resourceSpans")
        return
    whole = cast("dict[str, Any]", document)
    for i, resource in _each(source, whole, "resourceSpans", ""):
        at = f"resourceSpans[{i}]."
        about = _attributes(source, resource.get("resource") or {}, f"{at}resource.")
        scopes = "scopeSpans" if "scopeSpans" in resource else "instrumentationLibrarySpans"
        for j, scope in _each(source, resource, scopes, at):
            for k, span in _each(source, scope, "spans", f"{at}{scopes}[{j}]."):
                where = f"{at}{scopes}[{j}].spans[{k}]."
                found = _span(source, span, about, where)
                if found is not None:
                    yield found


def _each(
    source: SourceFile, fields: Mapping[str, Any], name: str, where: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    listed = source.take(fields, name, list, where)
    for i, one in enumerate(cast("list[Any]", listed or [])):
        if type(one) is dict:
            yield i, cast("dict[str, Any]", one)
        else:
            source.problem(f"{where}{name}[{i}]", f"expected an object, found {one!r}")


def _attributes(source: SourceFile, fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Attributes by name; OTLP wraps each value in its type, and integers in strings."""
    found: dict[str, Any] = {}
    if "attributes" not in fields:
        return found
    for i, one in _each(source, fields, "attributes", where):
        key = source.take(one, "key", str, f"{where}attributes[{i}].")
        value = one.get("value")
        if key is not None and type(value) is dict:
            found[key] = next(iter(cast("dict[str, Any]", value).values()), None)
    return found


def _look_up(attributes: Mapping[str, Any], what: str) -> Any:
    return next((attributes[name] for name in NAMES[what] if name in attributes), None)


def _span(
    source: SourceFile, span: Mapping[str, Any], resource: Mapping[str, Any], where: str
) -> _Span | None:
    attributes = _attributes(source, span, where)
    if _look_up(attributes, "system") != "kafka":
        source.imported.skip("spans that are not about Kafka")
        return None
    op = _operation(attributes, span)
    if not op:
        source.imported.skip("spans about neither sending, receiving nor processing")
        return None
    start = _whole(source, span.get("startTimeUnixNano"), f"{where}startTimeUnixNano")
    end = _whole(source, span.get("endTimeUnixNano"), f"{where}endTimeUnixNano")
    records = _records(source, span, attributes, op, where)
    if start is None or end is None or records is None:
        return None
    outcome, error = _outcome(span, attributes, op, records)
    process = _process(attributes, resource, op)
    return _Span(process, op, start, end, records, outcome, error, _look_up(attributes, "group"))


def _operation(attributes: Mapping[str, Any], span: Mapping[str, Any]) -> str:
    value = _look_up(attributes, "operation")
    if value is None:
        return BY_KIND.get(span.get("kind", 0), "")
    return OPERATIONS.get(value, "")


def _whole(source: SourceFile, value: Any, where: str) -> int | None:
    """A whole number; OTLP writes 64-bit ones as strings."""
    if type(value) is str and value.isdecimal():
        return int(value)
    if type(value) is int and value >= 0:
        return value
    message = "is missing" if value is None else f"expected a whole number, found {value!r}"
    source.problem(where, message)
    return None


def _records(
    source: SourceFile,
    span: Mapping[str, Any],
    attributes: Mapping[str, Any],
    op: str,
    where: str,
) -> list[Line] | None:
    topic = _look_up(attributes, "topic")
    if type(topic) is not str:
        message = "is missing" if topic is None else f"expected a string, found {topic!r}"
        source.problem(where + NAMES["topic"][0], message)
        return None
    record: Line = {"topic": topic}
    for what in ("partition", "offset"):
        value = _look_up(attributes, what)
        if value is not None:
            number = _whole(source, value, f"{where}{NAMES[what][0]}")
            if number is None:
                return None
            record[what] = number
    key = _look_up(attributes, "key")
    record |= {"key": str(key)} if key is not None else {}
    ids = _ids(source, span, op, where)
    if len(ids) > 1:  # a batch: what is told of one record is not told of the others
        source.imported.skip("offsets of records in batches", len(ids))
        return [{"topic": topic, "id": id} for id in ids]
    return [record | ({"id": ids[0]} if ids else {})]


def _ids(source: SourceFile, span: Mapping[str, Any], op: str, where: str) -> list[str]:
    """The producing spans: oneself, one's links, or else one's parent."""
    if op == "send":
        return _named(source, span, "spanId", where)
    if span.get("links"):
        return [
            id
            for i, link in _each(source, span, "links", where)
            for id in _named(source, link, "spanId", f"{where}links[{i}].")
        ]
    # Receiving begins a trace of its own: only a processing span's parent is a producer.
    return _named(source, span, "parentSpanId", where) if op == "process" else []


def _named(source: SourceFile, fields: Mapping[str, Any], name: str, where: str) -> list[str]:
    if name == "parentSpanId" and not fields.get(name):
        return []
    trace = source.take(fields, "traceId", str, where)
    span = source.take(fields, name, str, where)
    return [] if trace is None or span is None else [f"{trace.lower()}:{span.lower()}"]


def _outcome(
    span: Mapping[str, Any], attributes: Mapping[str, Any], op: str, records: list[Line]
) -> tuple[str, str | None]:
    status = span.get("status")
    code = cast("dict[str, Any]", status).get("code") if type(status) is dict else None
    if code in ERROR:
        exception = str(_look_up(attributes, "error") or "").rpartition(".")[2]
        error = EXCEPTIONS.get(exception, exception) or None
        return send_outcome(CODES.get(error or ""), None) if op == "send" else "info", error
    # A span that ended before the answer knows no offset: it was sent, and that is all.
    answered = op != "send" or all("offset" in record for record in records)
    return "ok" if answered else "info", None


def _process(attributes: Mapping[str, Any], resource: Mapping[str, Any], op: str) -> str:
    """One process for each client of an instance of a service."""
    parts = [
        resource.get("service.name") or "service",
        resource.get("service.instance.id") or resource.get("host.name"),
        _look_up(attributes, "client"),
        "producer" if op == "send" else "consumer",
    ]
    return "/".join(str(part).replace("#", "_") for part in parts if part)
