"""A consumer of kafka-python, recorded."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from traces.record.errors import commit_outcome
from traces.record.polls import Polled
from traces.record.process import now
from traces.record.python_consumer import PythonConsumer
from traces.record.python_words import error_of, names, offsets_of, topic_ids
from traces.record.rebalance import listener as rebalance_listener
from traces.record.wrapper import ClientOptions, Fields


class KafkaPythonConsumer(PythonConsumer):
    """A consumer of kafka-python."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._isolation: Fields = {"isolation": options.configured["isolation"]}
        self._asked_for = False
        self._ids = topic_ids(
            options.process, getattr(getattr(client, "_client", None), "cluster", None)
        )
        self._hook_commits(getattr(client, "_coordinator", None))
        topics = client.subscription()
        if topics:  # as given when the client was made
            self.subscribe(sorted(topics))

    def polled(self, message: Any) -> Polled:
        topic, key = message.topic, message.key
        id = self._id(topic, key, message.value, message.headers)
        epoch = getattr(message, "leader_epoch", None)
        return topic, message.partition, message.offset, id, key, message.timestamp, epoch

    def poll(self, *args: Any, **more: Any) -> Any:
        """As the client's own; an empty poll leaves no trace."""
        invoked = now()
        answer = self._client.poll(*args, **more)
        if answer:
            self._polled([one for several in answer.values() for one in several], invoked)
            self._ids.met({partition.topic for partition in answer})
        return answer

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        invoked = now()
        message = next(self._client)
        self._polled([message], invoked)
        self._ids.met((message.topic,))
        return message

    def _membership(self) -> Fields:
        coordinator = getattr(self._client, "_coordinator", None)
        held = getattr(coordinator, "_generation", None)
        fields = self._grouped()
        if held is not None and held.generation_id >= 0:
            fields = {**fields, "member": held.member_id, "generation": held.generation_id}
        return fields

    def subscribe(self, topics: Any = (), pattern: Any = None, listener: Any = None) -> None:
        """As the client's own; what its rebalances tell is written down on the way."""
        invoked = now()
        state = sys.modules["kafka.consumer.subscription_state"]
        awaited = isinstance(listener, state.AsyncConsumerRebalanceListener)
        kind = getattr(state, f"{'Async' * awaited}ConsumerRebalanceListener")
        ours = rebalance_listener(kind, self, listener, awaited)
        self._client.subscribe(topics, pattern=pattern, listener=ours)
        named = [f"/{pattern}/"] if pattern else list(topics)
        self._process.note("subscribe", invoked, topics=named, **self._grouped())

    def seek_to_beginning(self, *partitions: Any) -> None:
        """As the client's own; where that is, the next poll shows."""
        self._seek_somewhere(self._client.seek_to_beginning, partitions)

    def seek_to_end(self, *partitions: Any) -> None:
        """As the client's own; where that is, the next poll shows."""
        self._seek_somewhere(self._client.seek_to_end, partitions)

    def _seek_somewhere(self, call: Callable[..., Any], partitions: tuple[Any, ...]) -> None:
        invoked = now()
        call(*partitions)
        moved = names(partitions or self._client.assignment())
        self._process.note("seek", invoked, partitions=moved)

    def commit(self, *args: Any, **more: Any) -> None:
        """As the client's own; the commits of all kinds meet in the hook below."""
        self._asked(self._client.commit, args, more)

    def commit_async(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        return self._asked(self._client.commit_async, args, more)

    def _asked(self, call: Callable[..., Any], args: tuple[Any, ...], more: Fields) -> Any:
        self._asked_for = True
        try:
            return call(*args, **more)
        finally:
            self._asked_for = False

    def _hook_commits(self, coordinator: Any) -> None:
        """Watch the two doors through which every commit goes, those of the client's own accord."""
        if hasattr(coordinator, "commit_offsets_sync"):
            sync = coordinator.commit_offsets_sync
            coordinator.commit_offsets_sync = partial(self._commit_sync, sync)
        if hasattr(coordinator, "commit_offsets_async"):
            later = coordinator.commit_offsets_async
            coordinator.commit_offsets_async = partial(self._commit_later, later)

    def _commit_call(self, offsets: Any) -> tuple[int, int]:
        auto = self._by() if self._asked_for else {"auto": True}
        about = {"offsets": offsets_of(offsets), **auto, **self._membership()}
        return self._process.call("commit", **about), now()

    def _commit_sync(self, call: Callable[..., Any], offsets: Any, *args: Any, **more: Any) -> Any:
        if not offsets:
            return call(offsets, *args, **more)
        seq, invoked = self._commit_call(offsets)
        try:
            answer = call(offsets, *args, **more)
        except Exception as refusal:
            self._refused(seq, invoked, refusal)
            raise
        self._process.answer(seq, "ok")
        return answer

    def _commit_later(self, call: Callable[..., Any], offsets: Any, *args: Any, **more: Any) -> Any:
        if not offsets:
            return call(offsets, *args, **more)
        seq, invoked = self._commit_call(offsets)
        future = call(offsets, *args, **more)
        future.add_callback(partial(self._committed, seq))
        future.add_errback(partial(self._refused, seq, invoked))
        return future

    def _committed(self, seq: int, _answer: Any) -> None:
        self._process.answer(seq, "ok")

    def _refused(self, seq: int, invoked: int, refusal: Any) -> None:
        code, name = error_of(refusal)
        self._process.answer(seq, commit_outcome(code, now() - invoked), error=name)

    def committed(self, partition: Any, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        about = {"partitions": names([partition]), **self._membership()}
        seq = self._process.call("committed", **about)
        try:
            answer = self._client.committed(partition, *args, **more)
        except Exception as refusal:
            self._process.answer(seq, "info", error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok", offsets=offsets_of({partition: answer}))
        return answer

    def beginning_offsets(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        return self._listed("earliest", self._client.beginning_offsets, args, more)

    def end_offsets(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        return self._listed("latest", self._client.end_offsets, args, more)

    def offsets_for_times(self, timestamps: Any, *args: Any, **more: Any) -> Any:
        """As the client's own: one call of the trace for each time that was asked for."""
        invoked = now()
        answer = self._client.offsets_for_times(timestamps, *args, **more)
        for query in sorted(set(timestamps.values())):
            found = {p: answer[p] for p, time in timestamps.items() if time == query}
            self._process.note("list_offsets", invoked, query=query, offsets=offsets_of(found))
        return answer

    def _listed(
        self, query: str, call: Callable[..., Any], args: tuple[Any, ...], more: Fields
    ) -> Any:
        invoked = now()
        answer = call(*args, **more)
        listed = {"query": query, "offsets": offsets_of(answer), **self._isolation}
        self._process.note("list_offsets", invoked, **listed)
        return answer

    def close(self, *args: Any, **more: Any) -> None:
        """As the client's own, with the commit that it may bring."""
        invoked = now()
        self._client.close(*args, **more)
        self._ids.leave()
        self._process.end("close", invoked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        # As the client does: what an exception interrupted is not committed.
        self.close(autocommit=raised[0] is None)
