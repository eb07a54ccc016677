"""Controller: brokers that are elected controller, over a store with ZooKeeper's contract.

The binding is the store. It applies the machines' requests under their own conditions, ends
sessions, fires watches and loses answers. The controller writes one node, the state of one
partition. Every message to brokers may come again.
"""

# Parameters are named as in the spec.
# ruff: noqa: E741

from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, Environment, NoSuchChoice, each
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.machines.election import (
    ControllerElection,
    ControllerFence,
    Controllership,
    check_news,
)
from refimpl.machines.election_errors import NotController
from refimpl.machines.messages import LeaderAndIsr
from refimpl.projection import CONTROLLER_ELECTION

STATE = "state"
NOBODY = Rec.of(broker=0, session=0)


class Controller(Binding):
    """Brokers 1..N, the store, and one further broker that receives the controllers' metadata."""

    module = "Controller"
    knobs: ClassVar = {
        "Atomic": True,
        "CheckFence": True,
        "CheckVersion": True,
        "OwnBy": "session",
        "Rearm": True,
        "TellWhatIsRead": True,
        "CheckControllerEpoch": True,
        "CheckLeaderEpoch": True,
    }

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.ids = tuple(range(1, constants["N"] + 1))
        self.max_sessions: int = constants["MaxSessions"]
        self.max_controller_epoch: int = constants["MaxControllerEpoch"]
        self.max_leader_epoch: int = constants["MaxLeaderEpoch"]
        self.max_lost: int = constants["MaxLost"]
        self.resign_on_expire: bool = constants["ResignOnExpire"]
        self.live = frozenset([(b, 1) for b in self.ids])
        self.node: tuple[int, int] | None = None
        self.controller_epoch = 0
        self.state = Rec.of(leader=1, epoch=1, by=0)
        self.brokers = tuple([ControllerElection(b, session=_id(b, 1)) for b in self.ids])
        self.sent: frozenset[Rec] = frozenset()
        self.fence, self.heard = ControllerFence(), self.state
        self.won: frozenset[Rec] = frozenset()
        self.lost = 0

    # Sessions

    def expire(self, b: int, s: int) -> None:
        if (b, s) not in self.live:
            raise Environment
        self.live -= {(b, s)}
        if self.node == (b, s):
            self.node = None
            self._fire()

    def _session(self, b: int) -> tuple[int, int]:
        return b, _number(self.brokers[b - 1].session)

    def _connected(self, b: int) -> ControllerElection:
        if self._session(b) not in self.live:
            raise Environment
        return self.brokers[b - 1]

    def _next_session(self, b: int) -> int:
        number = self._session(b)[1] + 1
        if number > self.max_sessions:
            raise Bound
        return number

    def connect(self, b: int) -> None:
        if self._session(b) in self.live:
            raise Environment
        number = self._next_session(b)
        self.brokers[b - 1].connect(_id(b, number))
        if self.resign_on_expire:
            self.brokers[b - 1].resign()
        self.live |= {(b, number)}

    def restart(self, b: int) -> None:
        number = self._next_session(b)
        self.brokers[b - 1].restart(_id(b, number))
        self.live |= {(b, number)}

    def _fire(self) -> None:
        for broker in self.brokers:
            if broker.watch == "armed":
                broker.fire()

    # Election

    def look(self, b: int) -> None:
        broker = self._connected(b)
        before = broker.controllership
        owner = None if self.node is None else _id(*self.node)
        broker.look(owner, self.controller_epoch, self.controller_epoch)
        if broker.controllership is not before:
            self._has_won(broker)

    def _has_won(self, broker: ControllerElection) -> None:
        held = broker.controllership
        if held is not None:
            session = _number(broker.session)
            winner = Rec.of(epoch=held.controller_epoch, broker=broker.broker, session=session)
            self.won |= {winner}

    def claim(self, b: int, answered: bool) -> None:
        broker = self._connected(b)
        beaten = self.node is not None or broker.seen[1] != self.controller_epoch
        if broker.role == "candidate":
            self._may_claim(beaten, answered)
        claim = broker.claim()
        if beaten:
            broker.beaten()
            return
        self.node, self.controller_epoch = self._session(b), claim.controller_epoch
        self._fire()
        if answered:
            broker.elected(self.controller_epoch)
            self._has_won(broker)
        else:
            self.lost += 1
            broker.suspend()

    def _may_claim(self, beaten: bool, answered: bool) -> None:
        if beaten:
            if not answered:
                raise Environment
        elif self.controller_epoch >= self.max_controller_epoch:
            raise Bound
        else:
            self._may_lose(answered)

    def _may_lose(self, answered: bool) -> None:
        if not answered and self.lost >= self.max_lost:
            raise Bound

    def raise_epoch(self, b: int) -> None:
        raise Environment  # the two writes are one

    # A controller's actions, also of a deposed one

    def _controllership(self, b: int) -> Controllership:
        held = self._connected(b).controllership
        if held is None:
            raise NotController(b, self.brokers[b - 1].role)
        return held

    def read(self, b: int) -> None:
        held = self._controllership(b)
        if held.versions.get(STATE) == self.state["epoch"]:
            raise Environment  # nothing new
        held.read(STATE, self.state["epoch"])
        self.sent |= {_news(self.state["leader"], self.state["epoch"], held.controller_epoch)}

    def decide(self, b: int, l: int, answered: bool) -> None:
        held = self._controllership(b)
        condition = held.write(STATE)
        fenced = condition.fence != self.controller_epoch
        if fenced or condition.version != self.state["epoch"]:
            if not answered:
                raise Environment
            if fenced:
                self.brokers[b - 1].fenced()
            else:
                held.conflict(STATE)
            return
        if self.state["epoch"] >= self.max_leader_epoch:
            raise Bound
        self._may_lose(answered)
        self.state = _news(l, self.state["epoch"] + 1, held.controller_epoch)
        if answered:
            held.written(STATE, self.state["epoch"])
            self.sent |= {self.state}
        else:
            self.lost += 1
            self.brokers[b - 1].suspend()

    def hear(self, epoch: int, choice: int) -> None:
        candidates = [m for m in self.sent if m["by"] == epoch and m != self.heard]
        if choice >= len(candidates):
            raise NoSuchChoice
        news = candidates[choice]
        check_news(0, _decision(self.heard), _decision(news))
        self.fence.hear(epoch)
        self.heard = news

    def load(self, state: Mapping[str, Value]) -> None:
        node = state["node"]
        self.live = state["live"]
        self.node = None if node == NOBODY else (node["broker"], node["session"])
        self.controller_epoch, self.state = state["controllerEpoch"], state["state"]
        self.brokers = tuple([_loaded(state, b) for b in self.ids])
        self.sent, self.heard = state["sent"], state["heard"]
        self.fence = ControllerFence(self.heard["by"])
        self.won, self.lost = state["won"], state["lost"]


def _id(broker: int, number: int) -> int:
    """A session of the store, from a broker's number of it."""
    return 100 * broker + number


def _number(session: int) -> int:
    return session % 100


@cache
def _news(leader: int, epoch: int, by: int) -> Rec:
    return Rec.of(leader=leader, epoch=epoch, by=by)


@cache
def _decision(news: Rec) -> LeaderAndIsr:
    return LeaderAndIsr(news["epoch"], news["leader"], frozenset({news["leader"]}), news["epoch"])


def _loaded(state: Mapping[str, Value], b: int) -> ControllerElection:
    role, fence, read = state["role"][b - 1], state["fence"][b - 1], state["read"][b - 1]
    held = Controllership(fence, fence) if role == "controller" else None
    if held is not None and read:
        held.read(STATE, read)
    return ControllerElection(
        broker=b,
        session=_id(b, state["session"][b - 1]),
        role=role,
        watch=state["watch"][b - 1],
        seen=(fence, fence),
        controllership=held,
    )


def _read(broker: ControllerElection) -> int:
    held = broker.controllership
    return 0 if held is None else held.versions.get(STATE, 0)


Controller.projection = {
    **each(CONTROLLER_ELECTION, lambda c: c.brokers),
    "live": lambda c: c.live,
    "node": lambda c: NOBODY if c.node is None else Rec.of(broker=c.node[0], session=c.node[1]),
    "controllerEpoch": lambda c: c.controller_epoch,
    "state": lambda c: c.state,
    "session": lambda c: tuple([_number(broker.session) for broker in c.brokers]),
    "read": lambda c: tuple([_read(broker) for broker in c.brokers]),
    "sent": lambda c: c.sent,
    "heard": lambda c: _news(c.heard["leader"], c.heard["epoch"], c.fence.controller_epoch),
    "won": lambda c: c.won,
    "lost": lambda c: c.lost,
}

MODULE = Module(binding=Controller, machines=("election",))
