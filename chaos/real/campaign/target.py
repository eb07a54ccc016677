"""A cluster that a campaign breaks: what the faults and the clients need of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from chaos.real.campaign.proxies import Proxies


class Target(Protocol):
    """Three brokers as processes of their own, and proxies before them."""

    #: Rules on what passes between clients and brokers, and between brokers
    proxies: Proxies

    @property
    def ports(self) -> Mapping[int, int]:
        """The brokers' own ports, which no proxy stands before."""
        ...

    def running(self, node: int) -> bool:
        """True between a start and an end of its process."""
        ...

    def signal(self, node: int, number: int) -> None:
        """Send a signal to its process."""
        ...

    def end(self, node: int, number: int) -> None:
        """Send a signal that ends its process, and return when it has ended."""
        ...

    def start(self, node: int) -> None:
        """Start it again, and return when it listens."""
        ...

    def empty(self, node: int) -> int:
        """Empty the log directories of a node that is down; how many bytes were lost."""
        ...

    def copy(self, node: int) -> Path:
        """Copy the log directories of a node that is down; the place of the copy."""
        ...

    def put_back(self, node: int, copy: Path) -> int:
        """Give a node that is down this copy in place of its disk; how many bytes are lost."""
        ...


def bootstrap(target: Target) -> str:
    """The brokers' own addresses."""
    return ",".join(f"127.0.0.1:{port}" for port in target.ports.values())
