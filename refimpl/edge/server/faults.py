"""Faults on requests of clients: held, delayed, dropped, answered by nobody, failed, cut off.

A rule names the API, and may name the client.id, how many requests pass before it begins, and how
many it is for. No request overtakes another one of its connection.
"""

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol, TypedDict

from attrs import define, field

from refimpl.edge.server import arguments

What = Literal[
    "hold", "delay", "drop", "drop response", "fail", "disconnect", "disconnect unhandled"
]


class Named(Protocol):
    """An API."""

    @property
    def name(self) -> str:
        """Its name, such as "Produce"."""
        ...


class Ended(Protocol):
    """The connection by which a request came."""

    def end(self) -> None:
        """End the connection behind the responses that are ready."""

    def abort(self) -> None:
        """End the connection at once."""


class Faulty(Protocol):
    """A request to which a fault can happen."""

    #: Refuse it with this error, keep its answer, or close the connection in the answer's place
    error: str | None
    is_answered: bool
    disconnects: bool

    @property
    def api(self) -> Named:
        """Its API."""
        ...

    @property
    def connection(self) -> Ended:
        """The connection by which it came."""
        ...

    def begin(self) -> None:
        """Let it go on."""

    def client_id(self) -> str | None:
        """The client.id in its header, if that can be read at all."""
        ...


class Which(TypedDict, total=False):
    """The requests of a rule: all of an API, unless these say less.

    A test of the pytest plugin fails where a rule met nothing, unless `required` is False.
    """

    broker: int | None
    client_id: str | None
    after: int
    count: int | None
    observe: Callable[[str, str | None], None] | None
    required: bool


@define(eq=False, repr=False)
class Rule:
    """One fault: it lets `after` requests pass, then meets `count` of them, or all until it is
    lifted. `seen` says how many came by, `met` how many it met. A test fails at its end where a
    rule is `required` and met nothing."""

    api: str
    what: What
    client_id: str | None = None
    count: int | None = None
    after: int = 0
    required: bool = True
    delay_ms: int = 0
    error: str | None = None
    #: Called with each request that it meets
    observe: Callable[[str, str | None], None] | None = None
    seen: int = field(default=0, init=False)
    met: int = field(default=0, init=False)
    held: list[Faulty] = field(factory=list[Faulty], init=False)
    #: Requests that nobody will answer; their clients wait for them
    _unanswered: list[Faulty] = field(factory=list[Faulty], init=False)
    _waiters: list[tuple[int, asyncio.Future[None]]] = field(
        factory=list[tuple[int, asyncio.Future[None]]], init=False
    )

    def __attrs_post_init__(self) -> None:
        """Refuse what no request could meet."""
        self.refuse_unknown_api()
        if self.what == "fail":
            arguments.error(self.error)
        arguments.whole("after", self.after)
        if self.count is not None:
            arguments.whole("count", self.count, 1)
        if self.client_id is not None:
            arguments.text("client_id", self.client_id)
        arguments.whole("by_ms", self.delay_ms)
        arguments.callable_or_none("observe", self.observe)

    def refuse_unknown_api(self) -> None:
        """Raise ValueError for an API that is not served."""
        arguments.api(self.api)

    def __repr__(self) -> str:
        """The rule in the words in which it was made."""
        words = [repr(self.api)]
        words += [] if self.error is None else [repr(self.error)]
        told = {"client_id": self.client_id, "after": self.after or None, "count": self.count}
        words += [f"{name}={value!r}" for name, value in told.items() if value is not None]
        if self.what == "disconnect unhandled":
            return f"disconnect({', '.join(words)}, handled=False)"
        return f"{self.what.replace(' ', '_')}({', '.join(words)})"

    def concerns(self, api: str, client_id: str | None) -> bool:
        """True if this request is one of those that the rule counts."""
        return api == self.api and self.client_id in (None, client_id)

    def is_due(self) -> bool:
        """Count a request that the rule concerns; whether it meets this one."""
        self.seen += 1
        return self.seen > self.after and (self.count is None or self.met < self.count)

    def meet(self, client_id: str | None) -> None:
        """Count one more."""
        self.met += 1
        if self.observe is not None:
            self.observe(self.api, client_id)
        for number, waiter in self._waiters:
            if self.met >= number and not waiter.done():
                waiter.set_result(None)

    async def wait_met(self, count: int | None = None) -> None:
        """Return once so many requests have met this fault, by itself one."""
        wanted = count or 1
        if self.met < wanted:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((wanted, waiter))
            await waiter

    def release(self) -> None:
        """Let what is held go on, in order, and meet nothing more.

        A connection on which a client waits for an answer that will not come is closed: the client
        need not wait for its own time-out.
        """
        self.count = self.met
        held, self.held = self.held, []
        for received in held:
            received.begin()
        unanswered, self._unanswered = self._unanswered, []
        for received in unanswered:
            received.connection.abort()

    def happen(self, received: Faulty) -> None:
        """Let the fault happen to a request."""
        match self.what:
            case "hold":
                self.held.append(received)
            case "delay":
                loop = asyncio.get_running_loop()
                loop.call_later(self.delay_ms / 1000, received.begin)
            case "drop":
                self._unanswered.append(received)
            case "drop response":
                received.is_answered = False
                self._unanswered.append(received)
                received.begin()
            case "disconnect":
                received.disconnects = True
                received.begin()
            case "disconnect unhandled":
                received.connection.end()
            case "fail":
                received.error = self.error
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

    def meet(self, received: Faulty) -> bool:
        """Let a fault happen to a request, if one is meant for it; answers whether one was."""
        api, client_id = received.api, received.client_id()
        # Each rule counts every request that it concerns, also those that another one meets.
        due = [r for r in self.rules if r.concerns(api.name, client_id) and r.is_due()]
        for rule in due[:1]:
            rule.happen(received)
            rule.meet(client_id)
        return bool(due)
