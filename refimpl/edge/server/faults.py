"""Faults on requests of clients: held, delayed, dropped, answered by nobody, or failed.

A rule names the API, and may name the client.id and how many requests it is for.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from attrs import define, field

from refimpl.wire.errors import WireError
from refimpl.wire.headers import read_client_id
from refimpl.wire.messages import is_flexible

if TYPE_CHECKING:
    from refimpl.edge.server.connection import Received

What = Literal["hold", "delay", "drop", "drop response", "fail"]


@define(eq=False)
class Rule:
    """One fault, until it has met `count` requests or is lifted; `met` says how many so far."""

    api: str
    what: What
    client_id: str | None = None
    count: int | None = None
    delay_ms: int = 0
    error: str | None = None
    #: Called with each request that it meets
    observe: Callable[[str, str | None], None] | None = None
    met: int = field(default=0, init=False)
    held: list["Received"] = field(factory=list["Received"], init=False)
    _waiters: list[tuple[int, asyncio.Future[None]]] = field(
        factory=list[tuple[int, asyncio.Future[None]]], init=False
    )

    def matches(self, api: str, client_id: str | None) -> bool:
        """Whether this request is one of those."""
        wanted = self.client_id is None or self.client_id == client_id
        return api == self.api and wanted and (self.count is None or self.met < self.count)

    def meet(self, client_id: str | None) -> None:
        """Count one more."""
        self.met += 1
        if self.observe is not None:
            self.observe(self.api, client_id)
        for number, waiter in self._waiters:
            if self.met >= number and not waiter.done():
                waiter.set_result(None)

    async def wait_met(self, count: int = 1) -> None:
        """Return once so many requests have met this fault."""
        if self.met < count:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((count, waiter))
            await waiter

    def release(self) -> None:
        """Let what is held go on, in order, and hold nothing more."""
        self.count = self.met
        held, self.held = self.held, []
        for received in held:
            received.begin()


@define(eq=False)
class Faults:
    """The rules of one broker, in the order in which they were made."""

    rules: list[Rule] = field(factory=list[Rule])

    def add(self, rule: Rule) -> Rule:
        """One more."""
        self.rules.append(rule)
        return rule

    def lift(self) -> None:
        """No more faults; what is held goes on."""
        rules, self.rules = self.rules, []
        for rule in rules:
            rule.release()

    def meet(self, received: "Received") -> bool:
        """Let a fault happen to a request, if one is meant for it; answers whether one was."""
        api = received.api
        client_id = client_of(received)
        for rule in self.rules:
            if rule.matches(api.name, client_id):
                self._happen(rule, received)
                rule.meet(client_id)
                return True
        return False

    def _happen(self, rule: Rule, received: "Received") -> None:
        match rule.what:
            case "hold":
                rule.held.append(received)
            case "delay":
                loop = asyncio.get_running_loop()
                loop.call_later(rule.delay_ms / 1000, received.begin)
            case "drop":
                pass
            case "drop response":
                received.is_answered = False
                received.begin()
            case "fail":
                received.error = rule.error
                received.begin()


def client_of(received: "Received") -> str | None:
    """The client.id in a request's header, if that can be read at all."""
    api, frame = received.api, received.frame
    version = int.from_bytes(frame[2:4], signed=True)
    try:
        if not api.first <= version <= api.last:
            return None
        return read_client_id(frame, flexible=is_flexible(api.key, version))[0]
    except WireError:
        return None
