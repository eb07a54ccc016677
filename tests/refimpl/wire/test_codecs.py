"""Our two codecs against other people's: kio's and kafka-python's, both made from Kafka's own
definitions."""

import io
import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.request_header.v1 import header as header_v1
from kio.schema.request_header.v2 import header as header_v2
from kio.serial import entity_writer

from refimpl.wire.errors import MalformedRequest, WireError
from refimpl.wire.fetch import FetchedData, write_fetch
from refimpl.wire.headers import read_api, read_client_id
from refimpl.wire.lengths import Walk, shape_of
from refimpl.wire.messages import (
    is_flexible,
    load_request_schema,
    load_response_schema,
    read_request,
    read_response,
    write_request,
    write_response,
)
from refimpl.wire.produce import (
    FIRST_WITH_IDS,
    ProduceData,
    ProducedData,
    read_produce,
    write_produced,
)
from refimpl.wire.writer import NodeEndpoint
from tests.refimpl.edge.requests import values

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # how kafka-python reads its own files
    FetchResponse: Any = import_module("kafka.protocol.consumer.fetch").FetchResponse
    ProduceRequest: Any = import_module("kafka.protocol.producer.produce").ProduceRequest

PRODUCE, FETCH = 0, 1
INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
NAMES = st.text("abcé.-", max_size=140)
IDS = st.binary(min_size=16, max_size=16).filter(any)
ENDPOINTS = st.builds(NodeEndpoint, INT32, NAMES, INT32, st.none() | NAMES)
RECORDS = st.one_of(st.binary(max_size=200), st.just(bytes(20_000)))


def written(message: Any) -> bytes:
    buffer = io.BytesIO()
    writer: Any = entity_writer
    writer(type(message))(buffer, message)
    return buffer.getvalue()


def grouped(data: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    topics = dict[Any, list[Any]]()
    for one in data:
        topics.setdefault(one[0], []).append(one)
    return list(topics.items())


# Produce


@st.composite
def produced(draw: st.DrawFn) -> tuple[int, str | None, int, int, list[ProduceData]]:
    version = draw(st.integers(3, 13))
    topics = draw(
        st.lists(IDS if version >= FIRST_WITH_IDS else NAMES, unique=True, max_size=3),
    )
    data = [
        ProduceData(topic, draw(INT32), memoryview(draw(RECORDS)))
        for topic in topics
        for _ in range(draw(st.integers(1, 3)))
    ]
    transactional_id = draw(st.none() | NAMES)
    return version, transactional_id, draw(st.integers(-1, 1)), draw(st.integers(0, 9999)), data


def fields(version: int, transactional_id: str | None, acks: int, timeout_ms: int, data: Any):
    """The same as kio wants it."""
    topics = [
        {
            ("topic_id" if version >= FIRST_WITH_IDS else "name"): topic,
            "partition_data": [
                {"index": one.partition, "records": bytes(one.records)} for one in many
            ],
        }
        for topic, many in grouped(data)
    ]
    return {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout": timeout_ms,
        "topic_data": topics,
    }


@given(produced())
def test_produce_is_read_as_kio_writes_it(request: Any) -> None:
    version, *rest = request
    body = write_request(PRODUCE, version, fields(*request))
    read = read_produce(b"before" + body, 6, version)
    assert list(read) == rest


@given(produced().filter(lambda one: one[0] < FIRST_WITH_IDS))
def test_produce_is_read_as_kafka_python_writes_it(request: Any) -> None:
    version, transactional_id, acks, timeout_ms, data = request
    topic_of, partition_of = (
        ProduceRequest.TopicProduceData,
        ProduceRequest.TopicProduceData.PartitionProduceData,
    )
    topics = [
        topic_of(
            name=topic,
            partition_data=[
                partition_of(index=one.partition, records=bytes(one.records)) for one in many
            ],
        )
        for topic, many in grouped(data)
    ]
    message: Any = ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topics
    )
    read = read_produce(bytes(message.encode(version=version)), 0, version)
    assert list(read) == [transactional_id, acks, timeout_ms, data]


@given(produced())
def test_records_are_views_of_the_frame(request: Any) -> None:
    version, *_, data = request
    body = bytearray(write_request(PRODUCE, version, fields(*request)))
    read = read_produce(body, 0, version)
    body[:] = bytes(len(body))
    assert [bytes(one.records) for one in read.data] == [bytes(len(one.records)) for one in data]


@given(produced(), st.data())
def test_a_produce_request_that_is_cut_off_is_refused(request: Any, data: st.DataObject) -> None:
    version, *_ = request
    body = write_request(PRODUCE, version, fields(*request))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(MalformedRequest):
        read_produce(body[:cut], 0, version)
    assert read_produce(body + bytes(1), 0, version) == read_produce(body, 0, version)


@given(st.integers(3, 13), st.binary(max_size=60))
def test_any_bytes_are_a_produce_request_or_are_refused(version: int, data: bytes) -> None:
    with suppress(WireError):
        read_produce(data, 0, version)


@st.composite
def answered(draw: st.DrawFn) -> tuple[int, int, list[NodeEndpoint], Any]:
    version = draw(st.integers(3, 13))
    leaders = st.none() | st.tuples(st.integers(0, 9), INT32) if version >= 10 else st.none()
    partition = st.builds(
        ProducedData,
        INT32,
        st.integers(0, 100),
        INT64,
        st.integers(-1, 2**41),
        INT64 if version >= 5 else st.just(-1),
        st.none() | NAMES if version >= 8 else st.none(),
        st.lists(st.tuples(INT32, NAMES), max_size=2) if version >= 8 else st.just(()),
        leaders,
    )
    names = IDS if version >= FIRST_WITH_IDS else NAMES
    topics = draw(st.lists(st.tuples(names, st.lists(partition, max_size=3)), max_size=3))
    endpoints = draw(st.lists(ENDPOINTS, max_size=2)) if version >= 10 else []
    return version, draw(st.integers(0, 2**31 - 1)), endpoints, topics


@given(answered())
def test_produce_is_answered_as_kio_writes_it(response: Any) -> None:
    version, throttle_ms, endpoints, topics = response

    def partition(one: ProducedData) -> dict[str, Any]:
        leader, epoch = one.leader or (-1, -1)
        return {
            "index": one.partition,
            "error_code": ErrorCode(one.error_code),
            "base_offset": one.base_offset,
            "log_append_time": one.log_append_time_ms,
            "log_start_offset": one.log_start_offset,
            "record_errors": [
                {"batch_index": index, "batch_index_error_message": why}
                for index, why in one.records
            ],
            "error_message": one.message,
            "current_leader": {"leader_id": leader, "leader_epoch": epoch},
        }

    fields = {
        "throttle_time": throttle_ms,
        "responses": [
            {
                ("topic_id" if version >= FIRST_WITH_IDS else "name"): topic,
                "partition_responses": [partition(one) for one in many],
            }
            for topic, many in topics
        ],
        "node_endpoints": [one._asdict() for one in endpoints],
    }
    ours = write_produced(version, topics, throttle_ms=throttle_ms, endpoints=endpoints)
    assert ours == write_response(PRODUCE, version, fields)


# Fetch


@st.composite
def fetched(draw: st.DrawFn) -> tuple[int, dict[str, Any], list[tuple[Any, list[FetchedData]]]]:
    version = draw(st.integers(4, 18))
    names = IDS if version >= FIRST_WITH_IDS else NAMES
    partition = st.builds(
        FetchedData,
        INT32,
        st.integers(0, 100),
        *(INT64, INT64, INT64 if version >= 5 else st.just(-1)),
        st.none() | st.lists(st.tuples(INT64, INT64), max_size=3),
        INT32 if version >= 11 else st.just(-1),
        RECORDS,
        st.none() | st.tuples(INT32, INT64) if version >= 12 else st.none(),
        st.none() | st.tuples(INT32, INT32) if version >= 16 else st.none(),
    )
    topics = draw(
        st.lists(
            st.tuples(names, st.lists(partition, min_size=1, max_size=3)),
            unique_by=lambda one: one[0],
            max_size=3,
        )
    )
    top = {
        "throttle_ms": draw(st.integers(0, 2**31 - 1)),
        "error_code": draw(st.integers(0, 100)) if version >= 7 else 0,
        "session_id": draw(INT32) if version >= 7 else 0,
        "endpoints": draw(st.lists(ENDPOINTS, max_size=2)) if version >= 16 else [],
    }
    return version, top, topics


def response_fields(version: int, top: dict[str, Any], topics: Any) -> dict[str, Any]:
    def partition(one: FetchedData) -> dict[str, Any]:
        found: dict[str, Any] = {
            "partition_index": one.partition,
            "error_code": ErrorCode(one.error_code),
            "high_watermark": one.high_watermark,
            "last_stable_offset": one.last_stable_offset,
            "log_start_offset": one.log_start_offset,
            "aborted_transactions": one.aborted
            if one.aborted is None
            else [{"producer_id": who, "first_offset": first} for who, first in one.aborted],
            "preferred_read_replica": one.preferred_read_replica,
            "records": bytes(one.records),
        }
        if one.diverging is not None:
            epoch, end = one.diverging
            found["diverging_epoch"] = {"epoch": epoch, "end_offset": end}
        if one.leader is not None:
            leader, epoch = one.leader
            found["current_leader"] = {"leader_id": leader, "leader_epoch": epoch}
        return found

    return {
        "throttle_time": top["throttle_ms"],
        "error_code": ErrorCode(top["error_code"]),
        "session_id": top["session_id"],
        "responses": [
            {
                ("topic_id" if version >= FIRST_WITH_IDS else "topic"): topic,
                "partitions": [partition(one) for one in many],
            }
            for topic, many in topics
        ],
        "node_endpoints": [one._asdict() for one in top["endpoints"]],
    }


@given(fetched())
def test_fetch_is_written_as_kio_writes_it(response: Any) -> None:
    version, top, topics = response
    # A tagged field at its default is not written: KIP-482 leaves that to the writer.
    for _, many in topics:
        for number, one in enumerate(many):
            unsaid = {"diverging": (-1, -1), "leader": (-1, -1)}
            many[number] = one._replace(
                **{name: None for name, value in unsaid.items() if getattr(one, name) == value}
            )
    ours = b"".join(write_fetch(version, topics, **top))
    assert ours == write_response(FETCH, version, response_fields(version, top, topics))


@given(fetched().filter(lambda one: one[0] >= 7))
def test_fetch_is_read_by_kafka_python_as_it_was_meant(response: Any) -> None:
    version, top, topics = response
    body = b"".join(write_fetch(version, topics, **top))
    read = FetchResponse.decode(body, version=version)
    assert [read.throttle_time_ms, read.error_code, read.session_id] == [
        *(top["throttle_ms"], top["error_code"], top["session_id"]),
    ]
    for found, (_, many) in zip(read.responses, topics, strict=True):
        for theirs, ours in zip(found.partitions, many, strict=True):
            assert theirs.partition_index == ours.partition
            assert theirs.high_watermark == ours.high_watermark
            assert bytes(theirs.records or b"") == ours.records


def test_records_are_parts_of_the_answer_as_they_are() -> None:
    records = memoryview(bytes(100))
    parts = write_fetch(12, [("t", [FetchedData(0, 0, 1, 1, 0, None, -1, records)])])
    assert any(part is records for part in parts)


# Headers, and all the others


@given(st.integers(-(2**15), 2**15 - 1), st.integers(0, 20), INT32, st.none() | NAMES)
def test_request_headers_are_read_as_kio_writes_them(
    key: int, version: int, correlation: int, client_id: str | None
) -> None:
    for flexible, module in ((False, header_v1), (True, header_v2)):
        schema = module.RequestHeader
        raw = written(
            schema(
                request_api_key=key,
                request_api_version=version,
                correlation_id=correlation,
                client_id=client_id,
            )
        )
        assert read_api(raw) == (key, version, correlation)
        assert read_client_id(raw + b"body", flexible=flexible) == (client_id, len(raw))


MESSAGES = [
    (key, version) for key, name in api_key_map.items() for version in schema_name_map[name]
]


def test_every_response_can_be_made_of_no_fields_at_all_and_is_read_again() -> None:
    for key, version in MESSAGES:
        read_response(key, version, write_response(key, version, {}))


@given(st.sampled_from(MESSAGES), st.binary(max_size=80))
def test_any_bytes_are_a_request_or_are_refused(message: tuple[int, int], data: bytes) -> None:
    key, version = message
    for flexible in (is_flexible(key, version), False):
        with suppress(WireError):
            _, at = read_client_id(data, flexible=flexible)
            read_request(key, version, data, at)


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (3, 12, "ffffffff0f"),  # ended the process: kio reserved memory for 2^32 elements
        (3, 1, "7fffffff"),
        (1, 12, "ffffffff" + "00" * 21 + "ffffffff07"),
        (19, 7, "ffffffff07"),
        (2, 1, "ffffffff7fffffff"),
    ],
)
def test_an_array_longer_than_what_is_left_is_refused_before_memory_is_reserved(
    key: int, version: int, body: str
) -> None:
    with pytest.raises(MalformedRequest, match="an array of"):
        read_request(key, version, bytes.fromhex(body))


@given(st.sampled_from(MESSAGES), st.data())
def test_what_kio_writes_is_walked_over_to_its_end(
    message: tuple[int, int], data: st.DataObject
) -> None:
    key, version = message
    for schema, write in (
        (load_request_schema(key, version), write_request),
        (load_response_schema(key, version), write_response),
    ):
        body = write(key, version, data.draw(values(schema)))
        walk = Walk(body)
        shape_of(schema).skip(walk)
        assert walk.position == len(body)
