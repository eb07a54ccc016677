"""Methods and attributes of `Cluster` for code without an event loop, with the types they have."""

import abc
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import update_wrapper
from pathlib import Path
from typing import Any, Concatenate, Generic, Never, ParamSpec, Self, TypedDict, TypeVar, overload

from attrs import define, field

from refimpl.api.call import ClientTelemetry
from refimpl.edge.server import arguments
from refimpl.edge.server.controller_host import ControllerHost
from refimpl.edge.server.cues import Cues
from refimpl.edge.server.faults import Rule
from refimpl.edge.server.host import BrokerHost
from refimpl.edge.server.layout import Layout
from refimpl.edge.server.network import Network
from refimpl.edge.testing.cluster import Cluster
from refimpl.edge.testing.security import Security

P = ParamSpec("P")
T = TypeVar("T")


class Settings(TypedDict, total=False):
    """The arguments of `Cluster`."""

    brokers: int
    port: int
    host: str
    data: Path | str | None
    configs: Mapping[str, arguments.Setting]
    seed: int | None
    observe: Callable[[int, Any], None] | None
    racks: Mapping[int, str]
    offsets_topic: bool
    security: Security | None
    more_data: Sequence[Path | str]
    client_telemetry: Callable[[ClientTelemetry], Any] | None


@define(slots=False, eq=False, repr=False)
class Method(Generic[P, T]):
    """A method of the cluster: called in the thread of the brokers, it returns when it is done."""

    _name: str
    _of_cluster: Callable[..., Any]

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...
    @overload
    def __get__(self, of: "BlockingMethods", owner: type) -> Callable[P, T]: ...
    def __get__(self, of: "BlockingMethods | None", owner: type) -> "Self | Callable[P, T]":
        if of is None:
            return self

        def call(*args: P.args, **which: P.kwargs) -> T:
            return of._call(self._name, *args, **which)  # pyright: ignore[reportPrivateUsage]

        return update_wrapper(call, self._of_cluster)


def at_once(method: Callable[Concatenate[Cluster, P], T]) -> Method[P, T]:
    """A method that is done when it returns."""
    return Method(method.__name__, method)


def awaited(method: Callable[Concatenate[Cluster, P], Coroutine[Any, Any, T]]) -> Method[P, T]:
    """A method that is done when it has been awaited."""
    return Method(method.__name__, method)


@define(eq=False, repr=False)
class Attribute(Generic[T]):
    """An attribute of the cluster as it is now."""

    _name: str = field(default="", init=False)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> Self: ...
    @overload
    def __get__(self, of: "BlockingMethods", owner: type) -> T: ...
    def __get__(self, of: "BlockingMethods | None", owner: type) -> Self | T:
        return self if of is None else of._get(self._name)  # pyright: ignore[reportPrivateUsage]

    def __set__(self, of: "BlockingMethods", value: Never) -> None:
        raise AttributeError(f"{self._name} of a cluster cannot be set")


class BlockingMethods(abc.ABC):
    """Each returns when it is done."""

    @abc.abstractmethod
    def _call(self, name: str, *args: Any, **which: Any) -> Any:
        """Call a method of the cluster in the thread of the brokers."""

    @abc.abstractmethod
    def _get(self, name: str) -> Any:
        """An attribute of the cluster as it is now."""

    brokers = Attribute[int]()
    port = Attribute[int]()
    host = Attribute[str]()
    data = Attribute[Path | None]()
    configs = Attribute[Mapping[str, arguments.Setting]]()
    seed = Attribute[int | None]()
    observe = Attribute[Callable[[int, Any], None] | None]()
    racks = Attribute[Mapping[int, str]]()
    offsets_topic = Attribute[bool]()
    security = Attribute[Security | None]()
    more_data = Attribute[Sequence[Path]]()
    client_telemetry = Attribute[Callable[[ClientTelemetry], Any] | None]()
    hosts = Attribute[dict[int, BrokerHost]]()
    network = Attribute[Network]()
    controller = Attribute[ControllerHost]()
    rules = Attribute[list[Rule]]()
    cues = Attribute[Cues]()
    layout = Attribute[Layout]()
    bootstrap = Attribute[str]()
    cluster_id = Attribute[str]()

    settled = awaited(Cluster.settled)
    until = awaited(Cluster.until)
    stop_all = awaited(Cluster.stop_all)
    partition = at_once(Cluster.partition)
    leader = at_once(Cluster.leader)
    isr = at_once(Cluster.isr)
    replica = at_once(Cluster.replica)
    log = at_once(Cluster.log)
    log_end = at_once(Cluster.log_end)
    high_watermark = at_once(Cluster.high_watermark)
    ask = awaited(Cluster.ask)
    create_topic = awaited(Cluster.create_topic)
    move_leader = awaited(Cluster.move_leader)
    stop = awaited(Cluster.stop)
    kill = at_once(Cluster.kill)
    restart = awaited(Cluster.restart)
    pause = at_once(Cluster.pause)
    resume = at_once(Cluster.resume)
    cut = at_once(Cluster.cut)
    slow = at_once(Cluster.slow)
    heal = at_once(Cluster.heal)
    expire_session = at_once(Cluster.expire_session)
    advance = at_once(Cluster.advance)
    hold = at_once(Cluster.hold)
    delay = at_once(Cluster.delay)
    drop = at_once(Cluster.drop)
    drop_response = at_once(Cluster.drop_response)
    disconnect = at_once(Cluster.disconnect)
    fail = at_once(Cluster.fail)
    met = awaited(Cluster.met)
    release = at_once(Cluster.release)
    when = at_once(Cluster.when)
    rebalance = awaited(Cluster.rebalance)
