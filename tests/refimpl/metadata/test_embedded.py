"""The embedded store by examples: sessions, watches, lost answers."""

from refimpl.metadata.contract import (
    Check,
    Connected,
    Create,
    Created,
    Data,
    Delete,
    EventType,
    Existence,
    Exists,
    Expired,
    GetChildren,
    GetData,
    Multi,
    MultiDone,
    NoResult,
    SetData,
    Stat,
    Suspended,
    WatchEvent,
)
from refimpl.metadata.embedded import EmbeddedStore
from refimpl.metadata.errors import BadVersion, ConnectionLoss, MultiFailed, NodeExists, NoNode
from tests.refimpl.metadata.hosting import TIMEOUT_MS, Host


def test_a_broker_registers_as_kafka_does() -> None:
    """Create with nothing in it, then write: so the answer shows the czxid, the broker epoch."""
    host = Host()
    one = host.connected()
    path = "/1"
    done = host.ask(one, Multi((Create(path, ephemeral=True), SetData(path, b"{}", 0))))
    assert isinstance(done, MultiDone)
    created, stat = done.results
    assert created == Created(path)
    assert isinstance(stat, Stat)
    assert stat.czxid == stat.mzxid > 0
    assert (stat.version, stat.ephemeral_owner) == (1, one.client.session_id)


def test_a_multi_that_fails_has_done_nothing() -> None:
    host = Host()
    one = host.connected()
    host.ask(one, Create("/a", b"old"))
    before = host.ask(one, Exists("/a"))
    multi = Multi((SetData("/a", b"new"), Create("/a/b"), Delete("/none"), Check("/a", 0)))
    assert host.ask(one, multi) == MultiFailed(2, NoNode("/none"))
    assert host.ask(one, Exists("/a")) == before
    assert host.ask(one, GetData("/a/b")) == NoNode("/a/b")


def test_an_event_comes_before_the_answer_that_shows_the_change() -> None:
    host = Host()
    one, two = host.connected(), host.connected()
    assert host.ask(one, Exists("/a", watch=True)) == Existence(None)
    host.ask(two, Create("/a"))
    host.ask(two, SetData("/a", b"x"))
    host.ask(one, GetData("/a"))
    assert one.delivered == [WatchEvent(EventType.CREATED, "/a")]


def test_a_deletion_fires_both_watches_with_one_event() -> None:
    host = Host()
    one = host.connected()
    host.ask(one, Create("/a"))
    host.ask(one, GetData("/a", watch=True))
    host.ask(one, GetChildren("/a", watch=True))
    host.ask(one, GetChildren("/", watch=True))
    assert host.ask(one, Delete("/a")) == NoResult()
    assert one.delivered == [
        WatchEvent(EventType.DELETED, "/a"),
        WatchEvent(EventType.CHILDREN_CHANGED, "/"),
    ]


def test_a_session_that_is_silent_ends_with_its_ephemeral_znodes() -> None:
    host = Host()
    one, two = host.connected(), host.connected()
    host.ask(one, Create("/controller", b"1", ephemeral=True))
    host.ask(two, Exists("/controller", watch=True))
    one.deaf = one.mute = True
    host.pass_time(TIMEOUT_MS + 1000)
    assert WatchEvent(EventType.DELETED, "/controller") in two.delivered
    assert one.delivered == [Suspended()]  # that it is over nobody can tell its owner
    assert two.client.connected  # whoever can talk is kept alive by pings
    one.deaf = one.mute = False
    host.pass_time(TIMEOUT_MS)
    new = Connected(one.client.session_id, TIMEOUT_MS)
    assert one.delivered == [Suspended(), Expired(), new]


def test_a_session_survives_a_store_that_was_down_for_longer_than_its_time_out() -> None:
    """Nobody could be heard meanwhile, so every session has its whole time again."""
    host = Host()
    one = host.connected()
    host.ask(one, Create("/brokers", b"1", ephemeral=True))
    session, store = one.client.session_id, host.store
    assert isinstance(store, EmbeddedStore)
    one.deaf = one.mute = True
    for each in store.sessions.values():
        each.timeout_ms = 100 * TIMEOUT_MS  # it looks at no clock
    host.pass_time(5 * TIMEOUT_MS)
    for each in store.sessions.values():
        each.timeout_ms = TIMEOUT_MS
    store.restarted(host.now)
    one.deaf = one.mute = False
    host.pass_time(TIMEOUT_MS)
    assert one.delivered == [Suspended(), Connected(session, TIMEOUT_MS)]
    assert host.ask(one, Exists("/brokers")) != Existence(None)


def test_a_lost_answer_does_not_mean_a_lost_write() -> None:
    """So a blind second try of a conditional write is refused by the success of the first."""
    host = Host()
    one = host.connected()
    host.ask(one, Create("/a", b"old"))
    one.deaf = True
    host.send(one, SetData("/a", b"new", 0))
    host.pass_time(TIMEOUT_MS * 2 // 3)
    assert [getattr(e, "result", e) for e in one.delivered] == [ConnectionLoss(), Suspended()]
    one.deaf = False
    host.pass_time(TIMEOUT_MS // 6)
    assert host.ask(one, SetData("/a", b"new", 0)) == BadVersion("/a", 0)
    data = host.ask(one, GetData("/a"))
    assert isinstance(data, Data)
    assert (data.data, data.stat.version) == (b"new", 1)


def test_a_session_survives_a_reconnect_but_its_watches_do_not() -> None:
    host = Host()
    one, two = host.connected(), host.connected()
    host.ask(one, Create("/mine", ephemeral=True))
    host.ask(one, Exists("/a", watch=True))
    session = one.client.session_id
    host.store.disconnect(one.client.connection)
    host.ask(two, Create("/a"))
    assert host.ask(one, Create("/mine")) == ConnectionLoss()  # the store knows no such connection
    host.pass_time(TIMEOUT_MS // 6)
    assert one.delivered == [Suspended(), Connected(session, TIMEOUT_MS)]
    assert host.ask(one, Create("/mine")) == NodeExists("/mine")


def test_whoever_goes_on_elsewhere_is_heard_there_alone() -> None:
    """Requests still under way on the old connection have no effect any more."""
    host = Host()
    one = host.connected()
    old = one.client.connection
    number = host.send(one, Create("/late"))
    late = host._to_store.pop()  # pyright: ignore[reportPrivateUsage]
    assert late.connection == old
    host.take(one, one.client.receive(host.now, late._replace(body=None, number=99)))
    host.pass_time(1)
    assert one.client.connection != old
    host._to_store.append(late)  # pyright: ignore[reportPrivateUsage]
    host.run()
    assert getattr(one.delivered[0], "number", None) == number
    assert host.ask(one, GetData("/late")) == NoNode("/late")


def test_a_closed_session_ends_at_once() -> None:
    host = Host()
    one, two = host.connected(), host.connected()
    host.ask(one, Create("/mine", ephemeral=True))
    host.take(one, one.client.close(host.now))
    host.run()
    assert one.delivered == [Expired()]
    assert host.ask(two, Exists("/mine")) == Existence(None)
    host.pass_time(10 * TIMEOUT_MS)
    assert one.delivered == [Expired()]


def test_sequential_names_are_never_given_twice() -> None:
    host = Host()
    one = host.connected()
    first = host.ask(one, Create("/n_", sequential=True))
    assert first == Created("/n_0000000000")
    host.ask(one, Delete("/n_0000000000"))
    assert host.ask(one, Create("/n_", sequential=True)) == Created("/n_0000000001")
