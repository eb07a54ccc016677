"""Brokers that are a process each, so that one can be killed; their controller is in this one.

They are what the brokers of a `Cluster` are, in the same directories; their messages go by TCP, as
those of brokers whose metadata are in ZooKeeper.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress

import orjson
from attrs import define, field

from refimpl.configs import Configs
from refimpl.edge.server.controller_host import ControllerHost
from refimpl.edge.server.errors import ClusterError
from refimpl.edge.server.joined_broker import LOOPBACK, Joining
from refimpl.edge.server.layout import Layout
from refimpl.edge.server.peers import PeerNetwork
from refimpl.messages.controller import CONTROLLER

PROGRAM = "refimpl.edge.commands.joined"
READY = b"ready "


class NotStarted(ClusterError):
    """A broker's process has ended before it was ready; it has said why itself."""


@define(eq=False)
class BrokerProcess:
    """Broker `number` as a process, or several of them, one after the other."""

    number: int
    port: int = 0
    started: int = 0
    process: Process | None = None
    watching: "asyncio.Task[None] | None" = None

    @property
    def pid(self) -> int | None:
        """The id of its process; None if none runs."""
        running = self.process is not None and self.process.returncode is None
        return self.process.pid if self.process is not None and running else None


@define(eq=False)
class ProcessCluster:
    """The brokers of a layout, each a process of its own; `start` returns when all of them serve.

    `tell` is given a line for each process that begins, and for each that ends by itself.
    """

    layout: Layout
    tell: Callable[[str], None]
    processes: dict[int, BrokerProcess] = field(factory=dict[int, BrokerProcess], init=False)
    network: PeerNetwork = field(init=False)
    controller: ControllerHost = field(init=False)
    _controller_port: int = field(default=0, init=False)
    _stopping: bool = field(default=False, init=False)
    _restarting: "set[asyncio.Task[None]]" = field(
        factory=lambda: set["asyncio.Task[None]"](), init=False
    )

    @property
    def host(self) -> str:
        """The host at which the brokers listen."""
        return self.layout.host

    @property
    def port(self) -> int:
        """The port of the first broker, 0 for any free ones."""
        return self.layout.port

    @property
    def brokers(self) -> int:
        """The number of brokers."""
        return self.layout.brokers

    @property
    def bootstrap(self) -> str:
        """The addresses for clients: bootstrap.servers."""
        return ",".join(f"{self.host}:{one.port}" for one in self.processes.values())

    async def start(self) -> None:
        """Start the controller, and all brokers at once. Raises UnusableDirectory, NotStarted."""
        layout, cluster_id = self.layout, self.layout.cluster_id()
        self.network = PeerNetwork(
            broker=CONTROLLER, cluster_id=cluster_id, address_of=self._address_of
        )
        self._controller_port = await self.network.listen(LOOPBACK, 0)
        self.controller = ControllerHost(
            *(self.network, Configs(layout.static), cluster_id),
            log=layout.controller_log(cluster_id),
        )
        for number in range(1, layout.brokers + 1):
            self.processes[number] = BrokerProcess(number)
        try:
            self.controller.start()
            async with asyncio.TaskGroup() as group:
                for one in self.processes.values():
                    group.create_task(self._started(one))
        except* NotStarted as failed:
            await self.stop_all()
            raise failed.exceptions[0] from None
        except* BaseException:
            await self.stop_all()
            raise

    def restart(self) -> None:
        """Start each broker again that has ended, on the port that it had."""
        for one in self.processes.values():
            if one.pid is None and not self._stopping:
                task = asyncio.get_running_loop().create_task(self._again(one))
                self._restarting.add(task)
                task.add_done_callback(self._restarting.discard)

    async def stop_all(self) -> None:
        """Stop every broker, each handing its leadership over while somebody is left."""
        self._stopping = True
        running = [one.process for one in self.processes.values() if one.process is not None]
        for process in running:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGCONT)  # or who is paused does not hear of it
        for process in running:
            await process.wait()
        self.network.close()
        self.controller.close()

    async def _again(self, one: BrokerProcess) -> None:
        with suppress(NotStarted):
            await self._started(one)

    async def _started(self, one: BrokerProcess) -> None:
        """Start a process, and return when it serves. Raises NotStarted."""
        joining = Joining(
            *(self.layout, one.number, self.controller.cluster_id, self._controller_port),
            *(one.port, one.started),
        )
        one.started += 1
        one.process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, f"broker-{one.number}"),
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,  # Ctrl-C is for the parent, which stops all of them
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orjson.dumps(joining.values()) + b"\n")
        said = await process.stdout.readline()
        if not said.startswith(READY):
            await process.wait()
            raise NotStarted("UNKNOWN_SERVER_ERROR", f"broker {one.number} has not started")
        one.port = int(said.rpartition(b":")[2])
        self.tell(f"broker {one.number} is process {process.pid}")
        one.watching = asyncio.get_running_loop().create_task(self._watched(one, process))

    async def _watched(self, one: BrokerProcess, process: Process) -> None:
        code = await process.wait()
        if not self._stopping:
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
            again = f"kill -USR1 {os.getpid()} starts it again"
            self.tell(f"broker {one.number}, process {process.pid}, has ended {how}; {again}")

    async def _address_of(self, broker: int) -> tuple[str, int] | None:
        return self.network.greeted.get(broker)
