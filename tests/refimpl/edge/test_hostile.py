"""Whatever clients send, the broker answers it or ends the connection, and goes on."""

import socket
from collections.abc import Iterator
from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refimpl.api.table import APIS, Api
from refimpl.edge import BlockingCluster
from refimpl.edge.server.listener import Listener
from refimpl.wire.messages import is_flexible, read_response, write_request
from tests.refimpl.edge.patience import PATIENCE_S
from tests.refimpl.edge.requests import BATCH, requests

API_VERSIONS = 18
ALL = [(api.key, version) for api in APIS.values() for version in range(api.first, api.last + 1)]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A broker with a topic that has a record."""
    with BlockingCluster(brokers=1, seed=1) as cluster:
        cluster.create_topic("t", partitions=2)
        yield int(cluster.bootstrap.partition(":")[2])


@pytest.fixture(autouse=True)
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """Bugs of ours that a request has met; none may be left in the end."""
    found: list[Exception] = []

    def failed(self: Listener, api: Api, error: Exception) -> None:
        found.append(error)

    monkeypatch.setattr(Listener, "failed", failed)
    return found


def exchanged(port: int, api_key: int, version: int, body: bytes) -> bytes | None:
    """The body of the response, None where the connection was ended."""
    flexible = is_flexible(api_key, version)
    head = pack(">hhih", api_key, version, 1, -1) + (b"\0" if flexible else b"")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as client:
        client.sendall(pack(">i", len(head) + len(body)) + head + body)
        # Where there is no answer, as to a producer that wants none, the next one comes first.
        probe = pack(">hhih", API_VERSIONS, 0, 2, -1)
        client.sendall(pack(">i", len(probe)) + probe)
        with client.makefile("rb") as answers:
            data = _answer(answers)
            if data is None or unpack(">i", data[:4])[0] == 2:
                return None
            assert _answer(answers) is not None
    tagged = flexible and api_key != API_VERSIONS
    assert not tagged or data[4] == 0
    return data[5 if tagged else 4 :]


def _answer(answers: Any) -> bytes | None:
    try:
        size = answers.read(4)
        return answers.read(unpack(">i", size)[0]) if size else None
    except ConnectionError:
        return None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.sampled_from(ALL), st.data())
def test_every_request_that_can_be_sent_is_answered_in_its_own_version(
    port: int, failures: list[Exception], api: tuple[int, int], data: st.DataObject
) -> None:
    key, version = api
    body = write_request(key, version, data.draw(requests(key, version)))
    answer = exchanged(port, key, version, body)
    assert not failures, failures
    if answer is not None:
        read_response(key, version, answer)


TWICE = [{"index": 0, "records": BATCH}, {"index": 0, "records": BATCH}]


def test_a_partition_that_is_named_twice_is_answered_once(port: int) -> None:
    topic = {"name": "t", "partition_data": TWICE}
    body = write_request(0, 9, {"acks": 1, "timeout": 5, "topic_data": [topic, topic]})
    answer = exchanged(port, 0, 9, body)
    assert answer is not None
    responses = read_response(0, 9, answer).responses
    assert [len(one.partition_responses) for one in responses] == [1]


def test_a_topic_without_name_and_id_is_unknown(port: int) -> None:
    partition = {"partition": 0, "partition_max_bytes": 100}
    topic = {"topic_id": None, "partitions": [partition]}
    body = write_request(1, 15, {"session_epoch": -1, "topics": [topic]})
    answer = exchanged(port, 1, 15, body)
    assert answer is not None
    found = read_response(1, 15, answer).responses[0].partitions[0]
    assert found.error_code.name == "unknown_topic_id"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.sampled_from(ALL), st.binary(max_size=100))
def test_any_bytes_behind_a_header_are_answered_or_end_the_connection(
    port: int, failures: list[Exception], api: tuple[int, int], body: bytes
) -> None:
    exchanged(port, *api, body)
    assert not failures, failures
