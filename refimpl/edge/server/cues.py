"""Cues: something is done, or a test goes on, when something has happened in the cluster.

A cue is met by what nodes say of their own steps and by what brokers answer, never by a clock. What
is done at a cue is done there and then: a broker that is killed when a record is written has told
nobody of the record.
"""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Literal, TypeAlias, get_args

from attrs import define, field, frozen

from refimpl.edge.server import arguments

What: TypeAlias = Literal[
    "requested",
    "written",
    "committed",
    "read",
    "acknowledged",
    "joined",
    "assigned",
    "offset_committed",
]
"""The events that a cue can wait for; `Cluster.when` explains each."""
EVENTS: tuple[str, ...] = get_args(What)

#: By what each event may be told apart
FIELDS: Mapping[str, tuple[str, ...]] = {
    "requested": ("api", "client_id"),
    **dict.fromkeys(("written", "read", "acknowledged"), ("topic", "partition", "client_id")),
    "committed": ("topic", "partition"),
    "joined": ("group", "client_id"),
    "assigned": ("group", "members"),
    "offset_committed": ("group", "topic", "partition"),
}


@frozen
class Event:
    """Something that happened at a broker; what an event does not tell is None.

    `count` is how many: records, members, or one.
    """

    what: str
    broker: int
    count: int = 1
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    group: str | None = None
    members: int | None = None
    api: str | None = None


@define(eq=False, repr=False)
class Cue:
    """Waits until `count` events that fit have happened, and then does something, once.

    `met` says how many so far. A test fails at its end where a cue is `required` and met nothing.
    """

    what: str
    wanted: Mapping[str, Any]
    count: int = 1
    do: Callable[[Event], Any] | None = None
    required: bool = True
    met: int = field(default=0, init=False)
    #: What `do` raised, if it did
    error: BaseException | None = field(default=None, init=False)
    _done: bool = field(default=False, init=False)
    _tasks: set[asyncio.Future[Any]] = field(factory=set[asyncio.Future[Any]], init=False)
    _waiters: list[tuple[int, asyncio.Future[None]]] = field(
        factory=list[tuple[int, asyncio.Future[None]]], init=False
    )

    def __repr__(self) -> str:
        """The cue in the words in which it was made."""
        words = [repr(self.what), *(f"{name}={value!r}" for name, value in self.wanted.items())]
        words += [f"count={self.count}"] if self.count > 1 else []
        return f"when({', '.join(words)})"

    def fits(self, event: Event) -> bool:
        """True if this event is one of those."""
        if event.what != self.what:
            return False
        for name, value in self.wanted.items():
            found = getattr(event, name)
            if (found is None or found < value) if name == "members" else found != value:
                return False
        return True

    def meet(self, event: Event) -> None:
        """Count an event; at the last one that is waited for, do what is to be done."""
        self.met += event.count
        if self.met >= self.count and not self._done:
            self._done = True
            self._act(event)
        self._wake()

    def _act(self, event: Event) -> None:
        if self.do is None:
            return
        token = _acting.set(self)
        try:
            result = self.do(event)
            if inspect.isawaitable(result):
                self.wait_for(asyncio.ensure_future(result))
        except Exception as error:
            self.error = error
        finally:
            _acting.reset(token)

    def wait_for(self, task: asyncio.Future[Any]) -> None:
        """It is done once this is."""
        if task not in self._tasks:
            self._tasks.add(task)
            task.add_done_callback(self._acted)

    def _acted(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and self.error is None:
            self.error = task.exception()
        self._wake()

    def _wake(self) -> None:
        if self._tasks:
            return
        for number, waiter in self._waiters:
            if self.met >= number and not waiter.done():
                waiter.set_result(None)

    async def wait_met(self, count: int | None = None) -> None:
        """Return once it is met, and what is to be done is done. Raises what that raised."""
        wanted = self.count if count is None else count
        if self.met < wanted or self._tasks:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((wanted, waiter))
            await waiter
        if self.error is not None:
            raise self.error


_acting: ContextVar[Cue | None] = ContextVar("acting", default=None)
"""The cue whose deed is being done."""


def is_acting() -> bool:
    """True while this runs because a cue was met."""
    return _acting.get() is not None


def begun(task: asyncio.Future[Any]) -> None:
    """Something was begun that takes time; a cue by which it was begun waits for it."""
    cue = _acting.get()
    if cue is not None:
        cue.wait_for(task)


def new_cue(
    what: str, wanted: Mapping[str, Any], count: int, do: Any, required: bool = True
) -> Cue:
    """A cue. Raises ValueError for an event that there is not, or what it does not tell."""
    if what not in EVENTS:
        raise ValueError(f"when: expected one of {', '.join(EVENTS)}, found {what!r}")
    told = {name: value for name, value in wanted.items() if value is not None}
    strange = [name for name in told if name not in FIELDS[what]]
    if strange:
        known = ", ".join(FIELDS[what])
        raise ValueError(f"when({what!r}): expected {known}, count; found {', '.join(strange)}")
    if count < 1:
        raise ValueError(f"when({what!r}): expected a count of 1 or more, found {count}")
    if "api" in told:
        arguments.api(told["api"])
    arguments.callable_or_none("do", do)
    return Cue(what, told, count, do, required)


@define(eq=False)
class Cues:
    """The cues of a cluster, in the order in which they were made."""

    all: list[Cue] = field(factory=list[Cue], init=False)

    def happened(self, event: Event) -> None:
        """Let an event meet the cues that it fits."""
        for cue in list(self.all):
            if cue.fits(event):
                cue.meet(event)
