"""A TCP proxy in threads, between one broker and ZooKeeper: its connections can be cut."""

import socket
import threading
from contextlib import suppress
from typing import Any

from attrs import define, field

from chaos.real.kafka.judge import free_port


@define(eq=False)
class ZooKeeperProxy:
    """Between one broker and ZooKeeper: connections that can be cut."""

    target: int
    port: int = field(factory=free_port)
    cut: bool = False
    open: list[socket.socket] = field(factory=list[socket.socket])
    listener: Any = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def sever(self) -> None:
        """End all connections, and refuse new ones."""
        self.cut = True
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        self.sever()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if self.cut:
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self.open += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=ends, daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
