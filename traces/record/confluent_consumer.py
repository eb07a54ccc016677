"""A consumer of confluent-kafka, recorded."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self

from traces.record.confluent_ids import asking
from traces.record.confluent_words import error_of, member, names, offsets_of
from traces.record.errors import commit_outcome
from traces.record.ids import HEADER
from traces.record.polls import Polled
from traces.record.process import now
from traces.record.topic_ids import TopicIds
from traces.record.wrapper import ClientOptions, Conf, Fields, RecordedConsumer


class ConfluentConsumer(RecordedConsumer):
    """A consumer of confluent-kafka."""

    def __init__(self, client: Any, options: ClientOptions, conf: Conf) -> None:
        super().__init__(client, options)
        self._isolation: Fields = (
            {"isolation": options.configured["isolation"]} if options.configured else {}
        )
        self._ids = TopicIds(options.process, asking(conf))
        self._user_on_commit: Any = conf.get("on_commit")
        self._commit_callbacks = False
        self._rebalancing = False
        #: While it closes, the membership from before: librdkafka may never answer then
        self._at_close: Fields | None = None
        self._asked: list[tuple[int, int, dict[str, int] | None]] = []

    def take(self, client: Any, commit_callbacks: bool) -> None:
        """The client itself, once it is made: its callbacks had to be there before it."""
        self._client, self._commit_callbacks = client, commit_callbacks

    def poll(self, *args: Any, **more: Any) -> Any:
        """As the client's own; an empty poll leaves no trace."""
        invoked = now()
        message = self._client.poll(*args, **more)
        if message is not None and message.error() is None:
            self._polled([message], invoked)
        return message

    def consume(self, *args: Any, **more: Any) -> Any:
        """As the client's own; an empty one leaves no trace."""
        invoked = now()
        messages: list[Any] = self._client.consume(*args, **more)
        good = [message for message in messages if message.error() is None]
        if good:
            self._polled(good, invoked)
        return messages

    def polled(self, message: Any) -> Polled:
        topic, key, headers = message.topic(), message.key(), message.headers()
        if self._id_of is None and headers is not None and headers[-1][0] == HEADER:
            id: Any = int.from_bytes(headers[-1][1], "big")
        else:
            id = self._id(topic, key, message.value(), headers)
        position = message.partition(), message.offset()
        return topic, *position, id, key, message.timestamp()[1], message.leader_epoch()

    def content(self, message: Any) -> tuple[Any, Any, Any]:
        return message.value(), message.key(), message.headers()

    def _membership(self) -> Fields:
        """Group, member and generation as the client holds them now."""
        if self._at_close is not None:
            return self._at_close
        try:
            held = member(self._client.consumer_group_metadata())
        except Exception:  # the client has left, or never had a group
            held = {}
        if "group" in held and held["group"] != self._group.get("group"):
            self._group = {"group": held["group"], **self._instance}
        return {**self._group, **held}

    def subscribe(
        self,
        topics: list[str],
        on_assign: Any = None,
        on_revoke: Any = None,
        on_lost: Any = None,
        **more: Any,
    ) -> None:
        """As the client's own; what its rebalances tell is written down on the way."""
        invoked = now()
        self._client.subscribe(
            topics,
            on_assign=partial(self._assigned, on_assign),
            on_revoke=partial(self._taken, "revoked", on_revoke),
            on_lost=partial(self._taken, "lost", on_lost or on_revoke),
            **more,
        )
        self._process.note("subscribe", invoked, topics=list(topics), **self._grouped())
        self._ids.met(topic for topic in topics if not topic.startswith("^"))

    def unsubscribe(self) -> None:
        """As the client's own."""
        invoked = now()
        self._client.unsubscribe()
        self._process.note("subscribe", invoked, topics=[], **self._grouped())

    def _assigned(self, user: Any, _client: Any, partitions: list[Any]) -> None:
        if self._at_close is not None:
            self._at_close = dict(self._group)  # of a generation that nobody can ask for
        self._process.note("assigned", partitions=names(partitions), **self._membership())
        if user is not None:
            self._within_rebalance(user, partitions)

    def _taken(self, op: str, user: Any, _client: Any, partitions: list[Any]) -> None:
        """Written down behind what the application still did with the partitions."""
        invoked, held = now(), self._membership()
        if user is not None:
            self._within_rebalance(user, partitions)
        self._process.note(op, invoked, partitions=names(partitions), **held)

    def _within_rebalance(self, user: Any, partitions: list[Any]) -> None:
        self._rebalancing = True
        try:
            user(self, partitions)
        finally:
            self._rebalancing = False

    def assign(self, partitions: list[Any]) -> None:
        """As the client's own; in answer to a rebalance it can only move positions."""
        self._assign(self._client.assign, partitions)

    def incremental_assign(self, partitions: list[Any]) -> None:
        """As the client's own."""
        self._assign(self._client.incremental_assign, partitions)

    def _assign(self, call: Callable[..., Any], partitions: list[Any]) -> None:
        invoked = now()
        call(partitions)
        offsets = offsets_of(partitions)
        more = {"offsets": offsets} if offsets else {}
        if not self._rebalancing:
            self._process.note("assign", invoked, partitions=names(partitions), **more)
            self._ids.met({p.topic for p in partitions})
        elif offsets:
            self._process.note("seek", invoked, partitions=list(offsets), **more)

    def unassign(self) -> None:
        """As the client's own."""
        invoked = now()
        self._client.unassign()
        if not self._rebalancing:
            self._process.note("assign", invoked, partitions=[])

    def seek(self, partition: Any) -> None:
        """As the client's own."""
        invoked = now()
        self._client.seek(partition)
        at = offsets_of([partition])
        self._process.note("seek", invoked, partitions=names([partition]), offsets=at)

    def commit(self, message: Any = None, offsets: Any = None, asynchronous: bool = True) -> Any:
        """As the client's own; the answer to an asynchronous one comes through `on_commit`."""
        asked: dict[str, int] | None = None
        if message is not None:
            asked = {f"{message.topic()}:{message.partition()}": message.offset() + 1}
        elif offsets is not None:
            asked = offsets_of(offsets)
        given = {"message": message} if message is not None else {}
        given |= {"offsets": offsets} if offsets is not None else {}
        held = self._membership()
        about = {"offsets": asked} if asked is not None else {}
        invoked = now()
        seq = self._process.call("commit", **about, **self._by(), **held)
        if asynchronous and self._commit_callbacks:
            self._asked.append((seq, invoked, asked))
        try:
            answer = self._client.commit(asynchronous=asynchronous, **given)
        except Exception as refusal:
            self._asked = [pending for pending in self._asked if pending[0] != seq]
            self._refused(seq, refusal, invoked)
            raise
        if not asynchronous:
            self._committed(seq, answer, invoked)
        return answer

    def _refused(self, seq: int, refusal: Any, invoked: int) -> None:
        code, name = error_of(refusal)
        # There was nothing to commit, or nobody to commit it: no request was made.
        never_asked = name in ("_NO_OFFSET", "_STATE", "_UNKNOWN_GROUP")
        outcome = "fail" if never_asked else commit_outcome(code, now() - invoked)
        self._process.answer(seq, outcome, error=name)

    def _committed(self, seq: int, partitions: Iterable[Any], invoked: int) -> None:
        """The answer, partition by partition: those that were refused are a call of their own."""
        partitions = list(partitions)
        refused = [p for p in partitions if p.error is not None]
        accepted = [p for p in partitions if p.error is None]
        if refused and not accepted:
            self._refused(seq, refused[0].error, invoked)
            return
        self._process.answer(seq, "ok", offsets=offsets_of(accepted))
        for one in refused:
            again = self._process.call("commit", offsets=offsets_of([one]), **self._grouped())
            self._refused(again, one.error, invoked)

    def on_commit(self, error: Any, partitions: list[Any]) -> None:
        """The client's callback for a commit: an asynchronous one, or one of its own accord."""
        offsets = offsets_of(partitions)
        seq, invoked = self._pending(offsets)
        if seq is None:
            seq = self._process.call("commit", auto=True, offsets=offsets, **self._membership())
        if error is not None:
            self._refused(seq, error, invoked)
        else:
            self._committed(seq, partitions, invoked)
        if self._user_on_commit is not None:
            self._user_on_commit(error, partitions)

    def _pending(self, offsets: dict[str, int]) -> tuple[int | None, int]:
        for pending in self._asked:
            if pending[2] is None or pending[2] == offsets:
                self._asked.remove(pending)
                return pending[0], pending[1]
        return None, now()

    def committed(self, partitions: list[Any], *args: Any, **more: Any) -> Any:
        """As the client's own."""
        held = self._membership()
        seq = self._process.call("committed", partitions=names(partitions), **held)
        try:
            answer = self._client.committed(partitions, *args, **more)
        except Exception as refusal:
            self._process.answer(seq, "info", error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok", offsets=offsets_of(p for p in answer if p.error is None))
        return answer

    def get_watermark_offsets(self, partition: Any, *args: Any, **more: Any) -> Any:
        """As the client's own; a cached answer is no answer of the cluster, and not recorded."""
        invoked = now()
        answer = self._client.get_watermark_offsets(partition, *args, **more)
        if answer is not None and not more.get("cached", False):
            name = names([partition])[0]
            for query, offset in zip(("earliest", "latest"), answer, strict=True):
                listed = {"query": query, "offsets": {name: offset}, **self._isolation}
                self._process.note("list_offsets", invoked, **listed)
        return answer

    def offsets_for_times(self, partitions: list[Any], *args: Any, **more: Any) -> Any:
        """As the client's own: one call of the trace for each time that was asked for."""
        asked = {name: p.offset for name, p in zip(names(partitions), partitions, strict=True)}
        invoked = now()
        answer = self._client.offsets_for_times(partitions, *args, **more)
        for query in sorted(set(asked.values())):
            found = [p for p in answer if asked[names([p])[0]] == query]
            listed = {"query": query, "offsets": offsets_of(found)}
            self._process.note("list_offsets", invoked, **listed)
        return answer

    def close(self) -> None:
        """As the client's own, with the rebalance and the commit that it may bring."""
        with self._ending():
            self._at_close = self._membership()
            try:
                self._client.close()
            finally:
                self._at_close = None
        self._ids.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()
