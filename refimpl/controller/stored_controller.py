"""A broker that may be controller: elected by a metadata store, deciding on the store's content.

Nothing is decided before everything is read, nothing is published before it is written, and every
write is fenced by the version of /controller_epoch (KAFKA-6082, KAFKA-849). Events are handled one
after the other; while one is being written the others wait.
"""

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

from attrs import define, field

from refimpl.controller import znodes
from refimpl.controller.controller import Controller
from refimpl.controller.placement import Rng
from refimpl.controller.state import ControllerConfig
from refimpl.controller.store_dialogue import Dialogue, StoreSession
from refimpl.controller.store_reads import Loaded
from refimpl.controller.store_writes import StoreWrites, question, was_applied
from refimpl.machines.election import ControllerElection, Controllership
from refimpl.messages.broker import Request, Response
from refimpl.messages.cluster import BrokerRegistration, Change
from refimpl.messages.controller import BrokerAddress, ControlResponse, Envelope
from refimpl.messages.observations import (
    ControllerElected,
    ControllerFenced,
    Decided,
    Deciding,
    IsrAnswered,
    Refused,
    Registered,
)
from refimpl.metadata import contract as store
from refimpl.metadata.errors import BadVersion, ConnectionLoss, MultiFailed, SessionExpired

DURABLE = Decided, IsrAnswered, Registered
"""Observations that are true as soon as the store has them, whoever receives them."""


@define(eq=False)
class StoredController:
    """One broker's candidature, and, while it is elected, the controller.

    `pending` are the multis of the current event, the first of them under way, and `changes` the
    changes that they write. `events` wait. `known` are the epochs of registered brokers as the
    store last reported them.
    """

    broker: int
    config: ControllerConfig
    rng: Rng
    address: BrokerAddress
    incarnation_id: int
    previous_broker_epoch: int = -1
    broker_epoch: int = -1
    election: ControllerElection = field(init=False)
    session: StoreSession = field(factory=StoreSession)
    connected: bool = False
    registered: bool = False
    controller: Controller | None = None
    writes: StoreWrites | None = None
    loaded: Loaded | None = None
    controller_id: int = -1
    #: The controller epoch and the metadata version that we last sent to brokers
    told: tuple[int, int] = (-1, -1)
    #: True if the watch on registrations has fired since they were read, or may be lost
    brokers_changed: bool = False
    events: deque[Any] = field(factory=deque[Any])
    pending: deque[store.Multi] = field(factory=deque[store.Multi])
    changes: Sequence[Change] = ()
    outputs: list[Any] = field(factory=list[Any])
    now: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin as a follower in the election."""
        self.election = ControllerElection(self.broker)

    # In and out

    def handle(self, now: int, message: Any) -> Sequence[Any]:
        """Take a request, a timer, or a message of the store; return outputs, among them requests
        to the store.
        """
        self.now = now
        match message:
            case store.Connected():
                self._connected(message.session_id)
            case store.Suspended():
                self._suspended()
            case store.Expired():
                self._expired()
            case store.StoreResponse(result=ConnectionLoss() | SessionExpired()):
                self._suspended()
            case store.StoreResponse():
                self.session.answered(message)
            case store.WatchEvent():
                self._watched(message)
            case _ if self.controller is not None:
                self.events.append(message)
            case _:
                self._not_controller(message)
        self._go_on()
        outputs, self.outputs = [*self.outputs, *self.session.outputs], []
        self.session.outputs = []
        return outputs

    def _go_on(self) -> None:
        """Begin the next task once the last one is done."""
        while self.connected and not self.session.busy:
            if self.election.must_look:
                self.session.begin(self._elect())
            elif self.controller is not None and self.brokers_changed:
                self.session.begin(self._watch_brokers())
            elif self.controller is not None and self.events:
                self._carry_through(self.events.popleft())
            else:
                return

    # Sessions

    def _connected(self, session: int) -> None:
        self.connected = True
        if session != self.election.session:
            self.election.connect(session)
            self.registered = False
        if not self.registered:
            self.session.begin(self._register())

    def _register(self) -> Dialogue:
        """Create our ephemeral znode; its czxid is the broker epoch.

        A znode of another session goes when that session ends, even if it was ours (KAFKA-1387,
        KAFKA-7165). A znode of this session means a lost answer.
        """
        yield from self._prepare()
        path, before = f"{znodes.BROKER_IDS}/{self.broker}", self.previous_broker_epoch
        address = self.address
        data = znodes.broker(
            BrokerRegistration(
                *(self.broker, -1, self.incarnation_id),
                *(address.endpoints, address.rack, address.log_dirs),
            ),
            before,
        )
        made = store.Create(path, data, ephemeral=True)
        yield [store.Multi((made, store.SetData(path, data, 0)))]
        (there,) = yield [store.Exists(path, watch=True)]
        stat = there.stat
        if stat is None:
            yield from self._register()
        elif stat.ephemeral_owner == self.election.session:
            self.registered = True
            self.broker_epoch = stat.czxid

    def _suspended(self) -> None:
        """Stop deciding, because others may have taken over. Reading settles the writes under
        way.
        """
        self.connected = False
        self.session.drop()
        self.election.suspend()

    def _expired(self) -> None:
        self._suspended()
        self._resign()

    def _resign(self) -> None:
        if self.controller is not None:
            self.outputs.append(ControllerFenced(self.broker, self.controller.controller_epoch))
        self.election.resign()
        self._forget()
        self.pending.clear()

    def _not_controller(self, message: Any) -> None:
        """Refuse an operator's request with NOT_CONTROLLER: it is certainly not done.

        Brokers repeat their requests by themselves.
        """
        if isinstance(message, Request) and isinstance(message.body, Envelope):
            body = ControlResponse("NOT_CONTROLLER", f"Broker {self.broker} is not controller.")
            answer = Response(self.broker, message.source, message.correlation_id, body)
            self.outputs.append(answer)

    def _watched(self, event: store.WatchEvent) -> None:
        if event.path == f"{znodes.BROKER_IDS}/{self.broker}" and not self.registered:
            self.session.begin(self._register())
        if event.path == znodes.CONTROLLER:
            if self.election.watch == "armed":
                self.election.fire()
        elif event.path == znodes.BROKER_IDS:
            self.brokers_changed = True

    # Election

    def _elect(self) -> Dialogue:
        """Read who is controller. If nobody is, claim it; if this broker is, go on or begin.

        The read that arms the watch is the last one, and its answer is taken at once. So an event
        before that answer is of an earlier watch, and a later one is of this watch.
        """
        epoch, there = yield [
            store.GetData(znodes.CONTROLLER_EPOCH),
            store.Exists(znodes.CONTROLLER, watch=True),
        ]
        if not isinstance(epoch, store.Data):
            yield [store.Create(znodes.CONTROLLER_EPOCH, b"0")]
            return  # and look again
        held, stat = self.election.controllership, there.stat
        self.election.look(
            None if stat is None else stat.ephemeral_owner, int(epoch.data), epoch.stat.version
        )
        if self.election.role == "candidate":
            yield from self._claim()
        holds = self.election.controllership
        if holds is None:
            self._resign()
            yield from self._learn_who_is()
        elif holds is not held or self.controller is None:
            yield from self._take_over(holds)
        else:
            self.brokers_changed = True  # the watch on them may be lost as well
            if self.pending:
                yield from self._settle()

    def _learn_who_is(self) -> Dialogue:
        """Read which broker requests for the controller go to."""
        (owner,) = yield [store.GetData(znodes.CONTROLLER)]
        if isinstance(owner, store.Data):
            self.controller_id = znodes.controller_of(owner.data)

    def _claim(self) -> Dialogue:
        claim = self.election.claim()
        (answer,) = yield [
            store.Multi(
                (
                    store.Create(znodes.CONTROLLER, znodes.controller(self.broker), ephemeral=True),
                    store.SetData(
                        znodes.CONTROLLER_EPOCH,
                        str(claim.controller_epoch).encode(),
                        claim.version,
                    ),
                )
            )
        ]
        if isinstance(answer, store.MultiDone):
            stat = answer.results[1]
            assert isinstance(stat, store.Stat)
            self.election.elected(stat.version)
        else:
            self.election.beaten()

    # Taking over

    def _take_over(self, held: Controllership) -> Dialogue:
        """Read everything, then make the decisions that follow from it."""
        self._forget()
        self.controller_id = self.broker
        controller = Controller(self.config, self.rng, self.broker, held.controller_epoch)
        loaded = Loaded(controller.state, held)
        yield from self._prepare()
        yield from loaded.read()
        brokers = yield from self._brokers()
        self.controller, self.loaded = controller, loaded
        self.writes = StoreWrites(held, controller.metadata, loaded.assigned)
        self.outputs.append(ControllerElected(self.broker, held.controller_epoch, held.fence))
        for name in loaded.deleting:
            self.pending.extend(self.writes.deletions(name))
        epoch, version = self.told
        if epoch == held.controller_epoch:  # read again, and not elected again
            controller.metadata.metadata_version = version + 1
        controller.begin(self.now)
        controller.decisions.configured()
        self._believe(brokers)
        controller.decisions.resume()
        self._brokers_are(brokers)
        controller.behind.update(controller.metadata.brokers)
        yield from self._commit()

    def _forget(self) -> None:
        if self.controller is not None:
            version = self.controller.metadata.metadata_version
            self.told = self.controller.controller_epoch, version
        self.controller = self.writes = self.loaded = None
        waiting, self.events = self.events, deque[Any]()
        for event in waiting:
            self._not_controller(event)
        self.pending.clear()

    def _prepare(self) -> Dialogue:
        """Create the root znodes."""
        yield [store.Create(path) for path in znodes.ROOTS]

    def _acting(self) -> tuple[Controller, StoreWrites]:
        assert self.controller is not None
        assert self.writes is not None
        return self.controller, self.writes

    # Brokers

    def _brokers(
        self,
    ) -> Generator[Sequence[store.Operation], Any, dict[int, znodes.BrokerIdZNode]]:
        """The registrations of the brokers that are in the store, by id."""
        self.brokers_changed = False
        (children,) = yield [store.GetChildren(znodes.BROKER_IDS, watch=True)]
        names = children.names if isinstance(children, store.Children) else ()
        answers = yield [store.GetData(f"{znodes.BROKER_IDS}/{one}") for one in names]
        return {
            int(one): znodes.broker_of(answer.data, int(one), answer.stat.czxid)
            for one, answer in zip(names, answers, strict=True)
            if isinstance(answer, store.Data)
        }

    def _believe(self, there: dict[int, znodes.BrokerIdZNode]) -> None:
        """Take over the last controller's view of brokers.

        The members of each ISR count as alive, in the epoch that was written last. Later changes
        are then learned as always.
        """
        (controller, _), loaded = self._acting(), self.loaded
        assert loaded is not None
        registry = controller.registry
        members = controller.decisions.members()
        for broker in sorted(members | set(there)):
            last, found = loaded.last.get(broker), there.get(broker)
            epoch = 0 if last is None else last.broker_epoch
            same = found is not None and found.registration.broker_epoch == epoch
            if broker in members or same:
                registry.register(broker, epoch)
                registry.unfence(broker)
                controller.processes[broker] = 0
            if same and found is not None:
                controller.metadata.apply(found.registration)
            elif last is not None and broker in members:  # or its incarnation would be forgotten
                registration = BrokerRegistration(broker, epoch, last.incarnation_id)
                controller.metadata.apply(registration)

    def _brokers_are(self, there: dict[int, znodes.BrokerIdZNode]) -> None:
        """Compare registrations with the registry: new brokers, gone ones, and restarted ones."""
        (controller, _), loaded = self._acting(), self.loaded
        assert loaded is not None
        registry = controller.registry
        for broker in sorted(registry.alive - set(there)):
            controller.vanish(broker)
        for broker, found in sorted(there.items()):
            epoch = found.registration.broker_epoch
            if registry.epochs.get(broker) == epoch:
                continue
            last, incarnation = loaded.last.get(broker), found.registration.incarnation_id
            if broker in registry.alive:
                if last is None:
                    registry.fence(broker)  # a broker that was expected, with its first process
                else:
                    controller.vanish(broker)
            loaded.last[broker] = znodes.LastRegistration(epoch, incarnation)
            # The same process has its log, and so has one that names the last epoch: it can name it
            # only after a controlled shutdown (KIP-966).
            crashed = last is not None and (
                incarnation != last.incarnation_id
                and found.previous_broker_epoch != last.broker_epoch
            )
            controller.appear(self.now, found.registration, crashed=crashed)
        loaded.missing = controller.decisions.create_missing(loaded.missing)

    def _watch_brokers(self) -> Dialogue:
        brokers = yield from self._brokers()
        if self.controller is not None:
            self._brokers_are(brokers)
            yield from self._commit()

    # Handling an event

    def _carry_through(self, event: Any) -> None:
        controller, _ = self._acting()
        controller.decide(self.now, event)
        self.session.begin(self._commit())

    def _commit(self) -> Dialogue:
        """Write the decisions; when all of them are written, publish them."""
        controller, writes = self._acting()
        self.changes = controller.take_changes()
        self.pending.extend(writes.multis(self.changes))
        if self.pending:
            decided = [one for one in controller.state.outputs if isinstance(one, DURABLE)]
            rest = [one for one in controller.state.outputs if not isinstance(one, DURABLE)]
            controller.state.outputs = rest
            self.outputs.append(Deciding(self.pending[-1], tuple(decided)))
        yield from self._write()

    def _write(self) -> Dialogue:
        while self.pending:
            (answer,) = yield [self.pending[0]]
            if not self._written(answer):
                return
        controller, _ = self._acting()
        self.outputs.extend(controller.tell(self.changes))
        self.changes = ()

    def _written(self, answer: Any) -> bool:
        """True if a multi was applied; if not we are no longer controller, or have to read
        again.
        """
        _, writes = self._acting()
        if isinstance(answer, store.MultiDone):
            writes.written(self.pending.popleft())
            return True
        if isinstance(answer, MultiFailed):
            if answer.index == 0 and isinstance(answer.error, BadVersion):
                self.election.fenced()
                self.outputs.append(Refused("a deposed controller's write", "BADVERSION"))
            self._resign()
            self.election.watch = "unread"
        return False

    def _settle(self) -> Dialogue:
        """Read whether a write whose answer was lost was applied, and go on either way."""
        _, writes = self._acting()
        multi = self.pending[0]
        (answer,) = yield [question(multi)]
        if was_applied(multi, answer):
            writes.written(self.pending.popleft())
        yield from self._write()
