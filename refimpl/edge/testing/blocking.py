"""A cluster for code without an event loop: the brokers run in a thread of their own."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from threading import Thread, current_thread
from types import TracebackType
from typing import Any, Self, Unpack, cast

from attrs import frozen

from refimpl.edge.server.cues import begun, is_acting
from refimpl.edge.server.errors import NotRunning
from refimpl.edge.testing.blocking_methods import BlockingMethods, Settings
from refimpl.edge.testing.cluster import Cluster

WAIT = ("met", "until")
"""The methods that wait for what clients do."""


class BlockingCluster(BlockingMethods):
    """Every method and property of `Cluster`, each of which returns when it is done.

    with BlockingCluster(brokers=3) as cluster:
        cluster.create_topic("orders", replicas=3)
    """

    def __init__(self, **settings: Unpack[Settings]) -> None:
        """Takes the arguments of `Cluster`."""
        self._cluster = Cluster(**settings)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._unawaited: list[tuple[str, Coroutine[Any, Any, Any]]] = []

    def __enter__(self) -> Self:
        """Start, and return when all brokers serve."""
        if self._thread is not None:
            raise NotRunning("this cluster was started before: make another one")
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="highwater", daemon=True)
        self._thread.start()
        try:
            self._run(self._cluster.__aenter__)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End as `Cluster` does."""
        if self._loop is None:
            return
        try:
            self._run(self._cluster.__aexit__, kind, error, trace)
        finally:
            self._end()

    def start(self) -> Self:
        """Start, for code without `with`; `close` ends it."""
        return self.__enter__()

    def close(self) -> None:
        """End, as the end of `with` does; a second time it does nothing."""
        self.__exit__(None, None, None)

    def _call(self, name: str, *args: Any, **which: Any) -> Any:
        """Call a method of the cluster, which has to run."""
        self._running()
        return self._run(getattr(self._cluster, name), *args, **which)

    def _get(self, name: str) -> Any:
        """An attribute of the cluster as it is now."""
        if self._loop is None:
            return getattr(self._cluster, name)
        return self._run(getattr, self._cluster, name)

    def _run(self, call: Callable[..., Any], *args: Any, **which: Any) -> Any:
        """Run a function, or a coroutine to its end, in the thread of the brokers.

        What runs there already, such as the condition of an `until`, is called as it is. What a cue
        has to do may begin there what takes time, and the cue waits for it.
        """
        name = getattr(call, "__name__", "")
        if current_thread() is self._thread:
            result = call(*args, **which)
            return _begun(result, name) if inspect.iscoroutine(result) else result
        if name in WAIT and _in_a_loop():
            raise RuntimeError(
                f"{name}() would block the event loop that it is called in, and with it the "
                f"clients that it waits for: use `await cluster.aio.{name}(…)`"
            )
        return self._start(call, *args, **which).result()

    def _start(self, call: Callable[..., Any], *args: Any, **which: Any) -> Future[Any]:
        async def run() -> Any:
            result = call(*args, **which)
            return await cast("Any", result) if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(run(), self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        """The loop of the brokers. Raises NotRunning."""
        if self._loop is None:
            state = "has not been started" if self._thread is None else "has ended"
            raise NotRunning(f"this cluster {state}: use it inside of `with`")
        return self._loop

    def begin(self, name: str, *args: Any, **which: Any) -> Coroutine[Any, Any, Any]:
        """Call a method of `Cluster` from any event loop, by awaiting the answer."""

        async def run() -> Any:
            call = getattr(self._cluster, name)
            return await asyncio.wrap_future(self._start(call, *args, **which))

        self._unawaited = [(of, one) for of, one in self._unawaited if _is_new(one)]
        self._unawaited.append((name, run()))
        return self._unawaited[-1][1]

    def forgotten(self) -> list[str]:
        """A sentence for each call of `aio` that was never awaited; it is never begun."""
        found = [(name, one) for name, one in self._unawaited if _is_new(one)]
        for _, one in found:
            one.close()
        self._unawaited = []
        return [f"{name} was not awaited, and did nothing" for name, _ in found]

    @property
    def aio(self) -> "Aio":
        """The same methods, to be awaited in the event loop of an async test."""
        return Aio(self)

    def _end(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        assert self._thread is not None
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        # Whoever was being accepted at the end is cut off, too.
        loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def _begun(coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
    """Start a cue's action, which goes on by itself; other callers in the brokers' thread are
    refused, for they cannot wait."""
    if not is_acting():
        coroutine.close()
        raise RuntimeError(f"{name} waits for brokers, and so cannot be called in their thread")
    task = asyncio.ensure_future(coroutine)
    begun(task)
    return task


def _is_new(coroutine: Coroutine[Any, Any, Any]) -> bool:
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@frozen
class Aio:
    """The methods of a cluster as coroutines of any event loop."""

    _of: BlockingCluster

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """A method to await. Raises AttributeError for what is none."""
        if not inspect.isfunction(inspect.getattr_static(Cluster, name, None)):
            raise AttributeError(f"a cluster has no method {name!r}")
        return partial(self._of.begin, name)
