"""One connection's share of the memory that all connections of a listener may take."""

from attrs import define, field

from refimpl.api.call import Session
from refimpl.api.table import APIS
from refimpl.edge.server.arrivals import Arrivals
from refimpl.edge.server.limits import IN_FLIGHT, IN_FLIGHT_BYTES, Share
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.received import Received

PRODUCE = APIS[0]


@define(eq=False)
class Nobody:
    """A connection that is never called."""

    host: str = ""
    number: int = 0
    has_session: bool = False
    session: Session = field(factory=Session)

    @property
    def arrivals(self) -> Arrivals[Received]:
        raise AssertionError

    def answered(self, received: Received, parts: object) -> None:
        raise AssertionError

    def mute(self, time_ms: int) -> None:
        raise AssertionError

    def refuse(self, error: Exception) -> None:
        raise AssertionError

    def end(self) -> None:
        raise AssertionError

    def abort(self) -> None:
        raise AssertionError


@define(eq=False)
class Shares:
    """Shares of two budgets of 100 bytes, and the calls that grant room."""

    frames: Budget = field(factory=lambda: Budget(100))
    requests: Budget = field(factory=lambda: Budget(100))
    granted: list[str] = field(factory=list[str])

    def share(self, name: str) -> Share:
        def said(what: str) -> None:
            self.granted.append(f"{name} may {what}")

        return Share(self.frames, self.requests, lambda: said("receive"), lambda: said("begin"))

    def request(self, budget: Budget, size: int) -> Received:
        return Received(Nobody(), PRODUCE, b"", size, budget)


def test_a_large_frame_waits_for_its_room_and_takes_it_with_it() -> None:
    shares = Shares()
    one, other = shares.share("one"), shares.share("other")
    assert one.reserve(80)
    assert not other.reserve(50)
    assert (other.waits_to_receive, other.reserved) == (True, 0)
    request = shares.request(shares.frames, one.received())
    one.in_flight += request.size
    one.answered(request)
    assert shares.granted == ["other may receive"]
    assert (other.waits_to_receive, other.reserved, shares.frames.taken) == (False, 50, 50)
    assert (one.in_flight, other.received(), other.reserved) == (0, 50, 0)


def test_a_request_waits_once_for_its_room_and_has_it_when_it_is_granted() -> None:
    shares = Shares()
    one, other = shares.share("one"), shares.share("other")
    assert one.admits(80)
    assert not other.admits(50)
    assert not other.admits(50)
    one.end([shares.request(shares.requests, 80)], 0)
    assert (shares.granted, shares.requests.taken) == (["other may begin"], 50)
    assert other.admits(50)
    assert (shares.requests.taken, other.admits(50), shares.requests.taken) == (50, True, 100)


def test_a_connection_that_is_gone_waits_for_nothing() -> None:
    shares = Shares()
    one, gone, last = shares.share("one"), shares.share("gone"), shares.share("last")
    assert one.reserve(80)
    assert one.admits(80)
    assert not gone.reserve(90)
    assert not gone.admits(90)
    assert not last.reserve(20)
    assert not last.admits(20)
    gone.end([], 0)
    assert shares.granted == ["last may receive", "last may begin"]
    one.end([shares.request(shares.requests, 80)], 0)
    assert (shares.frames.taken, shares.requests.taken) == (20, 20)


def test_a_connection_that_is_gone_keeps_nothing_that_was_granted() -> None:
    shares = Shares()
    one, gone = shares.share("one"), shares.share("gone")
    assert one.admits(80)
    assert not gone.admits(50)
    one.end([shares.request(shares.requests, 80)], 0)
    assert shares.requests.taken == 50
    gone.end([], 0)
    assert shares.requests.taken == 0


def test_a_connection_that_is_gone_gives_back_the_frame_it_received_and_those_that_wait() -> None:
    shares = Shares()
    share = shares.share("one")
    assert share.reserve(30)
    waiting = share.received()
    assert share.reserve(20)
    share.end([], waiting)
    assert shares.frames.taken == 0


def test_only_so_many_requests_and_bytes_wait_for_their_answers() -> None:
    share = Shares().share("one")
    assert share.has_room_beside(IN_FLIGHT - 1)
    assert not share.has_room_beside(IN_FLIGHT)
    share.in_flight = IN_FLIGHT_BYTES
    assert not share.has_room_beside(1)
