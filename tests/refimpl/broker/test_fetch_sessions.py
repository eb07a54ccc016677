"""Fetch sessions alone, on both sides: what is named, what is remembered, who gives way."""

import pytest

from refimpl.broker.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from refimpl.broker.sessions import FetchSession, FetchSessionHandler, FetchSessions
from refimpl.errors import Refusal
from refimpl.messages import broker as m

Wanted = list[m.FetchPartition]
P, Q, R = (m.TopicPartition("orders", number) for number in range(3))


def wants(
    *partitions: m.TopicPartition, offset: int = 0, number: int = 1
) -> list[m.FetchPartition]:
    return [m.FetchPartition(one, offset, 1, -1, number) for one in partitions]


def request(
    *partitions: m.FetchPartition, of: tuple[int, int] = (0, m.NEW_SESSION), replica: int = 2
) -> m.FetchRequest:
    session_id, epoch = of
    return m.FetchRequest(
        partitions, 0, replica_id=replica, session_id=session_id, session_epoch=epoch
    )


def created(sessions: FetchSessions, replica: int = 2) -> FetchSession:
    session, _ = sessions.resolve(request(*wants(P, Q), replica=replica))
    assert session is not None
    return session


# The broker that is asked


def test_sessions_are_numbered_one_after_the_other() -> None:
    sessions = FetchSessions(10)
    assert [created(sessions, replica).id for replica in (2, 3, 2)] == [1, 2, 3]


def test_a_session_remembers_what_is_not_named_again() -> None:
    sessions = FetchSessions(10)
    session = created(sessions)
    first = session.partitions[P]
    _, asked = sessions.resolve(request(*wants(Q, offset=5, number=9), of=(session.id, 1)))
    assert [(one.wanted.partition, one.wanted.fetch_offset, one.number) for one in asked] == [
        (P, 0, 2),
        (Q, 5, 9),
    ]
    assert session.partitions[P] is first, "and what was last answered"
    again = session.partitions[Q]
    sessions.resolve(request(*wants(Q, offset=6), of=(session.id, 2)))
    assert session.partitions[Q] is again


def test_what_is_forgotten_is_not_asked_for() -> None:
    sessions = FetchSessions(10)
    session = created(sessions)
    forgets = request(of=(session.id, 1))._replace(forgotten=(P, R))
    _, asked = sessions.resolve(forgets)
    assert [one.wanted.partition for one in asked] == [Q]


@pytest.mark.parametrize(
    ("epoch", "replica", "error"),
    [(2, 2, InvalidFetchSessionEpoch), (1, 3, FetchSessionIdNotFound)],
)
def test_only_its_next_request_goes_on_with_a_session(
    epoch: int, replica: int, error: type[Refusal]
) -> None:
    sessions = FetchSessions(10)
    session = created(sessions)
    with pytest.raises(error):
        sessions.resolve(request(of=(session.id, epoch), replica=replica))
    with pytest.raises(FetchSessionIdNotFound):
        sessions.resolve(request(of=(session.id + 1, 1)))
    assert sessions.resolve(request(of=(session.id, 1)))[0] is session


def test_a_replica_has_one_session_and_consumers_as_many_as_they_like() -> None:
    sessions = FetchSessions(10)
    mine, other = created(sessions, 2), created(sessions, 3)
    consumers = [created(sessions, m.CONSUMER) for _ in range(2)]
    new = created(sessions, 2)
    assert mine.id not in sessions.sessions
    assert set(sessions.sessions) == {other.id, new.id, *(one.id for one in consumers)}


def test_the_oldest_session_gives_way() -> None:
    sessions = FetchSessions(2)
    oldest, next_one, newest = (created(sessions, replica) for replica in (2, 3, 4))
    assert oldest.id not in sessions.sessions
    assert set(sessions.sessions) == {next_one.id, newest.id}


def test_a_request_without_a_session_ends_the_one_that_it_names() -> None:
    sessions = FetchSessions(10)
    session = created(sessions)
    found, asked = sessions.resolve(request(*wants(P), of=(session.id, m.SESSIONLESS)))
    assert (found, [one.wanted.partition for one in asked]) == (None, [P])
    assert sessions.sessions == {}


def test_who_got_records_comes_last_next_time() -> None:
    """KIP-74."""
    session = created(FetchSessions(10))
    session.served(P)
    assert list(session.partitions) == [Q, P]
    session.served(R)
    assert list(session.partitions) == [Q, P]


# The broker that asks


def test_all_is_named_until_there_is_a_session_and_then_what_has_changed() -> None:
    asking = FetchSessionHandler()
    (p, q), (moved,) = wants(P, Q), wants(Q, offset=7)
    assert asking.build({P: p, Q: q}) == ((p, q), ())
    assert asking.build({P: p, Q: q}) == ((p, q), ()), "no answer, no session"
    asking.answered(m.FetchResponse((), 41))
    assert (asking.session_id, asking.epoch) == (41, 1)
    assert asking.build({P: p, Q: q}) == ((), ())
    asking.answered(m.FetchResponse((), 41))
    assert asking.build({P: p, Q: moved}) == ((moved,), ())
    asking.answered(m.FetchResponse((), 41))
    assert (asking.session_id, asking.epoch) == (41, 3)


def test_what_is_not_wanted_any_more_is_taken_out() -> None:
    asking = FetchSessionHandler()
    p, q, r = wants(P, Q, R)
    asking.build({P: p, Q: q})
    asking.answered(m.FetchResponse((), 41))
    assert asking.build({P: p}) == ((), (Q,))
    assert asking.build({R: r}) == ((r,), (P,))


def test_after_an_error_or_a_lost_answer_a_new_session_is_made() -> None:
    asking = FetchSessionHandler()
    (p,) = wants(P)
    asking.build({P: p})
    asking.answered(m.FetchResponse((), 41))
    asking.answered(m.FetchResponse((), 0, "FETCH_SESSION_ID_NOT_FOUND"))
    assert (asking.session_id, asking.epoch) == (0, m.NEW_SESSION)
    assert asking.build({P: p}) == ((p,), ())
