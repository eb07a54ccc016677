"""A consumer of aiokafka, recorded."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from threading import get_ident
from typing import Any, Self

from traces.record.aio_ids import topic_ids
from traces.record.errors import commit_outcome
from traces.record.polls import Polled
from traces.record.process import now
from traces.record.python_consumer import PythonConsumer
from traces.record.python_words import error_of, names, offsets_of
from traces.record.rebalance import listener as rebalance_listener
from traces.record.wrapper import ClientOptions, Fields


class AioConsumer(PythonConsumer):
    """A consumer of aiokafka."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._ids = topic_ids(options.process, client)
        isolation = options.configured.get("isolation")
        self._isolation: Fields = {"isolation": isolation} if isolation else {}
        self._asked_for = 0
        topics = client.subscription()
        if topics:  # as given when the client was made
            self.subscribe(sorted(topics))

    def polled(self, message: Any) -> Polled:
        topic, key = message.topic, message.key
        id = self._id(topic, key, message.value, message.headers)
        return topic, message.partition, message.offset, id, key, message.timestamp, None

    def _caller(self) -> object:
        try:
            return asyncio.current_task() or get_ident()
        except RuntimeError:  # a thread of an executor, without a loop
            return get_ident()

    async def start(self) -> None:
        """As the client's own; its coordinator is made in there, and its commits are watched."""
        await self._client.start()
        coordinator: Any = getattr(self._client, "_coordinator", None)
        if hasattr(coordinator, "_do_commit_offsets"):
            commit = coordinator._do_commit_offsets
            coordinator._do_commit_offsets = partial(self._watched_commit, commit)

    async def getone(self, *partitions: Any) -> Any:
        """As the client's own."""
        invoked = now()
        message = await self._client.getone(*partitions)
        self._polled([message], invoked)
        return message

    async def getmany(self, *partitions: Any, **more: Any) -> Any:
        """As the client's own; an empty one leaves no trace."""
        invoked = now()
        answer = await self._client.getmany(*partitions, **more)
        if answer:
            self._polled([one for several in answer.values() for one in several], invoked)
        return answer

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        invoked = now()
        message = await self._client.__anext__()
        self._polled([message], invoked)
        return message

    def _membership(self) -> Fields:
        coordinator: Any = getattr(self._client, "_coordinator", None)
        fields = self._grouped()
        if getattr(coordinator, "generation", -1) >= 0:
            held = {"member": coordinator.member_id, "generation": coordinator.generation}
            fields = {**fields, **held}
        return fields

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        """As the client's own; what its rebalances tell is written down on the way."""
        invoked = now()
        kind = sys.modules["aiokafka.abc"].ConsumerRebalanceListener
        ours = rebalance_listener(kind, self, listener, awaited=True)
        self._client.subscribe(topics, pattern=pattern, listener=ours)
        named = [f"/{pattern}/"] if pattern else list(topics)
        self._process.note("subscribe", invoked, topics=named, **self._grouped())
        self._ids.met(() if pattern else named)

    def assign(self, partitions: Any) -> None:
        """As the client's own."""
        super().assign(partitions)
        self._ids.met({partition.topic for partition in partitions})

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        """As the client's own; where that is, the next poll shows."""
        return await self._seek_somewhere(self._client.seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        """As the client's own; where that is, the next poll shows."""
        return await self._seek_somewhere(self._client.seek_to_end, partitions)

    async def seek_to_committed(self, *partitions: Any) -> Any:
        """As the client's own; where that was is its answer."""
        invoked = now()
        answer = await self._client.seek_to_committed(*partitions)
        at = offsets_of(answer or {})
        self._process.note("seek", invoked, partitions=names(answer or partitions), offsets=at)
        return answer

    async def _seek_somewhere(self, call: Callable[..., Any], partitions: tuple[Any, ...]) -> Any:
        invoked = now()
        answer = await call(*partitions)
        moved = names(partitions or self._client.assignment())
        self._process.note("seek", invoked, partitions=moved)
        return answer

    async def commit(self, *args: Any, **more: Any) -> None:
        """As the client's own; the commits of all kinds meet in the hook below."""
        self._asked_for += 1
        try:
            await self._client.commit(*args, **more)
        finally:
            self._asked_for -= 1

    async def _watched_commit(
        self, call: Callable[..., Awaitable[Any]], assignment: Any, offsets: Any
    ) -> Any:
        """One request to commit, of the application or of the client's own accord."""
        if not offsets:
            return await call(assignment, offsets)
        auto = self._by() if self._asked_for else {"auto": True}
        about = {"offsets": offsets_of(offsets), **auto, **self._membership()}
        seq, invoked = self._process.call("commit", **about), now()
        try:
            answer = await call(assignment, offsets)
        except Exception as refusal:
            code, name = error_of(refusal)
            self._process.answer(seq, commit_outcome(code, now() - invoked), error=name)
            raise
        self._process.answer(seq, "ok")
        return answer

    async def committed(self, partition: Any) -> Any:
        """As the client's own."""
        about = {"partitions": names([partition]), **self._membership()}
        seq = self._process.call("committed", **about)
        try:
            answer = await self._client.committed(partition)
        except Exception as refusal:
            self._process.answer(seq, "info", error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok", offsets=offsets_of({partition: answer}))
        return answer

    async def beginning_offsets(self, partitions: Any) -> Any:
        """As the client's own."""
        return await self._listed("earliest", self._client.beginning_offsets(partitions))

    async def end_offsets(self, partitions: Any) -> Any:
        """As the client's own."""
        return await self._listed("latest", self._client.end_offsets(partitions))

    async def offsets_for_times(self, timestamps: Any) -> Any:
        """As the client's own: one call of the trace for each time that was asked for."""
        invoked = now()
        answer = await self._client.offsets_for_times(timestamps)
        for query in sorted(set(timestamps.values())):
            found = {p: answer[p] for p, time in timestamps.items() if time == query}
            self._process.note("list_offsets", invoked, query=query, offsets=offsets_of(found))
        return answer

    async def _listed(self, query: str, call: Awaitable[Any]) -> Any:
        invoked = now()
        answer = await call
        listed = {"query": query, "offsets": offsets_of(answer), **self._isolation}
        self._process.note("list_offsets", invoked, **listed)
        return answer

    async def stop(self) -> None:
        """As the client's own, with the commit that it may bring."""
        invoked = now()
        await self._client.stop()
        await asyncio.to_thread(self._ids.leave)
        self._process.end("close", invoked)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.stop()
