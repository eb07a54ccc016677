"""Metadata stores: operations for each second of CPU, and of the clock.

Without arguments the embedded store: its machine, in memory and on a disk, one by one and 64 at a
time. With `--zookeeper HOST:PORT` real ZooKeeper as well, with `--zookeeper jars` a server of our
own, whose jars come from Maven.

Values have 100 bytes. CPU is this process's; ZooKeeper's own is not in it. "multi" is what every
write of a controller is: a check of its epoch's version, and a conditional write.
"""

import asyncio
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter, process_time

from rich.console import Console
from rich.table import Table
from zookeeper_cluster import HELP, server_at

from refimpl.metadata.client import StoreClient
from refimpl.metadata.contract import (
    Check,
    Connected,
    Create,
    Delete,
    Exists,
    GetData,
    MetadataStore,
    Multi,
    Operation,
    SessionState,
    SetData,
    StoreRequest,
    WatchEvent,
)
from refimpl.metadata.durable import DurableStore
from refimpl.metadata.embedded import EmbeddedStore, Frame
from refimpl.metadata.hosting import Asking, EmbeddedServer
from refimpl.metadata.zookeeper import ZooKeeperStore
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.disk.interface import MemoryDisk

DATA = bytes(100)
ROOT = "/bench"
OPERATIONS: dict[str, Callable[[int], Operation]] = {
    "create": lambda n: Create(f"{ROOT}/{n}", DATA),
    "set": lambda n: SetData(f"{ROOT}/0", DATA),
    "multi": lambda n: Multi((Check(ROOT, 0), SetData(f"{ROOT}/1", DATA))),
    "get": lambda n: GetData(f"{ROOT}/2"),
    "delete": lambda n: Delete(f"{ROOT}/{n}"),
}
Found = dict[str, tuple[float, float]]
"""By operation: for each second of CPU, for each second of the clock."""


def machine(store: EmbeddedStore | DurableStore, number: int) -> Found:
    """The store and its client as machines: no loop, no tasks."""
    client, numbers = StoreClient(0, 60_000), count(1)

    def carry(frames: Sequence[object]) -> None:
        for frame in frames:
            if isinstance(frame, Frame):
                for answer in store.handle(0, frame):
                    carry(client.receive(0, answer))

    def ask(operation: Operation) -> None:
        carry(client.send(0, StoreRequest(next(numbers), operation)))

    carry(client.start(0))
    ask(Create(ROOT))
    found: Found = {}
    for name, make in OPERATIONS.items():
        cpu, wall = process_time(), perf_counter()
        for one in range(number):
            ask(make(one))
        found[name] = _rates(number, cpu, wall)
    return found


async def served(store: MetadataStore, number: int, depth: int) -> Found:
    """A store on a loop, with so many operations under way at once."""
    connected = asyncio.Event()

    def hear(one: WatchEvent | SessionState) -> None:
        if isinstance(one, Connected):
            connected.set()

    session = Asking(store, hear)
    session.start()
    await connected.wait()
    await session.ask(Create(ROOT))
    found: Found = {}
    for name, make in OPERATIONS.items():
        cpu, wall = process_time(), perf_counter()
        for first in range(0, number, depth):
            some = range(first, min(first + depth, number))
            await asyncio.gather(*(session.ask(make(one)) for one in some))
        found[name] = _rates(number, cpu, wall)
    await session.ask(Delete(ROOT))
    await session.ask(Exists(ROOT))
    await session.close()
    return found


def _rates(number: int, cpu: float, wall: float) -> tuple[float, float]:
    spent, passed = process_time() - cpu, perf_counter() - wall
    return number / max(spent, 1e-6), number / passed


def main() -> None:
    """Print a table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--zookeeper", metavar="HOST:PORT|jars", help=HELP)
    parser.add_argument("--number", type=int, default=5_000)
    arguments = parser.parse_args()
    number: int = arguments.number
    few = number // 10
    rows = {
        "machine, in memory": machine(EmbeddedStore(), number),
        "machine, memory disk": machine(DurableStore.open(MemoryDisk(), 0), number),
    }

    async def embedded(store: EmbeddedStore | DurableStore, depth: int, many: int) -> Found:
        return await served(EmbeddedServer(store).session(60_000), many, depth)

    for depth in (1, 64):
        rows[f"loop, in memory, {depth} at once"] = asyncio.run(
            embedded(EmbeddedStore(), depth, number)
        )
        with tempfile.TemporaryDirectory() as folder:
            store = DurableStore.open(FileDisk(Path(folder)), 0)
            many = number if depth > 1 else few
            rows[f"loop, files, {depth} at once"] = asyncio.run(embedded(store, depth, many))
    if arguments.zookeeper:
        with server_at(arguments.zookeeper) as (hosts, _):
            for depth in (1, 64):

                async def on_zookeeper(depth: int = depth) -> Found:
                    return await served(ZooKeeperStore(hosts, 10_000), number, depth)

                rows[f"ZooKeeper, {depth} at once"] = asyncio.run(on_zookeeper())
    table = Table("operations a second: of CPU (of the clock)", *OPERATIONS)
    for name, found in rows.items():
        table.add_row(name, *(f"{cpu:,.0f} ({wall:,.0f})" for cpu, wall in found.values()))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
