"""A few thousand fuzzed frames, the same ones each time; `make fuzz` is for a million."""

from random import Random

import pytest

from chaos.real.fuzz.frames import mutated, seeds
from chaos.real.fuzz.target import FrameDidHarm, FuzzedBroker
from refimpl.broker.producer_ids import ProducerIds
from refimpl.edge.server.connection import Connection
from refimpl.edge.server.peer_codec import encode
from refimpl.wire import messages

FRAMES = 4_000


def fuzz(frames: int, each: int = 1) -> FuzzedBroker:
    """So many mutations of the same frames."""
    rng, corpus = Random(12), seeds(each)
    with FuzzedBroker() as target:
        for _ in range(frames):
            frame = mutated(rng, rng.choice(corpus), corpus)
            chunk = rng.choice((0, 0, 0, 1, 7))
            target.feed(frame, chunk=chunk, framed=rng.random() > 0.05)
    return target


def test_no_mutated_frame_does_harm() -> None:
    target = fuzz(FRAMES)
    assert target.answered > FRAMES // 10
    assert target.refused > FRAMES // 10


def test_a_bug_in_a_handler_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ProducerIds, now: int, request: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(ProducerIds, "init", broken)
    with pytest.raises(FrameDidHarm, match="a bug of ours"):
        fuzz(1_000)


def test_memory_that_is_not_given_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(self: Connection, exc: Exception | None) -> None:
        self.transport = None
        self.listener.closed(self)

    monkeypatch.setattr(Connection, "connection_lost", lost)
    with FuzzedBroker() as target, pytest.raises(FrameDidHarm, match="not given back"):
        target.feed((1 << 19).to_bytes(4) + b"\0" * 100, framed=False)


def test_an_answer_of_another_version_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = messages.write_response

    def wrong(api_key: int, version: int, values: messages.Values) -> bytes:
        return right(api_key, version, values) + b"\0"

    monkeypatch.setattr("refimpl.api.dispatch.write_response", wrong)
    with pytest.raises(FrameDidHarm, match="is none"):
        fuzz(500)


def test_no_bytes_of_a_peer_do_harm() -> None:
    from refimpl.messages.broker import FetchPartition, FetchRequest, Request, TopicPartition

    partition = FetchPartition(TopicPartition("t", 0), 5, 1, 1)
    message = encode(Request(1, 2, 3, FetchRequest([partition] * 3, 500, replica_id=2)))
    rng = Random(12)
    with FuzzedBroker() as target:
        for _ in range(3_000):
            target.feed_peer(mutated(rng, message))
        assert 0 < target.refused < 3_000
