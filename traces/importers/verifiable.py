"""Logs of kafka-verifiable-producer and kafka-verifiable-consumer: a line of JSON per event.

The producer prints when it is answered, not when it calls. So the order of its calls comes from its
values, which it counts up, and the times of its calls are unknown. A value that is missing below
the highest one was sent, and its outcome is unknown.

The consumer is one thread that polls, prints the records, commits, and prints the answer. So each
call began after the event before was printed. Callbacks of a rebalance are the exception: they run
inside the poll whose event follows, or inside the close.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import orjson
from attrs import define, field, frozen

from traces.importers.writer import Imported, SourceFile, write_run
from traces.model.problems import Problem, Problems
from traces.record.entries import Line
from traces.record.errors import CODES, send_outcome
from traces.record.senders import Seen

LOST = (
    "when a send was called: real-time order cannot be judged",
    "sends after the last printed one of a producer that did not shut down",
    "leader epochs, members and generations",
    "the values of records, where the consumer ran without --verbose",
)
PRODUCER_EVENTS = ("producer_send_success", "producer_send_error", "tool_data")
CONSUMER_EVENTS = (
    "partitions_assigned",
    "partitions_revoked",
    "records_consumed",
    "record_data",
    "offsets_committed",
)
COMMON_EVENTS = ("startup_complete", "shutdown_requested", "shutdown_complete")

_TIMES = ("invoked_ns", "returned_ns")

# Java's exceptions that a broker's refusal becomes, where they say what `errors` can judge.
EXCEPTIONS = {
    "RecordTooLargeException": "MESSAGE_TOO_LARGE",
    "RecordBatchTooLargeException": "RECORD_LIST_TOO_LARGE",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "InvalidRecordException": "INVALID_RECORD",
    "InvalidTopicException": "INVALID_TOPIC_EXCEPTION",
    "UnsupportedForMessageFormatException": "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "UnsupportedCompressionTypeException": "UNSUPPORTED_COMPRESSION_TYPE",
    "NotEnoughReplicasException": "NOT_ENOUGH_REPLICAS",
    "NotEnoughReplicasAfterAppendException": "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "NotLeaderOrFollowerException": "NOT_LEADER_OR_FOLLOWER",
    "UnknownTopicOrPartitionException": "UNKNOWN_TOPIC_OR_PARTITION",
    "TopicAuthorizationException": "TOPIC_AUTHORIZATION_FAILED",
    "TimeoutException": "REQUEST_TIMED_OUT",
    "CommitFailedException": "UNKNOWN_MEMBER_ID",
    "RebalanceInProgressException": "REBALANCE_IN_PROGRESS",
}


@frozen
class ToolSettings:
    """Settings that the tools do not print; a user who knows them can give them."""

    acks: str | None = None
    group: str | None = None
    isolation: str | None = None
    one_clock: bool = False
    all_senders: bool = False


def id_of_value(_topic: str, _key: Any, value: Any, _headers: Any) -> str:
    """The id of a message, for `record-scan --id`: these producers put it into the value."""
    return bytes(value).decode("utf-8", "backslashreplace")


def import_verifiable(
    sources: Iterable[Path], out: Path, known: ToolSettings | None = None
) -> Imported:
    """Make a run of these logs, each the log of one process; refuses what is malformed."""
    known = known or ToolSettings()
    imported, problems = Imported(lost=LOST), Problems()
    processes: dict[str, list[Line]] = {}
    producers: dict[str, Any] = {}
    consumers: dict[str, Any] = {}
    for path in sources:
        source = SourceFile(path, problems, imported)
        name = _free_name(path, processes)
        clock = "wall" if known.one_clock else f"wall-{name}"
        log = _read(source)
        role, described = log.described(known)
        (producers if role == "producer" else consumers)[name] = described
        processes[name] = [{**line, "clock": clock} for line in log.lines(known)]
    problems.raise_any()
    seen = Seen()
    for lines in processes.values():
        seen.add(lines)
    senders = {topic: {"senders": who} for topic, who in seen.senders().items()}
    meta = {
        "source": "kafka-verifiable-producer and kafka-verifiable-consumer",
        **({"senders": "all"} if known.all_senders else {"topics": senders}),
        "producers": producers,
        "consumers": consumers,
    }
    write_run(out, processes, meta, imported)
    return imported


def _free_name(path: Path, taken: Mapping[str, Any]) -> str:
    stem = path.name.partition(".")[0].replace("#", "_")
    number = sum(name.rpartition("#")[0] == stem for name in taken)
    return f"{stem}#{number}"


@define
class _Log:
    """One log, taken apart by kind of event."""

    source: SourceFile
    role: str = ""
    sends: dict[int, Line] = field(factory=dict[int, Line])
    calls: list[Line] = field(factory=list[Line])
    verbose: list[Line] = field(factory=list[Line])
    prefix: str = ""
    sent: int | None = None
    unnamed: int = 0  # records of which only the offsets are told
    printed: int | None = None  # when the last call of the consumer had returned
    latest: int = 0  # the highest time so far
    stepped_back: bool = False  # times that contradict the order of the events tell nothing
    ended: Line | None = None

    def described(self, known: ToolSettings) -> tuple[str, dict[str, Any]]:
        """The role of the process, and its configuration as far as it is known."""
        if self.role == "producer":
            return "producer", {} if known.acks is None else {"acks": known.acks}
        settings = {"group": known.group, "isolation": known.isolation}
        return "consumer", {name: value for name, value in settings.items() if value is not None}

    def lines(self, known: ToolSettings) -> Iterable[Line]:
        """The calls in the order of the program, without times if its clock stepped back."""
        for line in self._lines(known):
            if self.stepped_back:
                line = {name: v for name, v in line.items() if name not in _TIMES}
            yield line

    def _lines(self, known: ToolSettings) -> Iterable[Line]:
        if self.role == "producer":
            yield from self._sends_in_order()
        else:
            grouped = {} if known.group is None else {"group": known.group}
            level = {} if known.isolation is None else {"isolation": known.isolation}
            for call in self.calls:
                yield {**call, **grouped, **(level if call["op"] == "poll" else {})}
        if self.ended is not None:
            yield self.ended

    def _sends_in_order(self) -> Iterable[Line]:
        last = max(self.sends, default=-1)
        topics = {send["records"][0]["topic"] for send in self.sends.values()}
        count = max(last + 1, self.sent or 0)
        for number in range(count):
            known = self.sends.get(number)
            if known is not None:
                yield known
            elif len(topics) == 1:
                record = {"topic": next(iter(topics)), "id": f"{self.prefix}{number}"}
                yield {"op": "send", "outcome": "info", "records": [record]}
        unknown = count - len(self.sends)
        if unknown and len(topics) == 1:
            self.source.warn(f"{unknown} values were sent and never answered: info")
        elif unknown:
            self.source.warn(f"{unknown} values were sent, to nobody knows which topic: cut off")
            self.ended = None


def _read(source: SourceFile) -> _Log:
    log = _Log(source)
    with source.path.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            source.line = number
            _read_line(log, raw)
    source.line = 0
    if not log.role:
        source.problems.add(source.path.name, None, "", "expected events of a verifiable client")
    if log.verbose:
        source.imported.skip("record_data without its records_consumed", len(log.verbose))
    if log.unnamed:
        source.warn(
            f"{log.unnamed} records were consumed and their values not printed, so that no check "
            "can compare them with what was sent: start kafka-verifiable-consumer with --verbose"
        )
    if log.stepped_back:
        source.warn("times go back: a clock was set, so the times of this log are left out")
    if log.ended is None:
        source.warn("the log ends without shutdown_complete: cut off")
    return log


def _read_line(log: _Log, raw: bytes) -> None:
    source = log.source
    text = raw.strip()
    if not text.startswith(b"{"):
        if text:
            source.imported.skip("lines that are not JSON (messages of the tool's own log)")
        return
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if raw.endswith(b"\n"):
            source.problem("", f"expected JSON: {error.msg}")
        else:
            last = Problem(source.path.name, source.line, "", "the last line is incomplete")
            source.imported.warnings.append(last)
        return
    event = cast("dict[str, Any]", found)
    name = source.take(event, "name", str)
    if name is None:
        return
    role = "producer" if name in PRODUCER_EVENTS else "consumer"
    if name in (*PRODUCER_EVENTS, *CONSUMER_EVENTS):
        if log.role not in ("", role):
            source.problem("name", f"{name!r} in the log of a {log.role}: one log, one process")
            return
        log.role = role
    elif name not in COMMON_EVENTS:
        source.problem("name", f"expected an event of a verifiable client, found {name!r}")
        return
    _EVENTS[name](log, event)


def _when(log: _Log, event: Mapping[str, Any]) -> Line:
    """When it was printed: after the answer, and within the millisecond."""
    at = log.source.take(event, "timestamp", int)
    if at is None:
        return {}
    log.stepped_back |= at < log.latest
    log.latest = max(log.latest, at)
    return {"returned_ns": at * 1_000_000}


def _called(log: _Log, event: Mapping[str, Any], *, inside: bool = False) -> Line:
    """When a consumer called, at the earliest, and when it was answered.

    A callback is `inside` the call that it delays, which began when the callback had not run yet.
    """
    since, times = log.printed, _when(log, event)
    if times and not inside:
        log.printed = times["returned_ns"]
    return times if since is None or not times else {"invoked_ns": since, **times}


def _sent(log: _Log, event: Mapping[str, Any]) -> Line | None:
    """The record of a send, with its number in the order of the calls."""
    source = log.source
    value, topic = source.take(event, "value", str), source.take(event, "topic", str)
    if value is None or topic is None:
        return None
    prefix, dot, digits = value.rpartition(".")
    if not digits.isdecimal():
        source.problem("value", f"expected a number, or PREFIX.number, found {value!r}")
        return None
    log.prefix = prefix + dot
    record: Line = {"topic": topic, "id": value}
    key = source.take_text(event, "key")
    return {"number": int(digits), "record": record | ({"key": key} if key is not None else {})}


def _send_success(log: _Log, event: Mapping[str, Any]) -> None:
    sent = _sent(log, event)
    partition = log.source.take(event, "partition", int)
    offset = log.source.take(event, "offset", int)
    if sent is None or partition is None or offset is None:
        return
    record = {**sent["record"], "partition": partition, "offset": offset}
    call = {"op": "send", "outcome": "ok", "records": [record], **_when(log, event)}
    _put(log, sent["number"], call)


def _send_error(log: _Log, event: Mapping[str, Any]) -> None:
    sent = _sent(log, event)
    exception = log.source.take(event, "exception", str)
    if sent is None or exception is None:
        return
    name: str = exception.rpartition(".")[2]
    error = EXCEPTIONS.get(name, name)
    outcome = send_outcome(CODES.get(error), retries=None)
    call = {"op": "send", "outcome": outcome, "error": error, "records": [sent["record"]]}
    _put(log, sent["number"], call | _when(log, event))


def _put(log: _Log, number: int, call: Line) -> None:
    if number in log.sends:
        log.source.problem("value", f"{number} was answered before: values must not repeat")
    log.sends[number] = call


def _tool_data(log: _Log, event: Mapping[str, Any]) -> None:
    log.sent = log.source.take(event, "sent", int)


def _shutdown(log: _Log, event: Mapping[str, Any]) -> None:
    log.ended = {"op": "close", "outcome": "ok", **_when(log, event)}


def _started(log: _Log, event: Mapping[str, Any]) -> None:
    """No call, but all calls come later."""
    _called(log, event)


def _timed(log: _Log, event: Mapping[str, Any]) -> None:
    """An event that is no call; it is looked at all the same."""
    _when(log, event)


def _partition_of(log: _Log, part: Any, where: str) -> str | None:
    source = log.source
    if type(part) is not dict:
        source.problem(where, f"expected an object, found {part!r}")
        return None
    fields = cast("dict[str, Any]", part)
    topic = source.take(fields, "topic", str, f"{where}.")
    partition = source.take(fields, "partition", int, f"{where}.")
    return None if topic is None or partition is None else f"{topic}:{partition}"


def _parts(log: _Log, event: Mapping[str, Any], name: str) -> list[tuple[str, dict[str, Any]]]:
    """The partitions that an event lists, by name."""
    listed = log.source.take(event, name, list)
    found: list[tuple[str, dict[str, Any]]] = []
    for i, part in enumerate(cast("list[Any]", listed or [])):
        partition = _partition_of(log, part, f"{name}[{i}]")
        if partition is not None:
            found.append((partition, cast("dict[str, Any]", part)))
    return found


def _rebalanced(op: str) -> Any:
    def handler(log: _Log, event: Mapping[str, Any]) -> None:
        partitions = [partition for partition, _ in _parts(log, event, "partitions")]
        call = {"op": op, "outcome": "ok", "partitions": partitions}
        log.calls.append({**call, **_called(log, event, inside=True)})

    return handler


def _record_data(log: _Log, event: Mapping[str, Any]) -> None:
    """Printed before the event of its poll, with --verbose alone."""
    source = log.source
    topic, value = source.take(event, "topic", str), source.take(event, "value", str)
    partition, offset = source.take(event, "partition", int), source.take(event, "offset", int)
    if topic is None or value is None or partition is None or offset is None:
        return
    record: Line = {"topic": topic, "partition": partition, "offset": offset, "id": value}
    key = source.take_text(event, "key")
    log.verbose.append(record | ({"key": key} if key is not None else {}))


def _records_consumed(log: _Log, event: Mapping[str, Any]) -> None:
    source = log.source
    count, times = source.take(event, "count", int), _called(log, event)
    records: list[Line] = log.verbose
    log.verbose = []
    if not records:
        log.unnamed += count or 0
        for i, (partition, part) in enumerate(_parts(log, event, "partitions")):
            records += _range(source, partition, part, f"partitions[{i}].")
    if count is not None and records and count != len(records):
        source.problem("count", f"expected {len(records)}, as listed, found {count}")
    if records:
        call = {"op": "poll", "outcome": "ok", "records": records, **times}
        log.calls.append(call)


def _range(source: SourceFile, partition: str, part: Mapping[str, Any], where: str) -> list[Line]:
    """Records without --verbose: their offsets, where the range has no gap, and never their ids."""
    named = [source.take(part, n, int, where) for n in ("count", "minOffset", "maxOffset")]
    if None in named:
        return []
    count, first, last = named
    topic, _, number = partition.rpartition(":")
    at: Line = {"topic": topic, "partition": int(number)}
    if count == last - first + 1:
        return [{**at, "offset": offset} for offset in range(first, last + 1)]
    source.imported.skip("offsets of records in ranges with gaps (which ones is not told)", count)
    return [at] * count


def _offsets_committed(log: _Log, event: Mapping[str, Any]) -> None:
    source = log.source
    success = source.take(event, "success", bool)
    offsets: dict[str, int] = {}
    for i, (partition, part) in enumerate(_parts(log, event, "offsets")):
        offset = source.take(part, "offset", int, f"offsets[{i}].")
        if offset is not None:
            offsets[partition] = offset
    call: Line = {"op": "commit", "outcome": "ok" if success else "info", "offsets": offsets}
    error = source.take_text(event, "error")
    log.calls.append(call | ({"error": error} if error else {}) | _called(log, event))


_EVENTS: dict[str, Any] = {
    "startup_complete": _started,
    "shutdown_requested": _timed,
    "shutdown_complete": _shutdown,
    "producer_send_success": _send_success,
    "producer_send_error": _send_error,
    "tool_data": _tool_data,
    "partitions_assigned": _rebalanced("assigned"),
    "partitions_revoked": _rebalanced("revoked"),
    "record_data": _record_data,
    "records_consumed": _records_consumed,
    "offsets_committed": _offsets_committed,
}
