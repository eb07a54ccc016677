"""Requests to a broker that is not controller: certainly not carried out, and sent elsewhere."""

from random import Random

from refimpl.broker.config import BrokerConfig
from refimpl.broker.context import Context
from refimpl.broker.forwarding import Forwarding
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response
from refimpl.messages.controller import BrokerAddress
from refimpl.messages.observations import Refused

DELETION = c.DeleteTopicsRequest(("t",), timeout_ms=1_000)
CLIENT = 99


def test_who_is_not_controller_says_so() -> None:
    candidate = StoredController(2, ControllerConfig(), Random(1), BrokerAddress(), 1)
    (answer,) = candidate.handle(0, Request(1, 2, 7, c.Envelope(DELETION)))
    assert answer[:3] == (2, 1, 7)
    assert answer.body.error == "NOT_CONTROLLER"


def asked(context: Context) -> tuple[int, int]:
    """Whom the last request went to, and its number."""
    last = context.outputs[-1]
    assert isinstance(last, Request)
    assert last.body == c.Envelope(DELETION)
    return last.target, last.correlation_id


def forwarding() -> tuple[Forwarding, int]:
    """A broker that has asked broker 2."""
    context = Context(1, BrokerConfig(), 1)
    context.controller = 2
    here = Forwarding(context)
    here.forward(0, Request(CLIENT, 1, 5, DELETION))
    target, number = asked(context)
    assert target == 2
    return here, number


def refused(number: int) -> Response:
    return Response(2, 1, number, c.ControlResponse("NOT_CONTROLLER"))


def test_what_was_refused_goes_to_the_next_controller_and_the_client_hears_its_answer_alone() -> (
    None
):
    here, number = forwarding()
    assert here.answered(refused(number))
    assert here.context.outputs[-1] == Refused("a forwarded request", "NOT_CONTROLLER")
    here.context.controller = 3
    here.expire(100)
    target, again = asked(here.context)
    assert (target, again != number) == (3, True)
    done = c.DeleteTopicsResponse(())
    assert here.answered(Response(3, 1, again, done))
    assert here.context.outputs[-1] == Response(1, CLIENT, 5, done)
    told = [one for one in here.context.outputs if isinstance(one, Response)]
    assert len(told) == 1


def test_a_client_is_told_when_its_time_is_over_also_of_what_was_refused() -> None:
    here, number = forwarding()
    here.answered(refused(number))
    here.expire(1_000)
    told = here.context.outputs[-1]
    assert isinstance(told, Response)
    assert told[:3] == (1, CLIENT, 5)
    assert told.body.error == "REQUEST_TIMED_OUT"
    here.expire(2_000)
    assert here.context.outputs[-1] == told


def test_what_is_asked_while_nobody_is_controller_goes_to_the_next_one() -> None:
    context = Context(1, BrokerConfig(), 1)
    context.controller = -1
    here = Forwarding(context)
    here.forward(0, Request(CLIENT, 1, 5, DELETION))
    assert context.outputs == []
    context.controller = 3
    here.expire(100)
    assert asked(context)[0] == 3


def test_a_request_waits_as_long_as_it_says_and_is_told_that_nobody_knows() -> None:
    here, _ = forwarding()
    here.expire(999)
    assert not [one for one in here.context.outputs if isinstance(one, Response)]
    here.expire(1_000)
    timed_out = c.ControlResponse("REQUEST_TIMED_OUT", "The request timed out.")
    assert here.context.outputs[-2:] == [
        Refused("DeleteTopicsRequest", "REQUEST_TIMED_OUT"),
        Response(1, CLIENT, 5, timed_out),
    ]
    assert not here.waiting


def test_a_request_that_names_no_time_waits_for_a_minute() -> None:
    here = Forwarding(Context(1, BrokerConfig(), 1))
    here.forward(5, Request(CLIENT, 1, 5, c.UnregisterBrokerRequest(9)))
    here.expire(60_004)
    assert here.waiting
    here.expire(60_005)
    assert not here.waiting


def test_without_a_controller_a_request_waits_for_one_and_not_for_ever() -> None:
    for known_at, answered in ((500, False), (1_000, True)):
        context = Context(1, BrokerConfig(), 1)
        context.controller = -1
        here = Forwarding(context)
        here.forward(0, Request(CLIENT, 1, 5, DELETION))
        assert context.outputs == []
        context.controller = 2
        here.expire(known_at)
        assert isinstance(context.outputs[-1], Response) is answered
        assert answered or asked(context)[0] == 2


def test_an_answer_that_nobody_waits_for_is_somebody_elses() -> None:
    here, number = forwarding()
    assert not here.answered(refused(number + 1))
    other = Response(2, 1, number, c.ControlResponse("INVALID_REQUEST"))
    assert here.answered(other)
    assert here.context.outputs[-1] == Response(1, CLIENT, 5, other.body)
    assert not here.answered(other)
