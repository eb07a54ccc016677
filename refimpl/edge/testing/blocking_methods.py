"""Methods and properties of `Cluster` for code without an event loop. Written by `make docs`."""

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from refimpl.api.call import ClientTelemetry
from refimpl.broker.partition import Partition
from refimpl.edge.server import arguments
from refimpl.edge.server.controller_host import ControllerHost
from refimpl.edge.server.cues import Cue, Cues, Event
from refimpl.edge.server.faults import Rule, Which
from refimpl.edge.server.host import BrokerHost
from refimpl.edge.server.layout import Layout
from refimpl.edge.server.network import Network
from refimpl.edge.testing.security import Security
from refimpl.messages.cluster import PartitionRegistration


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


class BlockingMethods(abc.ABC):
    """Each returns when it is done."""

    @abc.abstractmethod
    def _call(self, name: str, *args: Any, **which: Any) -> Any:
        """Call a method of the cluster in the thread of the brokers."""

    @abc.abstractmethod
    def _get(self, name: str) -> Any:
        """An attribute of the cluster as it is now."""

    @property
    def brokers(self) -> int:
        """As `Cluster` has it."""
        return self._get("brokers")

    @property
    def port(self) -> int:
        """As `Cluster` has it."""
        return self._get("port")

    @property
    def host(self) -> str:
        """As `Cluster` has it."""
        return self._get("host")

    @property
    def data(self) -> Path | None:
        """As `Cluster` has it."""
        return self._get("data")

    @property
    def configs(self) -> Mapping[str, arguments.Setting]:
        """As `Cluster` has it."""
        return self._get("configs")

    @property
    def seed(self) -> int | None:
        """As `Cluster` has it."""
        return self._get("seed")

    @property
    def observe(self) -> Callable[[int, Any], None] | None:
        """As `Cluster` has it."""
        return self._get("observe")

    @property
    def racks(self) -> Mapping[int, str]:
        """As `Cluster` has it."""
        return self._get("racks")

    @property
    def offsets_topic(self) -> bool:
        """As `Cluster` has it."""
        return self._get("offsets_topic")

    @property
    def security(self) -> Security | None:
        """As `Cluster` has it."""
        return self._get("security")

    @property
    def more_data(self) -> Sequence[Path]:
        """As `Cluster` has it."""
        return self._get("more_data")

    @property
    def client_telemetry(self) -> Callable[[ClientTelemetry], Any] | None:
        """As `Cluster` has it."""
        return self._get("client_telemetry")

    @property
    def hosts(self) -> dict[int, BrokerHost]:
        """As `Cluster` has it."""
        return self._get("hosts")

    @property
    def network(self) -> Network:
        """As `Cluster` has it."""
        return self._get("network")

    @property
    def controller(self) -> ControllerHost:
        """As `Cluster` has it."""
        return self._get("controller")

    @property
    def rules(self) -> list[Rule]:
        """As `Cluster` has it."""
        return self._get("rules")

    @property
    def cues(self) -> Cues:
        """As `Cluster` has it."""
        return self._get("cues")

    @property
    def layout(self) -> Layout:
        """As `Cluster` has it."""
        return self._get("layout")

    def settled(self, timeout_ms: int = 30000) -> None:
        """Return when every broker that runs knows of all others, and of all that was decided.

        Raises TimeoutError, which names the brokers that do not: one that is paused, or cut off.
        """
        return self._call("settled", timeout_ms)

    def until(self, condition: Callable[[], bool], timeout_ms: int = 30000) -> None:
        """Return when this is true. Raises TimeoutError, which shows the condition."""
        return self._call("until", condition, timeout_ms)

    def stop_all(self) -> None:
        """Stop every broker, each handing its leadership over while somebody is left."""
        return self._call("stop_all")

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: bootstrap.servers."""
        return self._get("bootstrap")

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self._get("cluster_id")

    def partition(self, topic: str, partition: int) -> PartitionRegistration:
        """The controller's decision: leader, ISR, replicas, epochs.

        Raises UnknownPartition.
        """
        return self._call("partition", topic, partition)

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader by the controller; None if there is none.

        A leader that was killed is named until its session has expired.
        """
        return self._call("leader", topic, partition)

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        """The replicas in sync, by the controller."""
        return self._call("isr", topic, partition)

    def replica(self, topic: str, partition: int, broker: int) -> Partition:
        """A replica as its broker has it. Raises UnknownPartition, UnknownBroker."""
        return self._call("replica", topic, partition, broker)

    def log(self, topic: str, partition: int, broker: int) -> Sequence[Any]:
        """The records in a replica's log, each with its leader epoch and value."""
        return self._call("log", topic, partition, broker)

    def log_end(self, topic: str, partition: int, broker: int) -> int:
        """The log end offset of a replica."""
        return self._call("log_end", topic, partition, broker)

    def high_watermark(self, topic: str, partition: int, broker: int) -> int:
        """A replica's high watermark."""
        return self._call("high_watermark", topic, partition, broker)

    def ask(self, body: Any) -> Any:
        """Put one of `refimpl.messages.controller` to the controller; its answer."""
        return self._call("ask", body)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int = 1,
        configs: Mapping[str, arguments.Setting] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Make a topic, and return when it can be written to. Raises ClusterError, ValueError.

        `assignments` name the replicas of each partition, the preferred leader first.
        """
        return self._call("create_topic", name, partitions, replicas, configs, assignments)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Let another one of the ISR lead. Raises ClusterError if that cannot be."""
        return self._call("move_leader", topic, partition, broker)

    def stop(self, broker: int) -> None:
        """A controlled shutdown: leadership goes to others, everything is written down."""
        return self._call("stop", broker)

    def kill(self, broker: int, *, expire: bool = False) -> None:
        """End a broker's process as SIGKILL does: nobody is told. With `expire` its session ends
        at once, too.

        Without, the controller gives it up after `broker.session.timeout.ms` (9 s), so what is sent
        to its partitions takes 10 s unless `expire_session(broker)` follows.
        """
        return self._call("kill", broker, expire=expire)

    def restart(self, broker: int) -> None:
        """Start a broker that is down again, on its old port, and return when it serves."""
        return self._call("restart", broker)

    def pause(self, broker: int) -> None:
        """A broker does nothing any more, as after SIGSTOP."""
        return self._call("pause", broker)

    def resume(self, broker: int) -> None:
        """It goes on."""
        return self._call("resume", broker)

    def cut(self, broker: int, how: str = "all", peer: int | None = None) -> None:
        """Cut a broker off from the others: "all", "from" it, "to" it, "controller", "brokers",
        "from_brokers", "to_brokers", or "one" `peer`. Clients still reach it. Raises ValueError."""
        return self._call("cut", broker, how, peer)

    def slow(self, broker: int, by_ms: int, how: str = "all", peer: int | None = None) -> None:
        """Messages on these links take so long. Raises ValueError."""
        return self._call("slow", broker, by_ms, how, peer)

    def heal(self) -> None:
        """Nothing is wrong any more: links are well, paused brokers go on, requests pass.

        A broker that is down stays down.
        """
        return self._call("heal")

    def expire_session(self, broker: int) -> None:
        """The controller gives a broker up, as if it had not been heard of for too long."""
        return self._call("expire_session", broker)

    def advance(self, by_ms: int, broker: int | None = None) -> None:
        """Let time pass on a broker's clock, or on all clocks and the controller's."""
        return self._call("advance", by_ms, broker)

    def hold(self, api: str, **which: Unpack[Which]) -> Rule:
        """Hold requests of an API, such as "Produce", until the rule's `release()`."""
        return self._call("hold", api, **which)

    def delay(self, api: str, by_ms: int, **which: Unpack[Which]) -> Rule:
        """Handle requests so much later."""
        return self._call("delay", api, by_ms, **which)

    def drop(self, api: str, **which: Unpack[Which]) -> Rule:
        """Never handle requests, nor answer them."""
        return self._call("drop", api, **which)

    def drop_response(self, api: str, **which: Unpack[Which]) -> Rule:
        """Handle requests, and do not answer them: an acknowledgement that is lost."""
        return self._call("drop_response", api, **which)

    def disconnect(self, api: str, *, handled: bool = True, **which: Unpack[Which]) -> Rule:
        """Close the connection in place of an answer; unless it is `handled`, in place of handling
        the request as well."""
        return self._call("disconnect", api, handled=handled, **which)

    def fail(self, api: str, error: str, **which: Unpack[Which]) -> Rule:
        """Answer requests with an error by Kafka's name, and do nothing else."""
        return self._call("fail", api, error, **which)

    def met(self, what: Rule | Cue, count: int | None = None, timeout_ms: int = 30000) -> None:
        """Return once a fault has met so many requests, by itself one, or once a cue is met.

        Raises TimeoutError, ValueError, or what was raised by what a cue had to do.
        """
        return self._call("met", what, count, timeout_ms)

    def release(self, rule: Rule) -> None:
        """Let what a fault holds go on, and let it meet nothing more."""
        return self._call("release", rule)

    def when(
        self,
        what: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        members: int | None = None,
        api: str | None = None,
        count: int = 1,
        do: Callable[[Event], Any] | None = None,
        required: bool = True,
    ) -> Cue:
        """A cue for what happens from now on; `met` waits for it, `do` is called with the event.

        - "written": records are in the leader's log, and nobody else knows of them;
        - "committed": the high watermark is above them;
        - "acknowledged": their producer has been sent the answer;
        - "read": a consumer has been sent them;
        - "requested": a request of an `api` came;
        - "joined": a group has a new member;
        - "assigned": all of a group's members, at least so many, were assigned partitions; one that
          is so now counts;
        - "offset_committed": a group's coordinator took a commit.

        `count` counts records, members, or requests. `do` runs in the thread of the brokers, there
        and then. Raises ValueError for what such an event does not tell.
        """
        return self._call(
            "when",
            what,
            topic=topic,
            partition=partition,
            client_id=client_id,
            group=group,
            members=members,
            api=api,
            count=count,
            do=do,
            required=required,
        )

    def rebalance(self, group: str) -> None:
        """Let a group rebalance: a member joins and leaves again.

        Raises ClusterError for a group without members. In a consumer group (KIP-848) it leaves
        when all others gave up what it was to have. Members hear of it by their next heartbeats.
        """
        return self._call("rebalance", group)
