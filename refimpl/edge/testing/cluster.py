"""A cluster of brokers in this process, which real clients reach by its ports.

async with Cluster(brokers=3) as cluster:
    await cluster.create_topic("orders", partitions=1, replicas=3)
    ...  # cluster.bootstrap is what clients connect to
    cluster.kill(cluster.leader("orders", 0))
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from attrs import define, field
from attrs.converters import optional

from refimpl.api.call import ClientTelemetry
from refimpl.broker.partition import Partition
from refimpl.configs import Configs
from refimpl.edge.server import arguments
from refimpl.edge.server.controller_host import ControllerHost
from refimpl.edge.server.cues import Cue, Cues, Event, new_cue
from refimpl.edge.server.errors import ClusterError, NotRunning
from refimpl.edge.server.faults import Rule, What, Which
from refimpl.edge.server.host import BrokerHost
from refimpl.edge.server.layout import Layout
from refimpl.edge.server.network import Network
from refimpl.edge.server.watching import Furthest, Watch, is_assigned
from refimpl.edge.testing import lookups
from refimpl.edge.testing.rebalancing import Phantom, coordinator_of, group_of
from refimpl.edge.testing.security import Security
from refimpl.messages import controller as c
from refimpl.messages import group as g
from refimpl.messages.broker import TopicPartition
from refimpl.messages.cluster import PartitionRegistration
from refimpl.records.coordinators import OFFSETS_TOPIC

LOOPBACK = "127.0.0.1"


def _paths(paths: Sequence[Path | str]) -> Sequence[Path]:
    return tuple(map(Path, paths))


@define(eq=False, repr=False)
class Cluster:
    """Brokers 1 to `brokers` on consecutive ports from `port` on, or on any free ones for 0.

    Without `data` everything is in memory, and a broker that is killed and restarted finds what it
    had, as after the end of a process on a machine that goes on; with it, the logs are Kafka's
    files in `data/broker-N`. `configs` are settings of server.properties, by Kafka's names. `seed`
    makes the placement of replicas the same each time. `observe` is told what every node observes.
    With `offsets_topic` the topic in which groups are kept is made at the start; by itself it is
    made for the first group, whose client then waits as long as it likes before it asks again.

    Raises ValueError for what cannot be, and warns (NoEffectWarning) of what would have no effect.
    """

    brokers: int = 3
    port: int = 0
    host: str = LOOPBACK
    data: Path | None = field(default=None, converter=optional(Path))
    configs: Mapping[str, arguments.Setting] = field(factory=dict[str, arguments.Setting])
    seed: int | None = None
    observe: Callable[[int, Any], None] | None = None
    #: broker.rack of each broker that has one
    racks: Mapping[int, str] = field(factory=dict[int, str])
    offsets_topic: bool = False
    #: What clients need to come in, and may do; without it anybody may do everything
    security: Security | None = None
    #: The log directories besides `data`: each has a `broker-N` as well
    more_data: Sequence[Path] = field(default=(), converter=_paths)
    #: Takes the metrics that clients push (KIP-714), which they are asked for only then
    client_telemetry: Callable[[ClientTelemetry], Any] | None = None
    hosts: dict[int, BrokerHost] = field(factory=dict[int, BrokerHost], init=False)
    network: Network = field(factory=Network, init=False)
    controller: ControllerHost = field(init=False)
    #: All rules that were made, also those that are lifted
    rules: list[Rule] = field(factory=list[Rule], init=False)
    cues: Cues = field(factory=Cues, init=False)
    layout: Layout = field(init=False)
    _state: str = field(default="has not been started", init=False)

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        arguments.whole("brokers", self.brokers, 1, arguments.MOST_BROKERS)
        arguments.whole("port", self.port, 0, 65_536 - self.brokers)
        if self.seed is not None:
            arguments.whole("seed", self.seed)
        arguments.racks(self.racks, self.brokers)
        arguments.callable_or_none("observe", self.observe)
        arguments.callable_or_none("client_telemetry", self.client_telemetry)
        secured = {} if self.security is None else self.security.settings(self.port)
        settings = arguments.broker_settings(
            {**secured, **self.configs}, self.host, self.port, in_memory=self.data is None
        )
        self.layout = Layout(
            *(self.brokers, self.port, self.host, self.data, settings),
            more_data=self.more_data,
            racks=self.racks,
        )

    # From start to end

    async def start(self) -> Self:
        """Start the controller and all brokers, and return when all of them serve.

        Raises OSError for a port in use, UnusableDirectory, NotRunning if it was started before.
        """
        if self._state != "has not been started":
            raise NotRunning(f"this cluster {self._state}: make another one")
        layout = self.layout
        budget, cluster_id = layout.budget(), layout.cluster_id()
        configs, log = Configs(layout.static), layout.controller_log(cluster_id)
        self.controller = ControllerHost(
            self.network, configs, cluster_id, self.seed, self.observe, log
        )
        self._state = "runs already"
        try:
            self.controller.start()
            for number in range(1, self.brokers + 1):
                directory = layout.directory(number, cluster_id)
                self.hosts[number] = layout.broker(
                    *(number, self.network, directory, budget, self.observe),
                    client_telemetry=self.client_telemetry,
                )
                await self._listen(self.hosts[number])
            await self.settled()
            if self.security is not None:
                await self.ask(self.security.credentials())
                await self.settled()
            if self.offsets_topic:
                self._make_offsets_topic()
                await self.until(
                    lambda: OFFSETS_TOPIC in self.controller.controller.metadata.topics
                )
                await self.settled()
        except BaseException:
            self.close()
            raise
        return self

    async def _listen(self, host: BrokerHost) -> None:
        """Start a broker, whose port may be taken."""
        try:
            await host.start()
        except OSError as refused:
            raise lookups.port_taken(host, refused) from None

    def _make_offsets_topic(self) -> None:
        """Let a broker ask for it, with the settings that it has for it."""
        host = self.hosts[1]
        host.ask(g.FindCoordinatorRequest(g.GROUP, ("",)), lambda answer: None)

    async def settled(self, timeout_ms: int = 30_000) -> None:
        """Return when every broker that runs knows of all others, and of all that was decided.

        Raises TimeoutError, which names the brokers that do not: one that is paused, or cut off.
        """
        arguments.whole("timeout_ms", timeout_ms, 1)
        self._check_running()
        try:
            await self.until(self._is_settled, timeout_ms)
        except TimeoutError:
            why = lookups.unsettled(self.hosts, self.controller.controller.metadata)
            raise TimeoutError(f"the cluster is not settled after {timeout_ms} ms: {why}") from None

    def _is_settled(self) -> bool:
        version = self.controller.controller.metadata.metadata_version
        alive = [host for host in self.hosts.values() if host.up]
        registered = self.controller.controller.metadata.brokers
        return self.controller.has_told_all and all(
            host.node.metadata.metadata_version == version
            and host.id in registered
            and not registered[host.id].fenced
            for host in alive
        )

    async def until(self, condition: Callable[[], bool], timeout_ms: int = 30_000) -> None:
        """Return when this is true. Raises TimeoutError, which shows the condition."""
        arguments.whole("timeout_ms", timeout_ms, 1)
        arguments.condition(condition)
        self._check_running()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not condition():
                    await asyncio.sleep(0.001)
        except TimeoutError:
            what = lookups.condition_named(condition)
            raise TimeoutError(f"not true within {timeout_ms} ms: {what}") from None

    async def stop_all(self) -> None:
        """Stop every broker, each handing its leadership over while somebody is left."""
        for host in list(self.hosts.values()):
            await host.stop()
        self.close()

    def close(self) -> None:
        """End at once."""
        if self._state != "runs already":
            return
        self._state = "has ended"
        for host in self.hosts.values():
            host.kill()
        self.controller.close()

    async def __aenter__(self) -> Self:
        """Start."""
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End at once; with files, after a controlled shutdown."""
        if self.data is None or kind is not None:
            self.close()
        else:
            await self.stop_all()

    def _check_running(self) -> None:
        """Nothing can be asked of a cluster before its start, nor after its end."""
        if self._state != "runs already":
            raise NotRunning(f"this cluster {self._state}: use it inside of `with` or `async with`")

    # What is there

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: bootstrap.servers."""
        self._check_running()
        return ",".join(f"{host.host}:{host.port}" for host in self.hosts.values())

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        self._check_running()
        return self.controller.cluster_id

    def partition(self, topic: str, partition: int) -> PartitionRegistration:
        """The controller's decision: leader, ISR, replicas, epochs.

        Raises UnknownPartition.
        """
        self._check_running()
        return lookups.partition(self.controller.controller.metadata, topic, partition)

    def leader(self, topic: str, partition: int) -> int | None:
        """The leader by the controller; None if there is none.

        A leader that was killed is named until its session has expired.
        """
        return self.partition(topic, partition).decision.leader

    def isr(self, topic: str, partition: int) -> frozenset[int]:
        """The replicas in sync, by the controller."""
        return self.partition(topic, partition).decision.isr

    def replica(self, topic: str, partition: int, broker: int) -> Partition:
        """A replica as its broker has it. Raises UnknownPartition, UnknownBroker."""
        self._check_running()
        metadata = self.controller.controller.metadata
        return lookups.replica(self.hosts, metadata, topic, partition, broker)

    def log(self, topic: str, partition: int, broker: int) -> Sequence[Any]:
        """The records in a replica's log, each with its leader epoch and value."""
        return list(self.replica(topic, partition, broker).replica.log.records)

    def log_end(self, topic: str, partition: int, broker: int) -> int:
        """The log end offset of a replica."""
        return self.replica(topic, partition, broker).replica.log.end

    def high_watermark(self, topic: str, partition: int, broker: int) -> int:
        """A replica's high watermark."""
        return self.replica(topic, partition, broker).replica.high_watermark

    # What an operator does

    async def ask(self, body: Any) -> Any:
        """Put one of `refimpl.messages.controller` to the controller; its answer."""
        self._check_running()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.controller.ask(body, answer.set_result)
        return await answer

    async def create_topic(
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
        arguments.topic(name, partitions, replicas, assignments)
        pairs = list(arguments.topic_settings(configs or {}).items())
        if assignments:
            topic = c.CreatableTopic(name, assignments=list(assignments.items()), configs=pairs)
        else:
            topic = c.CreatableTopic(name, partitions, replicas, configs=pairs)
        response: c.CreateTopicsResponse = await self.ask(c.CreateTopicsRequest([topic]))
        created = response.topics[0]
        if created.error is not None:
            raise ClusterError(created.error, created.message)
        await self.settled()

    async def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Let another one of the ISR lead. Raises ClusterError if that cannot be."""
        name = TopicPartition(topic, partition)
        self._check_running()
        metadata = self.controller.controller.metadata
        replicas = lookups.may_lead(self.hosts, metadata, topic, partition, broker).replicas
        others = [one for one in replicas if one != broker]
        moved = c.ReassignablePartition(name, [broker, *others])
        response = await self.ask(c.AlterPartitionReassignmentsRequest([moved]))
        self._refused(response.partitions[0])
        elected = await self.ask(c.ElectLeadersRequest(c.PREFERRED, [name]))
        if elected.partitions[0].error != "ELECTION_NOT_NEEDED":
            self._refused(elected.partitions[0])
        await self.settled()

    def _refused(self, result: c.PartitionResult) -> None:
        if result.error is not None:
            raise ClusterError(result.error, result.message)

    async def stop(self, broker: int) -> None:
        """A controlled shutdown: leadership goes to others, everything is written down."""
        await self._running(broker, "be stopped").stop()

    def kill(self, broker: int, *, expire: bool = False) -> None:
        """End a broker's process as SIGKILL does: nobody is told. With `expire` its session ends
        at once, too.

        Without, the controller gives it up after `broker.session.timeout.ms` (9 s), so what is sent
        to its partitions takes 10 s unless `expire_session(broker)` follows.
        """
        self._running(broker, "be killed").kill()
        if expire:
            self.expire_session(broker)

    async def restart(self, broker: int) -> None:
        """Start a broker that is down again, on its old port, and return when it serves."""
        self._check_running()
        await self._listen(lookups.down(self.hosts, broker))
        await self.settled()

    def _broker(self, broker: int) -> BrokerHost:
        self._check_running()
        return lookups.broker(self.hosts, broker)

    def _running(self, broker: int, wanted: str) -> BrokerHost:
        self._check_running()
        return lookups.running(self.hosts, broker, wanted)

    # Faults, by the simulator's names

    def pause(self, broker: int) -> None:
        """A broker does nothing any more, as after SIGSTOP."""
        self._running(broker, "be paused").pause()

    def resume(self, broker: int) -> None:
        """It goes on."""
        self._running(broker, "go on").resume()

    def cut(self, broker: int, how: str = "all", peer: int | None = None) -> None:
        """Cut a broker off from the others: "all", "from" it, "to" it, "controller", "brokers",
        "from_brokers", "to_brokers", or "one" `peer`. Clients still reach it. Raises ValueError."""
        self._check_peers(broker, peer)
        self.network.cut |= self.network.links(broker, how, peer)

    def slow(self, broker: int, by_ms: int, how: str = "all", peer: int | None = None) -> None:
        """Messages on these links take so long. Raises ValueError."""
        arguments.whole("by_ms", by_ms)
        self._check_peers(broker, peer)
        self.network.slow_ms |= dict.fromkeys(self.network.links(broker, how, peer), by_ms)

    def _check_peers(self, broker: int, peer: int | None) -> None:
        self._broker(broker)
        if peer is not None and self._broker(peer).id == broker:
            raise ValueError(f"peer: broker {broker} has no link to itself")

    def heal(self) -> None:
        """Nothing is wrong any more: links are well, paused brokers go on, requests pass.

        A broker that is down stays down.
        """
        self._check_running()
        self.network.heal()
        for host in self.hosts.values():
            host.resume()
            host.faults.lift()

    def expire_session(self, broker: int) -> None:
        """The controller gives a broker up, as if it had not been heard of for too long."""
        self._broker(broker)
        self.controller.expire_session(broker)

    def advance(self, by_ms: int, broker: int | None = None) -> None:
        """Let time pass on a broker's clock, or on all clocks and the controller's."""
        arguments.whole("by_ms", by_ms, 1)
        for host in self._meant(broker):
            host.advance(by_ms)
        if broker is None:
            self.controller.advance(by_ms)

    def _meant(self, broker: int | None) -> Sequence[BrokerHost]:
        """One broker, or all."""
        self._check_running()
        return list(self.hosts.values()) if broker is None else [self._broker(broker)]

    def hold(self, api: str, **which: Unpack[Which]) -> Rule:
        """Hold requests of an API, such as "Produce", until the rule's `release()`."""
        return self._rule(api, "hold", which)

    def delay(self, api: str, by_ms: int, **which: Unpack[Which]) -> Rule:
        """Handle requests so much later."""
        return self._rule(api, "delay", which, delay_ms=by_ms)

    def drop(self, api: str, **which: Unpack[Which]) -> Rule:
        """Never handle requests, nor answer them."""
        return self._rule(api, "drop", which)

    def drop_response(self, api: str, **which: Unpack[Which]) -> Rule:
        """Handle requests, and do not answer them: an acknowledgement that is lost."""
        return self._rule(api, "drop response", which)

    def disconnect(self, api: str, *, handled: bool = True, **which: Unpack[Which]) -> Rule:
        """Close the connection in place of an answer; unless it is `handled`, in place of handling
        the request as well."""
        return self._rule(api, "disconnect" if handled else "disconnect unhandled", which)

    def fail(self, api: str, error: str, **which: Unpack[Which]) -> Rule:
        """Answer requests with an error by Kafka's name, and do nothing else."""
        return self._rule(api, "fail", which, error=error)

    def _rule(self, api: str, what: What, which: Which, **more: Any) -> Rule:
        """A rule for one broker, or for all; `client_id`, `after` and `count` say which requests.

        A test of the pytest plugin fails where a rule met nothing, unless `required` is False.
        """
        others: dict[str, Any] = {**which, **more}
        hosts = self._meant(others.pop("broker", None))
        rule = Rule(api, what, **others)
        self.rules.append(rule)
        for host in hosts:
            host.faults.add(rule)
        return rule

    async def met(
        self, what: Rule | Cue, count: int | None = None, timeout_ms: int = 30_000
    ) -> None:
        """Return once a fault has met so many requests, by itself one, or once a cue is met.

        Raises TimeoutError, ValueError, or what was raised by what a cue had to do.
        """
        most = what.count if isinstance(what, Rule) else None
        arguments.met(what, count, most, timeout_ms)
        self._check_running()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await what.wait_met(count)
        except TimeoutError:
            wanted = count or (what.count if isinstance(what, Cue) else 1)
            text = f"{what} met {what.met} of {wanted} within {timeout_ms} ms"
            raise TimeoutError(text) from None

    def release(self, rule: Rule) -> None:
        """Let what a fault holds go on, and let it meet nothing more."""
        rule.release()

    # Cues: what is done when something has happened

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
        wanted = {"topic": topic, "partition": partition, "client_id": client_id, "group": group}
        self._check_running()
        cue = new_cue(what, {**wanted, "members": members, "api": api}, count, do, required)
        self._watch()
        self.cues.all.append(cue)
        if what == "assigned" and group is not None:
            now = group_of(self.hosts, group)
            if is_assigned(now) and len(now.members) >= (members or 1):
                broker = coordinator_of(self.hosts, group)
                cue.meet(Event(what, broker, group=group, members=len(now.members)))
        return cue

    def _watch(self) -> None:
        """Let cues hear of all brokers; what is committed by now does not count."""
        if any(host.watch is not None for host in self.hosts.values()):
            return
        furthest: Furthest = {}
        for host in self.hosts.values():
            for name, one in host.node.partitions.items():
                furthest[name] = max(furthest.get(name, 0), one.replica.high_watermark)
        for number, host in self.hosts.items():
            host.let_watch(Watch(number, self.cues, furthest))

    async def rebalance(self, group: str) -> None:
        """Let a group rebalance: a member joins and leaves again.

        Raises ClusterError for a group without members. In a consumer group (KIP-848) it leaves
        when all others gave up what it was to have. Members hear of it by their next heartbeats.
        """
        self._check_running()
        await asyncio.sleep(0)  # a cue may ask for it in the middle of what a coordinator says
        self._watch()
        phantom = Phantom(self.hosts, group)
        try:
            phantom.join()
        except LookupError as nobody:
            raise ClusterError("GROUP_ID_NOT_FOUND", str(nobody)) from None
        if phantom.stays:
            self.cues.all.append(phantom.cue())
