"""A broker knows who is controller, whenever that changes: it misses no election of its own, and
goes to nobody who is controller no more."""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any

from attrs import define, field

from chaos.sim.synchronous import SESSION_MS, StoredCluster
from properties.mutants.catalogue import Edit, Mutant, applied
from refimpl.broker.config import BrokerConfig
from refimpl.broker.file_logs import FileLogs
from refimpl.broker.node import HEARTBEAT
from refimpl.broker.stored_node import StoredNode
from refimpl.controller import znodes
from refimpl.controller.state import ControllerConfig
from refimpl.controller.stored_controller import StoredController
from refimpl.messages.broker import Request, Timer
from refimpl.messages.controller import BrokerAddress, BrokerHeartbeatRequest, UpdateMetadataRequest
from refimpl.metadata import contract
from refimpl.metadata.client import StoreClient
from refimpl.metadata.contract import Create, Delete, Multi, SetData
from refimpl.metadata.embedded import Connect, EmbeddedStore, Frame, SessionConnection
from refimpl.storage.disk.interface import MemoryDisk

CONFIG = ControllerConfig(leader_imbalance_check_interval_ms=0)
STORED = "refimpl.controller.stored_controller:StoredController"
LOOK = "store.GetData(znodes.CONTROLLER_EPOCH), store.Exists(znodes.CONTROLLER, watch=True)"
ANOTHER = "store.GetData(znodes.CONTROLLER)"


def two() -> StoredCluster:
    """Brokers 1, which is controller, and 2."""
    made = StoredCluster(CONFIG)
    made.start(1)
    made.start(2)
    return made


def others_end(made: StoredCluster) -> None:
    """Both processes are gone, and the store ends their sessions at once."""
    for broker in (2, 1):
        made.end(broker)
        session = made.candidates[broker].controller.election.session
        made.store.sessions[session].heard_at = made.now - SESSION_MS
        for frame in made.store.expire(made.now):
            made._to_client(frame)  # pyright: ignore[reportPrivateUsage]


def starts_while_the_others_end() -> list[int]:
    """Let the sessions of all others end after each operation of broker 3's start in turn; the
    operations after which nobody is controller in the end."""
    made = two()
    before = made.operations
    made.start(3)
    stuck: list[int] = []
    for stop in range(1, made.operations - before + 1):
        made = two()
        made.interrupt = made.operations + stop, lambda made=made: others_end(made)
        made.start(3)
        made.wait()
        one = made.candidates[3]
        if made.acting is not one.controller or one.metadata.brokers[3].fenced:
            stuck.append(stop)
    return stuck


def test_a_broker_that_starts_while_the_controllers_session_ends_is_elected() -> None:
    assert starts_while_the_others_end() == []


def test_an_event_between_two_reads_of_a_look_is_not_lost() -> None:
    """The bug that was here: the watch fires when the next read of the same look is under way."""
    mutant = Mutant(
        "looks_in_three",
        "The watch on /controller fires before the look that armed it is over, unheard.",
        (Edit(f"{STORED}._elect", f"yield [{LOOK}]", f"(yield [{LOOK}, {ANOTHER}])[:2]"),),
        (),
    )
    with applied(mutant):
        assert starts_while_the_others_end() != []


@define(eq=False)
class Hosted:
    """Broker 1's node, and its session of a store in which somebody else is controller."""

    store: EmbeddedStore = field(factory=EmbeddedStore)
    client: StoreClient = field(factory=lambda: StoreClient(1, SESSION_MS))
    node: StoredNode = field(init=False)
    sent: list[Request] = field(factory=list[Request])
    operators: int = 100

    def __attrs_post_init__(self) -> None:
        candidate = StoredController(1, CONFIG, Random(1), BrokerAddress(), 1)
        logs = FileLogs(MemoryDisk(), lambda: 0, topic_ids={})
        of_node = (1, BrokerConfig(), logs, dict[str, int](), 1)
        self.node = StoredNode(*of_node, candidate=candidate)

    def start(self) -> None:
        self._carry(self.client.start(0))

    def operate(self, *writes: contract.Operation) -> None:
        """Write by a session of its own, which stays."""
        self.operators += 1
        connection = SessionConnection(self.operators, 1)
        bodies = [
            Connect(0, 600_000),
            *(contract.StoreRequest(n, one) for n, one in enumerate(writes)),
        ]
        for number, body in enumerate(bodies, 1):
            self._from_store(self.store.handle(0, Frame(connection, number, body)))

    def take(self, message: Any) -> None:
        """Let the node have this."""
        self._outputs(self.node.handle(0, message))

    def _from_store(self, frames: Sequence[Frame]) -> None:
        for frame in frames:
            if frame.connection.client == 1:
                self._carry(self.client.receive(0, frame))

    def _carry(self, outputs: Sequence[Any]) -> None:
        frames = deque(one for one in outputs if isinstance(one, Frame))
        for output in outputs:
            if isinstance(
                output, contract.Connected | contract.StoreResponse | contract.WatchEvent
            ):
                self.take(output)
        while frames:
            self._from_store(self.store.handle(0, frames.popleft()))

    def _outputs(self, outputs: Sequence[Any]) -> None:
        for output in outputs:
            if isinstance(output, contract.StoreRequest):
                self._carry(self.client.send(0, output))
            elif isinstance(output, Request):
                self.sent.append(output)


def controller(broker: int) -> Create:
    return Create(znodes.CONTROLLER, znodes.controller(broker))


def test_whoever_is_controller_again_is_asked_again() -> None:
    """Broker 2 was controller, then 3 by its news, and then 2, which has told us nothing yet."""
    one = Hosted()
    one.operate(Create(znodes.CONTROLLER_EPOCH, b"1"), controller(2))
    one.start()
    epoch = one.node.context.broker_epoch
    assert epoch > 0
    news = UpdateMetadataRequest(epoch, 1, (), True, 2, 3, "")
    one.take(Request(3, 1, 1, news))
    assert one.node.context.controller == 3
    one.operate(Multi((Delete(znodes.CONTROLLER), controller(2))))
    one.take(Timer(0, HEARTBEAT))
    beats = [request for request in one.sent if isinstance(request.body, BrokerHeartbeatRequest)]
    assert beats[-1].target == 2


def late_news(one: Hosted, controller: int, controller_epoch: int) -> None:
    """News of the metadata that this controller sent to broker 1."""
    epoch = one.node.context.broker_epoch
    body = UpdateMetadataRequest(epoch, 1, (), True, controller_epoch, controller, "")
    one.take(Request(controller, 1, 1, body))


def test_a_controller_does_not_obey_its_predecessor() -> None:
    """Its late news were obeyed while its own, to itself, were lost: it then sent its heartbeats
    to the predecessor for ever, and its own broker was never told anything again."""
    one = Hosted()
    one.operate(Create(znodes.CONTROLLER_EPOCH, b"6"), controller(2))
    one.start()
    late_news(one, 2, 6)
    assert one.node.context.controller == 2
    one.operate(Delete(znodes.CONTROLLER))
    assert one.node.context.controller == 1
    late_news(one, 2, 6)
    assert one.node.context.controller == 1


def test_who_has_seen_another_controller_in_the_store_does_not_obey_its_predecessor() -> None:
    one = Hosted()
    one.operate(Create(znodes.CONTROLLER_EPOCH, b"6"), controller(2))
    one.start()
    another = Delete(znodes.CONTROLLER), controller(3), SetData(znodes.CONTROLLER_EPOCH, b"7")
    one.operate(Multi(another))
    assert one.node.context.controller == 3
    late_news(one, 2, 6)
    assert one.node.context.controller == 3
    late_news(one, 3, 7)
    assert one.node.context.controller == 3
