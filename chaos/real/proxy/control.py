"""Rules of a running proxy by HTTP, on a port of loopback.

GET    /rules      the rules, and how many requests each saw and met
POST   /rules      one more, in words: hold Produce count=1
DELETE /rules/N    end a rule; what it holds goes on
DELETE /rules      end all of them
"""

import asyncio
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import orjson
from attrs import define

from chaos.real.proxy.proxy import HOST, Proxy
from chaos.real.proxy.words import rule_of, words_of
from refimpl.edge.server.faults import Rule

_RULE = re.compile(r"/rules/(\d+)")
LONGEST = 4096


@define(eq=False)
class Control:
    """The rules of a proxy, all of them touched in its event loop alone."""

    proxy: Proxy
    loop: asyncio.AbstractEventLoop

    def answer(self, method: str, path: str, body: str) -> tuple[int, Any]:
        """The status and the JSON of a request, from any thread."""

        async def now() -> tuple[int, Any]:
            return self._answer(method, path, body)

        return asyncio.run_coroutine_threadsafe(now(), self.loop).result()

    def _answer(self, method: str, path: str, body: str) -> tuple[int, Any]:
        match method, path:
            case "GET", "/rules":
                return 200, [_told(number, *one) for number, one in self.proxy.rules.items()]
            case "POST", "/rules":
                try:
                    broker, rule = rule_of(body.strip())
                    number = self.proxy.add(rule, broker)
                except ValueError as error:
                    return 400, {"error": str(error)}
                return 201, _told(number, broker, rule)
            case "DELETE", "/rules":
                self.proxy.lift()
                return 200, []
            case "DELETE", _ if found := _RULE.fullmatch(path):
                return self._ended(int(found[1]))
            case _:
                return 404, {"error": f"{method} {path}: expected /rules or /rules/NUMBER"}

    def _ended(self, number: int) -> tuple[int, Any]:
        if number not in self.proxy.rules:
            return 404, {"error": f"there is no rule {number}"}
        broker, rule = self.proxy.rules[number]
        self.proxy.remove(number)
        return 200, _told(number, broker, rule)


def _told(number: int, broker: int | None, rule: Rule) -> dict[str, Any]:
    counts = {"seen": rule.seen, "met": rule.met, "held": len(rule.held)}
    return {"number": number, "rule": words_of(broker, rule), **counts}


@contextmanager
def controlled(proxy: Proxy, port: int, on_port: Callable[[int], None]) -> Generator[None]:
    """Serve the rules of a proxy of this event loop. Raises OSError where the port is taken."""
    control = Control(proxy, asyncio.get_running_loop())

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            size = min(int(self.headers.get("Content-Length") or 0), LONGEST)
            body = self.rfile.read(size).decode(errors="replace")
            status, told = control.answer(self.command, self.path, body)
            content = orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _handle  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are no news."""

    server = ThreadingHTTPServer((HOST, port), Handler)
    thread = Thread(target=server.serve_forever, name="control", daemon=True)
    thread.start()
    on_port(server.server_address[1])
    try:
        yield
    finally:
        # The thread may be in the middle of an answer, which needs this event loop.
        Thread(target=server.shutdown, daemon=True).start()
        server.server_close()
