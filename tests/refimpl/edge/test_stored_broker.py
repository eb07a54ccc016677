"""`highwater broker --zookeeper`, where there is none, or where it was asked for in a wrong way."""

import asyncio
from collections.abc import Callable

import pytest
from attrs import define
from click.testing import CliRunner

from refimpl.configs import Configs
from refimpl.edge.commands.broker import broker
from refimpl.edge.server.limits import Limits
from refimpl.edge.server.log_directory import MemoryDirectory
from refimpl.edge.server.memory import Budget
from refimpl.edge.server.peers import PeerNetwork
from refimpl.edge.server.stored_host import StoredBrokerHost
from refimpl.metadata.contract import Output, StoreRequest
from tests.refimpl.edge.patience import PATIENCE_S
from tests.refimpl.edge.sockets import request, response


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--id", "1"], "--id is for one broker of a cluster: name its --zookeeper"),
        (["--zookeeper", "127.0.0.1:1"], "has a number of its own: --id N"),
        (
            ["--id", "1", "--zookeeper", "127.0.0.1:1"],
            "127.0.0.1:1: no ZooKeeper server answers there within 0.3 s",
        ),
        (
            ["--set", "zookeeper.connect=127.0.0.1:1/kafka", "--set", "broker.id=7"],
            "127.0.0.1:1: no ZooKeeper server answers there within 0.3 s",
        ),
    ],
)
def test_a_mistake_is_named_in_one_line(arguments: list[str], complaint: str) -> None:
    soon = ["--set", "zookeeper.connection.timeout.ms=300"]
    ran = CliRunner().invoke(broker, [*arguments, *soon])
    assert ran.exit_code == 2
    assert complaint in ran.output
    assert "Traceback" not in ran.output


@define
class Silent:
    """A store that never answers: nobody tells the broker of anything."""

    def start(self, deliver: Callable[[Output], None]) -> None:
        """Nothing comes of it."""

    def send(self, request: StoreRequest) -> None:
        """Nobody hears it."""

    async def close(self) -> None:
        """It was never open."""


def test_clients_are_let_in_when_the_broker_knows_the_cluster() -> None:
    """Before, it would tell them that their topics do not exist, and they would believe it."""

    async def let_in() -> None:
        network = PeerNetwork(broker=1, cluster_id="c", address_of=_nowhere)
        host = StoredBrokerHost(
            1,
            network,
            MemoryDirectory("c"),
            Configs({"node.id": "1"}),
            Budget(1 << 20),
            Limits(),
            "127.0.0.1",
            0,
            accepts_at_once=False,
            new_store=Silent,
            peer=("127.0.0.1", 1),
        )
        await host.start()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", host.port)
        host.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
        writer.write(request(18, 0, 7))
        assert (await response(reader))[0] == 7
        writer.close()
        host.kill()
        network.close()

    asyncio.run(asyncio.wait_for(let_in(), PATIENCE_S))


async def _nowhere(broker: int) -> None:
    return None
