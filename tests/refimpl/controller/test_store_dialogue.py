"""Conversations with a store that go on beside each other."""

from collections.abc import Sequence

from refimpl.controller.store_dialogue import Dialogue, StoreSession
from refimpl.metadata.contract import Created, NoResult, Operation, Result, StoreResponse, Sync
from refimpl.metadata.errors import NoNode, StoreError

Answers = Sequence[Result | StoreError]


def paths(session: StoreSession) -> dict[int, str]:
    """The paths of the syncs sent to the store since the last call, by request number."""
    outputs, session.outputs = session.outputs, []
    found = [(one.number, one.operation) for one in outputs]
    return {number: asked.path for number, asked in found if isinstance(asked, Sync)}


def talk(heard: list[Answers], *turns: Sequence[str]) -> Dialogue:
    """Ask for these paths, turn by turn."""
    for turn in turns:
        asked: list[Operation] = [Sync(path) for path in turn]
        heard.append((yield asked))


def test_all_that_is_asked_at_once_is_answered_in_the_order_in_which_it_was_asked() -> None:
    session, heard = StoreSession(), list[Answers]()
    session.begin(talk(heard, ["/a", "/b"], ["/c"]))
    assert paths(session) == {1: "/a", 2: "/b"}
    session.answered(StoreResponse(2, NoNode("/b")))
    assert (heard, session.busy) == ([], True)
    session.answered(StoreResponse(1, NoResult()))
    assert heard == [[NoResult(), NoNode("/b")]]
    assert paths(session) == {3: "/c"}
    session.answered(StoreResponse(3, Created("/c")))
    assert (heard[1:], session.busy) == ([[Created("/c")]], False)


def test_an_answer_goes_to_who_asked() -> None:
    session, first, second = StoreSession(), list[Answers](), list[Answers]()
    session.begin(talk(first, ["/a"]))
    session.begin(talk(second, ["/b"], ["/c"]))
    assert paths(session) == {1: "/a", 2: "/b"}
    session.answered(StoreResponse(2, NoResult()))
    assert (first, second) == ([], [[NoResult()]])
    session.answered(StoreResponse(9, NoResult()))
    assert (len(first), len(second)) == (0, 1), "nobody has asked that"
    session.answered(StoreResponse(1, NoResult()))
    assert first == [[NoResult()]]
    assert session.busy
    session.answered(StoreResponse(3, NoResult()))
    assert not session.busy


def test_where_nothing_is_asked_a_dialogue_goes_on_at_once() -> None:
    session, heard = StoreSession(), list[Answers]()
    session.begin(talk(heard, [], [], ["/a"]))
    assert heard == [(), ()]
    assert paths(session) == {1: "/a"}
    session.begin(talk(heard))
    assert paths(session) == {}
    assert len(session.conversations) == 1


def test_with_the_connection_all_conversations_are_gone() -> None:
    session, heard = StoreSession(), list[Answers]()
    session.begin(talk(heard, ["/a"]))
    session.drop()
    assert not session.busy
    session.answered(StoreResponse(1, NoResult()))
    assert heard == []
