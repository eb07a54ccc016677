"""A controller's reaction to answers to its writes: one is fenced, another reads again."""

from collections.abc import Sequence
from typing import Any

import pytest

from chaos.sim.synchronous import CLIENT, StoredCluster
from refimpl.controller import znodes
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages import controller as c
from refimpl.messages.broker import Request, Response
from refimpl.messages.observations import ControllerFenced, Refused
from refimpl.metadata import contract as store
from refimpl.metadata.errors import BadVersion, MultiFailed, NodeExists, NoNode
from refimpl.metadata.errors import StoreRefusal as RefusedByStore

FENCED = Refused("a deposed controller's write", "BADVERSION")
VERSION, EXISTS = BadVersion("/a", 1), NodeExists("/a")


def writing() -> tuple[StoredController, store.StoreRequest]:
    """A controller that has asked the store to create a topic."""
    made = StoredCluster(ControllerConfig(leader_imbalance_check_interval_ms=0))
    made.start(1)
    acting = made.acting
    assert acting is not None
    topic = c.CreatableTopic("t", assignments=((0, (1,)),))
    body = c.Envelope(c.CreateTopicsRequest((topic,)))
    outputs = acting.handle(0, Request(CLIENT, 1, 99, body))
    (asked,) = requests(outputs)
    assert isinstance(asked.operation, store.Multi)
    return acting, asked


def requests(outputs: Sequence[Any]) -> list[store.StoreRequest]:
    return [one for one in outputs if isinstance(one, store.StoreRequest)]


@pytest.mark.parametrize(
    ("index", "error", "fenced"),
    [(0, VERSION, True), (1, VERSION, False), (0, EXISTS, False), (1, EXISTS, False)],
)
def test_only_the_version_of_the_controller_epoch_tells_that_there_is_a_successor(
    index: int, error: RefusedByStore, fenced: bool
) -> None:
    acting, asked = writing()
    outputs = acting.handle(0, store.StoreResponse(asked.number, MultiFailed(index, error)))
    assert (FENCED in outputs) is fenced
    assert any(isinstance(one, ControllerFenced) for one in outputs)
    assert (acting.controller, list(acting.pending)) == (None, []), "nothing of it is told"
    looks = [one.operation for one in requests(outputs)]
    assert store.GetData(znodes.CONTROLLER_EPOCH) in looks, "either way it looks again"


def test_what_is_refused_otherwise_is_not_said_to_be_done() -> None:
    acting, asked = writing()
    before = acting.controller
    assert acting.handle(0, store.StoreResponse(asked.number, EXISTS)) == []
    assert acting.controller is before
    assert len(acting.pending) == 1


def stat(version: int = 0, owner: int = 0) -> store.Stat:
    return store.Stat(1, 1, 1, version, 0, owner, 0, 0)


@pytest.mark.parametrize("applied", [True, False])
def test_whoever_lost_an_answer_sees_whether_it_was_written_and_writes_it_once(
    applied: bool,
) -> None:
    acting, asked = writing()
    election = acting.election
    held, session = election.controllership, election.session
    assert held is not None
    assert session is not None
    assert acting.handle(0, store.Suspended()) == []
    epoch, there = requests(acting.handle(0, store.Connected(session, 1_000)))
    data = store.Data(str(held.controller_epoch).encode(), stat(held.fence))
    acting.handle(0, store.StoreResponse(epoch.number, data))
    (look,) = requests(
        acting.handle(0, store.StoreResponse(there.number, store.Existence(stat(0, session))))
    )
    assert isinstance(look.operation, store.GetData)
    found = store.Data(b"", stat()) if applied else NoNode(look.operation.path)
    outputs = acting.handle(0, store.StoreResponse(look.number, found))
    again = [one.operation for one in requests(outputs) if isinstance(one.operation, store.Multi)]
    assert again == ([] if applied else [asked.operation])
    told = [one for one in outputs if isinstance(one, Response) and one.target == CLIENT]
    assert len(told) == applied, "only what is written is told"
    assert len(acting.pending) == (not applied)
