"""A producer of confluent-kafka, recorded."""

from array import array
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Self

from traces.record.confluent_ids import asking
from traces.record.confluent_words import error_of, member, offsets_of
from traces.record.entries import REPORT_FIELDS, REPORTED, REPORTS
from traces.record.ids import HEADER
from traces.record.process import now
from traces.record.sends import RecordedProducer
from traces.record.topic_ids import TopicIds
from traces.record.wrapper import ClientOptions, Conf, Fields

#: So many numbers of reports are kept, if the application never lets them be written.
MOST_REPORTS = 256 * REPORT_FIELDS


class ConfluentProducer(RecordedProducer):
    """A producer of confluent-kafka. Its reports come from inside `poll` and `flush`, in bursts."""

    def __init__(self, client: Any, options: ClientOptions, conf: Conf) -> None:
        super().__init__(client, options)
        self._ids = TopicIds(options.process, asking(conf))
        self._reported: Any = conf.get("on_delivery", conf.get("dr_cb"))
        self._identity: Fields = {}
        self._hand_over: Callable[..., Any] = client.produce
        self._reports: list[int] = []
        self._failed: dict[int, tuple[Any, Any, Any]] = {}
        self._report = self._delivery()
        self._reporting = Lock()
        options.process.before_end = self._write_reports

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Any = None,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As the client's own; recorded from the call to its delivery report.

        Most messages are of one kind, and for those `_begin` is spelt out here: what is done for
        every message is most of what recording costs.
        """
        context = self._contexts.get(topic)
        if context is None or self._closer or partition >= 0 or headers is not None:
            seq, headers = self._begin(topic, value, key, headers, partition)
        elif key is None or type(key) is bytes:
            invoked, seq = now(), self._next_seq()
            id = self._first_id + seq
            headers = [(HEADER, id.to_bytes(8, "big"))]
            self._append_send(context, seq, id, key, invoked)
        else:
            seq, headers = self._begin(topic, value, key, headers, partition)
        report = partial(self._report, seq, on_delivery or callback or self._reported)
        try:
            self._hand_over(topic, value, key, partition, report, None, timestamp, headers)
        except Exception as refusal:  # nothing was put into the client's queue
            self._process.answer(seq, "fail", error=error_of(refusal)[1])
            raise

    def produce_batch(self, topic: str, messages: Any, *rest: Any, **more: Any) -> Any:
        """Not recorded by message: the client takes no headers and no report for each."""
        raise NotImplementedError(
            "produce_batch cannot be recorded message by message: call produce for each"
        )

    def _delivery(self) -> Callable[..., None]:
        """The callback for the report of a send.

        A fatal error is pending in the interpreter while its library reports what failed with it.
        Until that is raised no attribute can be looked up and nothing can be called.
        """
        reports, failed = self._reports, self._failed

        def delivered(seq: int, user: Any, error: Any, message: Any) -> None:
            if error is not None:
                failed[seq] = user, error, message
                return
            if (offset := message.offset()) is None:
                self._stored(seq, message.partition(), None, None)
            else:
                reports.extend((seq, message.partition(), offset, message.timestamp()[1]))
                if len(reports) >= MOST_REPORTS:
                    self._write_reports()
            if user is not None:
                user(error, message)

        return delivered

    @contextmanager
    def _serving(self) -> Generator[None]:
        """The client calls back in here; a fatal error is raised as the library's own."""
        try:
            yield
        except SystemError as broken:
            raise broken.__cause__ or broken from None
        finally:
            self._write_reports()
            for seq, (user, error, message) in [*self._failed.items()]:
                del self._failed[seq]
                self._not_stored(seq, *error_of(error), message.partition())
                if user is not None:
                    user(error, message)

    def _write_reports(self) -> None:
        """Write what was acknowledged: reports come in bursts, from inside the client's calls."""
        if not self._reports:
            return
        with self._reporting:
            numbers = array("q", self._reports)
            del self._reports[: len(numbers)]
        if numbers:
            head = REPORTS.pack(now())
            self._process.journal.append(head + numbers.tobytes(), REPORTED)

    def poll(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        with self._serving():
            return self._client.poll(*args, **more)

    def flush(self, *args: Any, **more: Any) -> Any:
        """As the client's own."""
        with self._serving():
            return self._client.flush(*args, **more)

    def init_transactions(self, *args: Any, **more: Any) -> None:
        """As the client's own."""
        self._identity = self._named
        self._transact("init_producer", self._client.init_transactions, args, more)

    def begin_transaction(self, *args: Any, **more: Any) -> None:
        """As the client's own; a new transaction of the trace begins."""
        self._txn += 1
        self._inside({**self._identity, "txn": self._txn})
        self._transact("txn_begin", self._client.begin_transaction, args, more)

    def send_offsets_to_transaction(
        self, positions: Any, group_metadata: Any, *args: Any, **more: Any
    ) -> None:
        """As the client's own."""
        fields = {"offsets": offsets_of(positions), **member(group_metadata)}
        send = self._client.send_offsets_to_transaction
        self._transact("txn_offsets", send, (positions, group_metadata, *args), more, fields)

    def commit_transaction(self, *args: Any, **more: Any) -> None:
        """As the client's own; a commit that failed for certain is one that must be aborted."""
        self._transact("txn_commit", self._client.commit_transaction, args, more)

    def abort_transaction(self, *args: Any, **more: Any) -> None:
        """As the client's own."""
        self._transact("txn_abort", self._client.abort_transaction, args, more)

    def _transact(
        self,
        op: str,
        call: Callable[..., Any],
        args: tuple[Any, ...],
        more: Fields,
        fields: Fields | None = None,
    ) -> None:
        inside = {"txn": self._txn} if op != "init_producer" else {}
        seq = self._process.call(op, **self._identity, **inside, **(fields or {}))
        try:
            with self._serving():
                call(*args, **more)
        except Exception as refusal:
            inner = refusal.args[0] if refusal.args else None
            must_abort = getattr(inner, "txn_requires_abort", bool)()
            # The library lets a transaction begin by itself: a refusal of that is a certain one.
            outcome = "fail" if must_abort or op == "txn_begin" else "info"
            self._process.answer(seq, outcome, error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok")
        if op in ("txn_commit", "txn_abort"):
            self._inside({})

    def close(self, *args: Any) -> Any:
        """Flush, as the client's own close does, and end the recording."""
        closing = getattr(self._client, "close", self._client.flush)
        with self._ending(), self._serving():
            closed = closing(*args)
            self._ids.leave()
            return closed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()


class ConfluentSerializingProducer(ConfluentProducer):
    """As a producer; its key comes before its value."""

    def __init__(self, client: Any, options: ClientOptions, conf: Conf) -> None:
        super().__init__(client, options, conf)
        self._hand_over = self._by_name

    def produce(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """As the client's own."""
        super().produce(topic, value, key, partition, None, on_delivery, timestamp, headers)

    def _by_name(self, topic: str, *rest: Any) -> None:
        value, key, partition, report, _, timestamp, headers = rest
        self._client.produce(
            topic,
            key=key,
            value=value,
            partition=partition,
            on_delivery=report,
            timestamp=timestamp,
            headers=headers,
        )
