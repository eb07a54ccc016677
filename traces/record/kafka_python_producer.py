"""A producer of kafka-python, recorded."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from traces.record.process import now
from traces.record.python_words import error_of, offsets_of, topic_ids
from traces.record.sends import RecordedProducer
from traces.record.wrapper import ClientOptions, Fields


class KafkaPythonProducer(RecordedProducer):
    """A producer of kafka-python."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        self._ids = topic_ids(options.process, getattr(client, "_metadata", None))

    def _met(self, topic: str) -> None:
        """Its metadata knows the topic when the first record is stored, and not before."""

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Any:
        """As the client's own; recorded from the call until its future is settled."""
        seq, headers = self._begin(topic, value, key, headers, partition)
        try:
            future = self._client.send(topic, value, key, headers, partition, timestamp_ms)
        except Exception as refusal:  # nothing was put into a batch
            self._process.answer(seq, "fail", error=error_of(refusal)[1])
            raise
        self._knows_of(topic, len(self._partitions_of(topic)))
        future.add_callback(partial(self._on_stored, seq, topic))
        future.add_errback(partial(self._on_error, seq))
        return future

    def _partitions_of(self, topic: str) -> Any:
        metadata = getattr(self._client, "_metadata", None)
        return getattr(metadata, "_partitions", {}).get(topic, ())

    def _on_stored(self, seq: int, topic: str, metadata: Any) -> None:
        self._ids.met((topic,))
        self._stored(seq, metadata.partition, metadata.offset, metadata.timestamp)

    def _on_error(self, seq: int, error: Any) -> None:
        self._not_stored(seq, *error_of(error))

    def init_transactions(self) -> None:
        """As the client's own; afterwards it knows its id and its epoch."""
        self._transact("init_producer", self._client.init_transactions)

    def begin_transaction(self) -> None:
        """As the client's own; a new transaction of the trace begins."""
        self._txn += 1
        self._inside({**self._named, "txn": self._txn})
        self._transact("txn_begin", self._client.begin_transaction)

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """As the client's own; `group_metadata` may be a group's mere name."""
        fields: Fields = {"offsets": offsets_of(offsets), **_member(group_metadata)}
        send = partial(self._client.send_offsets_to_transaction, offsets, group_metadata)
        self._transact("txn_offsets", send, fields)

    def commit_transaction(self) -> None:
        """As the client's own."""
        self._transact("txn_commit", self._client.commit_transaction)
        self._inside({})

    def abort_transaction(self) -> None:
        """As the client's own."""
        self._transact("txn_abort", self._client.abort_transaction)
        self._inside({})

    def _transact(self, op: str, call: Callable[[], None], fields: Fields | None = None) -> None:
        inside = {"txn": self._txn} if op != "init_producer" else {}
        seq = self._process.call(op, **self._named, **inside, **(fields or {}))
        try:
            call()
        except Exception as refusal:
            outcome = "fail" if op == "txn_begin" or self._must_abort() else "info"
            self._process.answer(seq, outcome, error=error_of(refusal)[1])
            raise
        self._process.answer(seq, "ok", **(self._known_as() if op == "init_producer" else {}))

    def _must_abort(self) -> bool:
        """True if the client itself holds that its transaction can only be aborted."""
        manager = getattr(self._client, "_transaction_manager", None)
        return bool(getattr(manager, "has_abortable_error", bool)())

    def _known_as(self) -> Fields:
        manager = getattr(self._client, "_transaction_manager", None)
        known = getattr(manager, "producer_id_and_epoch", None)
        if known is None:
            return {}
        return {"producer_id": known.producer_id, "producer_epoch": known.epoch}

    def close(self, *args: Any, **more: Any) -> None:
        """As the client's own, and the end of the recording."""
        invoked = now()
        self._client.close(*args, **more)
        self._ids.leave()
        self._process.end("close", invoked)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self.close()


def _member(metadata: Any) -> Fields:
    if isinstance(metadata, str):
        return {"group": metadata}
    found = {
        "group": getattr(metadata, "group_id", None),
        "member": getattr(metadata, "member_id", None) or None,
        "generation": getattr(metadata, "generation_id", None),
    }
    return {name: value for name, value in found.items() if value is not None}
