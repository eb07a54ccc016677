"""A producer of kafka-python, recorded."""

from collections.abc import Callable
from functools import partial
from typing import Any, Self

from traces.record.errors import send_outcome
from traces.record.ids import text, with_header
from traces.record.process import now
from traces.record.python_words import offsets_of, told_error
from traces.record.wrapper import Fields, Recorded, Told


class KafkaPythonProducer(Recorded):
    """A producer of kafka-python."""

    def __init__(self, client: Any, told: Told) -> None:
        super().__init__(client, told)
        self._retries: int | None = told.configured.get("retries")
        self._acknowledged = told.configured.get("acks") != "0"
        transactional: str | None = told.configured.get("transactional_id")
        self._identity: Fields = {"transactional_id": transactional} if transactional else {}
        self._txn = -1
        self._of_txn: Fields = {}

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
        process = self._process
        seq = process.next_seq()
        if self._id_of is None:
            id: Any = process.first_id + seq
            headers = with_header(headers, id)
        else:
            id = self._id_of(topic, key, value, headers)
        record: Fields = {"topic": topic, "id": id}
        if key is not None:
            record["key"] = text(key)
        if partition is not None:
            record["partition"] = partition
        call = {"seq": seq, "op": "send", "invoked_ns": now(), "records": [record]}
        process.write(call | self._of_txn)
        try:
            future = self._client.send(topic, value, key, headers, partition, timestamp_ms)
        except Exception as refusal:  # nothing was put into a batch
            process.answer(seq, "fail", error=told_error(refusal)[1])
            raise
        future.add_callback(partial(self._stored, seq))
        future.add_errback(partial(self._not_stored, seq))
        return future

    def _stored(self, seq: int, metadata: Any) -> None:
        at = metadata.partition, metadata.offset, metadata.timestamp
        known = self._acknowledged or metadata.offset >= 0
        self._process.answer(seq, "ok" if known else "info", at=at)

    def _not_stored(self, seq: int, error: Any) -> None:
        code, name = told_error(error)
        self._process.answer(seq, send_outcome(code, self._retries), error=name)

    def init_transactions(self) -> None:
        """As the client's own; afterwards it knows its id and its epoch."""
        self._transact("init_producer", self._client.init_transactions)

    def begin_transaction(self) -> None:
        """As the client's own; a new transaction of the trace begins."""
        self._txn += 1
        self._of_txn = {**self._identity, "txn": self._txn}
        self._transact("txn_begin", self._client.begin_transaction)

    def send_offsets_to_transaction(self, offsets: Any, group_metadata: Any) -> None:
        """As the client's own; `group_metadata` may be a group's mere name."""
        fields: Fields = {"offsets": offsets_of(offsets), **_member(group_metadata)}
        send = partial(self._client.send_offsets_to_transaction, offsets, group_metadata)
        self._transact("txn_offsets", send, fields)

    def commit_transaction(self) -> None:
        """As the client's own."""
        self._transact("txn_commit", self._client.commit_transaction)
        self._of_txn = {}

    def abort_transaction(self) -> None:
        """As the client's own."""
        self._transact("txn_abort", self._client.abort_transaction)
        self._of_txn = {}

    def _transact(self, op: str, call: Callable[[], None], fields: Fields | None = None) -> None:
        inside = {"txn": self._txn} if op != "init_producer" else {}
        seq = self._process.call(op, **self._identity, **inside, **(fields or {}))
        try:
            call()
        except Exception as refusal:
            outcome = "fail" if op == "txn_begin" or self._must_abort() else "info"
            self._process.answer(seq, outcome, error=told_error(refusal)[1])
            raise
        self._process.answer(seq, "ok", **(self._known_as() if op == "init_producer" else {}))

    def _must_abort(self) -> bool:
        """Whether the client itself holds that its transaction can only be aborted."""
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
