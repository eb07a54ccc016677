"""Clients' use of a listener: nothing ends it, and nothing costs much memory."""

import asyncio
import errno
import socket
import tracemalloc
from collections.abc import Callable, Coroutine
from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refimpl.edge.server.limits import Limits
from refimpl.messages.broker import (
    ListedOffset,
    ListOffsetsResponse,
    ProducedPartition,
    ProduceResponse,
    TopicPartition,
)
from refimpl.messages.group import ListedGroup, ListGroupsResponse
from refimpl.messages.share import ShareConnectionLost
from tests.refimpl.edge.patience import PATIENCE_S
from tests.refimpl.edge.sockets import listening, request, response, until

API_VERSIONS, LIST_GROUPS, LIST_OFFSETS, PRODUCE, SHARE_FETCH = 18, 16, 2, 0, 78
EMPTY_LIST_OFFSETS = pack(">ii", -1, 0)
#: The end of partition 0 of topic t, and an answer
LATEST = pack(">iihsiiq", -1, 1, 1, b"t", 1, 0, -1)
LISTED = ListOffsetsResponse([ListedOffset(TopicPartition("t", 0), None)])


def one_batch(records: bytes, acks: int = 1) -> bytes:
    """The body of a Produce request of version 3 for partition 0 of topic t."""
    head = pack(">hhii", -1, acks, 1000, 1) + pack(">hsi", 1, b"t", 1)
    return head + pack(">ii", 0, len(records)) + records


def run(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """A test that is a coroutine."""

    def ran() -> None:
        asyncio.run(asyncio.wait_for(test(), PATIENCE_S))

    ran.__name__, ran.__doc__ = test.__name__, test.__doc__
    return ran


@run
async def test_a_version_from_the_future_is_told_what_is_served() -> None:
    async with listening() as (_, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(API_VERSIONS, 99, 7, b"any bytes"))
        number, body = await response(reader)
        assert number == 7
        assert body[:2] == pack(">h", 35)
        writer.write(request(API_VERSIONS, 0, 8))
        number, body = await response(reader)
        assert (number, body[:2]) == (8, pack(">h", 0))
        writer.close()


@pytest.mark.parametrize(
    "sent",
    [
        pack(">i", -1),
        pack(">i", 2**31 - 1),
        pack(">i", 3) + b"abc",
        request(999, 0, 1),
        request(-1, 0, 1),
        request(LIST_OFFSETS, 99, 1),
        request(LIST_OFFSETS, -1, 1),
        request(LIST_OFFSETS, 1, 1, b"\xff" * 9),
        request(LIST_OFFSETS, 1, 1, EMPTY_LIST_OFFSETS[:-1]),
        request(LIST_OFFSETS, 1, 1, pack(">ii", -1, 2**31 - 1)),
        request(PRODUCE, 3, 1, pack(">hhii", -1, 1, 1000, 2**31 - 1)),
        request(PRODUCE, 9, 1, b"\x00" + b"\xff" * 20),
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_ends_its_connection_and_no_other(sent: bytes) -> None:
    async def ended() -> None:
        async with listening() as (listener, _, port):
            other, into_other = await asyncio.open_connection("127.0.0.1", port)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await response(reader)
            assert listener.refusals == 1
            into_other.write(request(API_VERSIONS, 0, 1))
            assert (await response(other))[0] == 1
            for each in (writer, into_other):
                each.close()

    asyncio.run(asyncio.wait_for(ended(), PATIENCE_S))


@run
async def test_a_connection_that_goes_ends_the_share_sessions_that_it_may_have() -> None:
    async with listening() as (listener, broker, port):
        for key in (API_VERSIONS, SHARE_FETCH):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(key, 1, 1, b"no body"))
            await until(lambda: len(listener.connections) == 1)
            writer.close()
            await until(lambda: not listener.connections)
        assert broker.told == [ShareConnectionLost(2)]


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=200), max_size=4), st.integers(0, 3))
def test_any_bytes_leave_the_listener_serving(pieces: list[bytes], framed: int) -> None:
    async def served() -> None:
        async with listening(Limits(request_max_bytes=1 << 20)) as (listener, _, port):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            for number, piece in enumerate(pieces):
                head = pack(">hhi", *((18, 0, number), (3, 9, 1), (1, 12, 2), (0, 9, 3))[framed])
                body = head + piece if framed else piece
                writer.write(pack(">i", len(body)) + body)
            other, into_other = await asyncio.open_connection("127.0.0.1", port)
            into_other.write(request(API_VERSIONS, 0, 1))
            assert (await response(other))[0] == 1
            for each in (writer, into_other):
                each.close()
            await until(lambda: not listener.connections)
            assert listener.budget.taken == 0

    asyncio.run(asyncio.wait_for(served(), PATIENCE_S))


@run
async def test_answers_come_in_the_order_of_the_requests() -> None:
    async with listening() as (_, broker, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(3):
            writer.write(request(LIST_OFFSETS, 1, number, LATEST))
        writer.write(request(API_VERSIONS, 0, 3))
        for number in range(3):
            await until(lambda number=number: len(broker.asked) == number + 1)
            broker.asked[number][1](LISTED)
        assert [(await response(reader))[0] for _ in range(4)] == [0, 1, 2, 3]
        writer.close()


#: 30 kB, by the name of a group
LARGE_ANSWER = ListGroupsResponse(None, [ListedGroup("g" * 30_000, "", "Empty", "classic")])


async def deaf(port: int, requests: int) -> socket.socket:
    """A client that sends so many requests and reads no answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", port))
    await loop.sock_sendall(client, request(LIST_GROUPS, 0, 1) * requests)
    return client


@run
async def test_nothing_is_handled_for_a_client_that_does_not_read_its_answers() -> None:
    async with listening() as (listener, broker, port):
        broker.answer = LARGE_ANSWER
        client = await deaf(port, 1000)
        await until(lambda: any(one.unsent_bytes > 1 << 20 for one in listener.connections))
        handled = len(broker.asked)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(API_VERSIONS, 0, 1))
        assert (await response(reader))[0] == 1
        assert handled == len(broker.asked) < 1000
        assert sum(one.unsent_bytes for one in listener.connections) < 1_100_000
        client.close()
        writer.close()


@run
async def test_what_clients_do_not_read_is_bounded_in_all() -> None:
    async with listening(Limits(unsent_max_bytes=3 << 20)) as (listener, broker, port):
        broker.answer = LARGE_ANSWER
        clients = [await deaf(port, 1000) for _ in range(5)]
        await until(lambda: len(listener.connections) < 4)
        assert sum(one.unsent_bytes for one in listener.connections) <= 3 << 20
        for client in clients:
            client.close()


@run
async def test_large_frames_share_a_budget_and_all_come_through() -> None:
    size = 1 << 20
    frame = request(LIST_OFFSETS, 1, 5, bytes(size))  # too much behind an empty request
    async with listening(Limits(request_max_bytes=2 * size), budget=3 * size) as (
        listener,
        _,
        port,
    ):
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for _, writer in connections:
            writer.write(frame[:-1])
        await until(lambda: listener.budget.taken > size)
        assert listener.budget.taken <= 3 * size
        for _, writer in connections:
            writer.write(frame[-1:])
        await until(lambda: listener.refusals == 8)
        assert listener.budget.taken == 0
        for _, writer in connections:
            writer.close()


@run
async def test_produce_requests_in_a_row_all_go_to_the_node_and_others_wait() -> None:
    async with listening() as (_, broker, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(3):
            writer.write(request(PRODUCE, 3, number, one_batch(b"bytes")))
        writer.write(request(API_VERSIONS, 0, 3))
        await until(lambda: len(broker.asked) == 3)
        for number in (2, 0, 1):  # acknowledged in another order
            name = TopicPartition("t", 0)
            broker.asked[number][1](ProduceResponse([ProducedPartition(name, None, number)]))
        assert [(await response(reader))[0] for _ in range(4)] == [0, 1, 2, 3]
        writer.close()


@run
async def test_a_producer_that_wants_no_acknowledgement_gets_none() -> None:
    async with listening() as (_, broker, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(PRODUCE, 3, 1, one_batch(b"bytes", acks=0)))
        writer.write(request(API_VERSIONS, 0, 2))
        assert (await response(reader))[0] == 2
        assert [bytes(records) for _, records in broker.told[0].batches] == [b"bytes"]
        writer.close()


@run
async def test_idle_connections_are_ended_and_busy_ones_are_not() -> None:
    async with listening(Limits(connections_max_idle_ms=100)) as (listener, broker, port):
        idle, into_idle = await asyncio.open_connection("127.0.0.1", port)
        half, into_half = await asyncio.open_connection("127.0.0.1", port)
        into_half.write(pack(">i", 100) + b"half a request")
        busy, into_busy = await asyncio.open_connection("127.0.0.1", port)
        into_busy.write(request(LIST_OFFSETS, 1, 4, LATEST))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await response(idle)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await response(half)
        assert len(listener.connections) == 1
        broker.asked[0][1](LISTED)
        assert (await response(busy))[0] == 4
        for writer in (into_idle, into_half, into_busy):
            writer.close()


@run
async def test_a_large_frame_that_stalls_gives_its_memory_back() -> None:
    size = 1 << 20
    limits = Limits(request_max_bytes=size, stalled_frame_max_ms=100)
    async with listening(limits, budget=size) as (listener, _, port):
        stalled, into_stalled = await asyncio.open_connection("127.0.0.1", port)
        into_stalled.write(pack(">i", size) + b"and no more")
        await until(lambda: listener.budget.taken == size)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        frame = request(LIST_OFFSETS, 1, 5, bytes(size // 2))
        writer.write(frame)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await response(stalled)
        await until(lambda: listener.refusals == 1)  # the other one has come through
        assert listener.budget.taken == 0
        for each in (into_stalled, writer):
            each.close()


@run
async def test_who_is_being_accepted_when_the_listener_closes_is_cut_off() -> None:
    """However far that is: asyncio's own server, closed in the midst of it, forgets the client."""
    loop = asyncio.get_running_loop()
    for steps in range(6):
        async with listening() as (listener, _, port):
            client = socket.create_connection(("127.0.0.1", port))
            client.setblocking(False)
            for _ in range(steps):
                await asyncio.sleep(0)
            listener.close()
            with suppress(ConnectionResetError):
                assert await loop.sock_recv(client, 1) == b""
            client.close()


@run
async def test_clients_are_accepted_again_once_files_can_be_opened_again() -> None:
    async with listening() as (_, _, port):
        accept, refused = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")]

        def full(self: socket.socket) -> tuple[socket.socket, object]:
            if refused:
                raise refused.pop()
            return accept(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("refimpl.edge.server.listener.ACCEPT_AGAIN_S", 0.001)
            patch.setattr(socket.socket, "accept", full)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request(API_VERSIONS, 0, 7))
            assert (await response(reader))[0] == 7
            assert not refused
            writer.close()


@run
async def test_no_more_connections_than_allowed() -> None:
    async with listening(Limits(max_connections=2)) as (_, _, port):
        kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        one_too_many, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await response(one_too_many)
        kept[0][1].write(request(API_VERSIONS, 0, 1))
        assert (await response(kept[0][0]))[0] == 1
        for _, each in kept:
            each.close()
        writer.close()


def produced(offset: int) -> ProduceResponse:
    return ProduceResponse([ProducedPartition(TopicPartition("t", 0), None, offset)])


@run
async def test_requests_that_wait_share_the_budget_and_all_come_through() -> None:
    frame, most = request(PRODUCE, 3, 1, one_batch(bytes(32_000))), 256 << 10
    async with listening(Limits(queued_max_request_bytes=most)) as (listener, broker, port):
        writers = [(await asyncio.open_connection("127.0.0.1", port))[1] for _ in range(8)]
        for writer in writers:
            writer.write(frame * 20)
        answered = 0
        while answered < 160:
            await until(lambda answered=answered: len(broker.asked) > answered)
            assert (len(broker.asked) - answered) * 32_000 < listener.in_flight.taken <= most
            _, then = broker.asked[answered]
            then(produced(answered))
            answered += 1
        await until(lambda: listener.in_flight.taken == 0)
        for writer in writers:
            writer.close()


@run
async def test_one_connection_may_have_only_so_many_bytes_in_flight() -> None:
    async with listening() as (listener, broker, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(PRODUCE, 3, 1, one_batch(bytes(1_000_000))) * 10)
        await until(lambda: len(broker.asked) == 5)
        other, into_other = await asyncio.open_connection("127.0.0.1", port)
        into_other.write(request(API_VERSIONS, 0, 1))
        assert (await response(other))[0] == 1
        assert len(broker.asked) == 5
        for number in range(10):
            await until(lambda number=number: len(broker.asked) > number)
            broker.asked[number][1](produced(number))
            await response(reader)
        assert listener.budget.taken == 0
        for each in (writer, into_other):
            each.close()


@run
async def test_what_a_connection_holds_is_free_again_when_it_is_lost() -> None:
    frame = request(PRODUCE, 3, 1, one_batch(bytes(60_000)))
    limits = Limits(queued_max_request_bytes=100_000)
    async with listening(limits) as (listener, broker, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(frame * 4)
        await until(lambda: len(broker.asked) == 1)
        _, waits = await asyncio.open_connection("127.0.0.1", port)
        waits.write(frame * 4)
        await until(lambda: len(listener.connections) == 2)
        lost = list(listener.connections)
        _, last = await asyncio.open_connection("127.0.0.1", port)
        last.write(frame)
        await until(lambda: len(listener.connections) == 3)
        for connection in lost:
            connection.abort()
        await until(lambda: len(broker.asked) == 2)
        broker.asked[1][1](produced(0))
        await until(lambda: listener.in_flight.taken == 0)
        for each in (writer, waits, last):
            each.close()


@run
async def test_a_thousand_idle_connections_cost_little_and_others_are_served() -> None:
    async with listening() as (listener, _, port):
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        idle = [socket.socket() for _ in range(1000)]
        loop = asyncio.get_running_loop()
        for client in idle:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", port))
        await until(lambda: len(listener.connections) == 1000)
        for client in idle[:500]:
            client.send(pack(">i", 100 << 20) + b"begun")  # and half of them lie
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request(API_VERSIONS, 0, 1))
        assert (await response(reader))[0] == 1
        cost = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert cost < 1000 * 80_000, cost
        for client in idle:
            client.close()
        writer.close()
        await until(lambda: not listener.connections)
        assert listener.budget.taken == 0


@run
async def test_a_peer_that_is_gone_without_a_word_is_probed() -> None:
    async with listening() as (listener, _, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: bool(listener.connections))
        (connection,) = listener.connections
        assert connection.transport is not None
        connected = connection.transport.get_extra_info("socket")
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        writer.close()
