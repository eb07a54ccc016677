"""Real ZooKeeper servers on the loopback address: alone or three together, frozen and killed."""

import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from chaos.real.kafka.judge import LEAN, free_port, jars
from chaos.real.kafka.process import ServerProcess

TICK_MS = 200
"""Time-outs lie between 2 and 20 ticks."""
SECONDS_TO_START = 60
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CONFIG = f"""\
tickTime={TICK_MS}
initLimit=20
syncLimit=10
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=*
maxClientCnxns=0
standaloneEnabled=true
"""


@define
class Server(ServerProcess):
    """One server; its data stay in its folder, over restarts."""

    id: int
    folder: Path
    port: int = field(factory=free_port)
    peers: tuple[int, int] = field(factory=lambda: (free_port(), free_port()))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self, ensemble: Sequence["Server"]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [f"dataDir={self.folder}", f"clientPort={self.port}"]
        if len(ensemble) > 1:
            lines += [f"server.{s.id}=127.0.0.1:{s.peers[0]}:{s.peers[1]}" for s in ensemble]
            (self.folder / "myid").write_text(str(self.id))
        (self.folder / "zoo.cfg").write_text(CONFIG + "\n".join(lines) + "\n")

    def start(self) -> None:
        classpath = f"{jars(Path(__file__).parent / 'pom.xml', 'zookeeper')}/*"
        command = ["java", *LEAN, "-Xmx128m", "-cp", classpath, MAIN, self.folder / "zoo.cfg"]
        with (self.folder / "server.out").open("ab") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def wait_until_up(self) -> str:
        """Until it serves; answers whether it is standalone, leader or follower. Polled."""
        until = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < until and self.running:
            if (mode := self.mode()) is not None:
                return mode
            time.sleep(0.02)
        said = (self.folder / "server.out").read_text()[-2000:]
        raise RuntimeError(f"server {self.id} did not start: {said}")

    def mode(self) -> str | None:
        """The mode that the server reports, if it serves."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"srvr")
                said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return None
        modes = [line[6:] for line in said.splitlines() if line.startswith("Mode: ")]
        return modes[0] if modes else None


@contextmanager
def zookeeper(folder: Path, count: int = 1) -> Generator[list[Server]]:
    """So many servers that form one ensemble, up; at the end none of them runs."""
    servers = [Server(id, folder / f"zookeeper-{id}") for id in range(1, count + 1)]
    try:
        for server in servers:
            server.prepare(servers)
            server.start()
        for server in servers:
            server.wait_until_up()
        yield servers
    finally:
        for server in servers:
            if server.running:
                server.kill()
