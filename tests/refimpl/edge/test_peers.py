"""Brokers that are processes of their own: what they say, as bytes, and the connections for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from refimpl.edge.server.peer_codec import (
    MESSAGES,
    NotAMessage,
    decode,
    encode,
    names_of,
)
from refimpl.edge.server.peers import PeerNetwork
from refimpl.messages.broker import (
    FetchedPartition,
    FetchResponse,
    Request,
    Response,
    TopicPartition,
)
from refimpl.storage.replica.memory import RecordBatch
from refimpl.storage.replica.memory_records import MemoryRecords
from tests.refimpl.edge.patience import PATIENCE_S

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
)
hashables = st.one_of(
    scalars,
    st.tuples(scalars, scalars),
    st.frozensets(st.integers(0, 9)),
    st.builds(TopicPartition, st.text(), st.integers(0, 99)),
)
values = st.one_of(
    hashables,
    st.lists(hashables, max_size=3).map(tuple),
    st.dictionaries(st.text(max_size=3), scalars, max_size=3),
)


@st.composite
def messages(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(MESSAGES))
    return kind(*(draw(values) for _ in names_of(kind)))


@given(messages(), st.integers(0, 2**31), st.integers(0, 2**31))
def test_a_message_comes_as_it_went(body: Any, source: int, target: int) -> None:
    message = Request(source, target, 7, body)
    came = decode(encode(message))
    assert came == message
    assert type(came.body) is type(body)


@given(messages(), st.data())
def test_whatever_is_none_is_refused(body: Any, data: st.DataObject) -> None:
    whole = encode(body)
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(NotAMessage):
        decode(whole[:cut])
    with pytest.raises(NotAMessage):
        decode(whole + b"\0")
    flipped = bytearray(whole)
    flipped[cut] ^= data.draw(st.integers(1, 255))
    try:
        decode(bytes(flipped))
    except NotAMessage as refusal:
        assert str(refusal)  # noqa: PT017 - what can be read is a message, if another one


def test_record_batches_come_as_bytes() -> None:
    records = MemoryRecords(b"batches", 5)
    partition = FetchedPartition(TopicPartition("t", 0), None, records=records)
    came = decode(encode(FetchResponse((partition,)))).partitions[0].records
    assert (came.data, came.start) == (b"batches", 5)


def test_what_only_a_log_in_memory_knows_is_not_for_other_brokers() -> None:
    with pytest.raises(TypeError, match="RecordBatch is not for other brokers"):
        encode(Request(1, 2, 3, (RecordBatch(()),)))


class Process:
    """A broker process that only listens."""

    def __init__(self, broker: int, cluster_id: str, ports: dict[int, int]) -> None:
        self.broker, self.ports = broker, ports
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.network = PeerNetwork(broker=broker, cluster_id=cluster_id, address_of=self.address_of)
        self.network.nodes[broker] = self.heard.put_nowait

    async def address_of(self, broker: int) -> tuple[str, int] | None:
        return ("127.0.0.1", self.ports[broker]) if broker in self.ports else None

    async def start(self, port: int = 0) -> "Process":
        self.ports[self.broker] = await self.network.listen("127.0.0.1", port)
        return self

    def say(self, target: int, body: Any) -> None:
        self.network.send(Request(self.broker, target, 1, body))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


def test_a_node_hears_that_the_connection_with_a_peer_is_lost() -> None:
    """In either direction, and where none can be made; but not of its own end."""

    async def test() -> None:
        ports: dict[int, int] = {}
        one = await Process(1, "a", ports).start()
        two = await Process(2, "a", ports).start()
        lost: asyncio.Queue[int] = asyncio.Queue()
        one.network.disconnected[1] = lost.put_nowait
        one.say(2, "ask")
        await two.heard.get()
        assert lost.empty()
        two.network.close()
        assert await lost.get() == 2
        del ports[2]
        one.say(2, "ask again")
        assert await lost.get() == 2
        three = await Process(3, "a", ports).start()
        three.say(1, "answer")
        await one.heard.get()
        three.network.close()
        assert await lost.get() == 3
        two = await Process(2, "a", ports).start()
        one.say(2, "ask")
        await two.heard.get()
        one.network.close()
        for _ in range(10):
            await asyncio.sleep(0)
        assert lost.empty()
        two.network.close()

    run(test)


def test_messages_come_in_order_and_answers_come_back() -> None:
    async def test() -> None:
        ports: dict[int, int] = {}
        one, two = [await Process(broker, "c", ports).start() for broker in (1, 2)]
        for number in range(100):
            one.say(2, (number, b"x" * 10_000))
        for number in range(100):
            request = await two.heard.get()
            assert request.body[0] == number
        two.network.send(Response(2, 1, 1, "done"))
        assert await one.heard.get() == Response(2, 1, 1, "done")
        one.say(1, "myself")
        one.network.run()
        assert (await one.heard.get()).body == "myself"
        for each in (one, two):
            each.network.close()

    run(test)


def test_what_cannot_be_delivered_is_lost_and_the_next_is_not() -> None:
    async def test() -> None:
        ports: dict[int, int] = {}
        one, two = [await Process(broker, "c", ports).start() for broker in (1, 2)]
        one.say(3, "nobody knows where")
        one.say(2, "first")
        assert (await two.heard.get()).body == "first"
        two.network.close()
        port = ports[2]
        again = await Process(2, "c", ports).start(port)
        while again.heard.empty():
            one.say(2, "after the restart")
            await asyncio.sleep(0.01)
        assert one.network.dropped >= 1
        for each in (one, again):
            each.network.close()

    run(test)


@pytest.mark.parametrize("other", ["another cluster", "no broker at all"])
def test_a_stranger_is_not_heard(other: str, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        ports: dict[int, int] = {}
        one = await Process(1, "c", ports).start()
        if other == "another cluster":
            stranger = Process(2, "d", ports)
            stranger.say(1, "hello")
            while not caplog.messages:
                await asyncio.sleep(0.001)
            stranger.network.close()
            assert "a broker of cluster d, and this is c" in caplog.messages[0]
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", ports[1])
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
            assert "this port is for brokers of the same cluster" in caplog.messages[0]
        assert one.heard.empty()
        one.network.close()

    run(test)
