"""Says what is wrong with a call, by field: slow, and asked only when the reader stumbled."""

from collections.abc import Iterable, Iterator
from typing import Any, cast

from traces.ingest.columns import lowest
from traces.ingest.vocabulary import ANSWERS, OPS, OUTCOMES, QUERIES
from traces.model.meta import MOST_PARTITIONS
from traces.model.problems import shown
from traces.model.schema import Detail

FieldProblem = tuple[str, str]

_NATURAL = ("seq", "invoked_ns", "returned_ns", "txn")
_WHOLE = ("generation", "producer_id", "producer_epoch", "replica")
# Kafka has 32 bits (or fewer) for these, and so has the table.
_NARROW = frozenset(("epoch", "producer_epoch", "replica", "delivery_count"))
_TEXT = ("process", "clock", "error", "group", "member", "transactional_id", "instance")
_ISOLATION = ("read_committed", "read_uncommitted")


def findings(call: Any) -> Iterator[FieldProblem]:
    """Every field of `call` that does not conform to trace format v1, and the expected value."""
    if type(call) is not dict:
        yield "", "expected an object"
        return
    call = cast("dict[str, Any]", call)
    for required in ("process", "seq", "op", "outcome"):
        if call.get(required) is None:
            yield required, "is missing"
    yield from _one_of(call, "op", tuple(OPS))
    yield from _one_of(call, "outcome", tuple(OUTCOMES))
    yield from _one_of(call, "isolation", _ISOLATION)
    yield from _fields(call, "", _NATURAL, _WHOLE, _TEXT)
    yield from _records(call.get("records"))
    yield from _partitions(call.get("partitions"))
    for name in ("offsets", "leader_epochs", *ANSWERS):
        yield from _offsets(name, call.get(name))
    if call.get("op") == "reset":
        if call.get("reason") is None:
            yield "reason", "is missing"
        yield from _one_of(call, "reason", tuple(Detail.RESETS))
    yield from _one_of(call, "control", tuple(Detail.MARKERS))
    query = call.get("query")
    if not is_query(query):
        yield "query", f"expected one of {', '.join(QUERIES)} or a time in ms, found {shown(query)}"
    yield from _topic_ids(call.get("topic_ids"))
    yield from _topics(call.get("topics"))
    yield from _counts(call.get("partition_counts"))


def _one_of(call: dict[str, Any], name: str, words: tuple[str, ...]) -> Iterator[FieldProblem]:
    value = call.get(name)
    if value is not None and value not in words:
        yield name, f"expected one of {', '.join(words)}, found {shown(value)}"


def _fields(
    values: dict[str, Any],
    path: str,
    natural: tuple[str, ...],
    whole: tuple[str, ...],
    text: tuple[str, ...],
) -> Iterator[FieldProblem]:
    for name in natural:
        yield from _number(path + name, values.get(name), name, 0)
    for name in whole:
        yield from _number(path + name, values.get(name), name, lowest(name))
    for name in text:
        value = values.get(name)
        if value is not None and type(value) is not str:
            yield path + name, f"expected a string, found {shown(value)}"


def _number(field: str, value: Any, name: str, low: int) -> Iterator[FieldProblem]:
    high = MOST_PARTITIONS if name == "partition" else 2**31 if name in _NARROW else 2**63
    if value is not None and (type(value) is not int or not low <= value < high):
        least = f" of at least {low}" if low > -(2**63) else ""
        most = {2**63: "", 2**31: " and below 2^31"}.get(high, f" and below {high}")
        yield field, f"expected a whole number{least}{most}, found {shown(value)}"


def _records(records: Any) -> Iterator[FieldProblem]:
    if records is None:
        return
    if type(records) is not list:
        yield "records", f"expected a list, found {shown(records)}"
        return
    for i, record in enumerate(cast("list[Any]", records)):
        path = f"records[{i}]"
        if type(record) is not dict:
            yield path, f"expected an object, found {shown(record)}"
            continue
        record = cast("dict[str, Any]", record)
        if record.get("topic") is None:
            yield f"{path}.topic", "is missing"
        yield from _fields(
            record,
            f"{path}.",
            ("partition", "offset"),
            ("timestamp", "epoch", "sequence", "hash", "delivery_count"),
            ("topic", "key"),
        )
        for name in ("tombstone", "chosen"):
            if type(record.get(name)) not in (bool, type(None)):
                yield f"{path}.{name}", f"expected true or false, found {shown(record[name])}"
        for where, message in _one_of(record, "ack", tuple(Detail.ACKS)):
            yield f"{path}.{where}", message
        if type(record.get("id")) not in (int, str, type(None)):
            yield f"{path}.id", f"expected a whole number or a string, found {shown(record['id'])}"


def _partitions(partitions: Any) -> Iterator[FieldProblem]:
    if partitions is None:
        return
    if type(partitions) is not list:
        yield "partitions", f"expected a list, found {shown(partitions)}"
        return
    for i, name in enumerate(cast("list[Any]", partitions)):
        if not is_partition(name):
            yield f"partitions[{i}]", f'expected "topic:partition", found {shown(name)}'


def _offsets(field: str, offsets: Any) -> Iterator[FieldProblem]:
    yield from _object(field, offsets)
    for name, offset in _items(offsets):
        if not is_partition(name):
            yield field, f'expected names such as "topic:partition", found {shown(name)}'
        kind = "epoch" if field == "leader_epochs" else "offset"
        yield from _number(f"{field}.{name}", offset, kind, 0)


def _object(field: str, value: Any) -> Iterator[FieldProblem]:
    if value is not None and type(value) is not dict:
        yield field, f"expected an object, found {shown(value)}"


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return cast("dict[Any, Any]", value).items() if type(value) is dict else ()


def _topic_ids(ids: Any) -> Iterator[FieldProblem]:
    yield from _object("topic_ids", ids)
    for topic, id in _items(ids):
        if type(id) is not str:
            yield f"topic_ids.{topic}", f"expected a string, found {shown(id)}"


def _topics(topics: Any) -> Iterator[FieldProblem]:
    if topics is not None and type(topics) is not list:
        yield "topics", f"expected a list, found {shown(topics)}"
        return
    for i, name in enumerate(cast("list[Any]", topics or [])):
        if type(name) is not str:
            yield f"topics[{i}]", f"expected a string, found {shown(name)}"


def _counts(counts: Any) -> Iterator[FieldProblem]:
    yield from _object("partition_counts", counts)
    for topic, count in _items(counts):
        if type(count) is not int or not 1 <= count <= MOST_PARTITIONS:
            most = f"expected a whole number from 1 to {MOST_PARTITIONS}"
            yield f"partition_counts.{topic}", f"{most}, found {shown(count)}"


def is_partition(name: Any) -> bool:
    """True if `name` has the form `topic:partition`."""
    if type(name) is not str:
        return False
    topic, _, number = name.rpartition(":")
    return bool(topic) and is_number(number)


def is_number(text: str) -> bool:
    """True if a text is the number of a partition."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < MOST_PARTITIONS


def is_query(value: Any) -> bool:
    """True if an offset may be looked up by this: one of two names, a timestamp, or None."""
    return value in (None, *QUERIES) or type(value) is int
