"""The common part of all producers: every send is written down, and its outcome.

A send is written down before the client is called: from then on the record may be in the log.
"""

from itertools import count
from typing import Any

from traces.record.errors import send_outcome
from traces.record.ids import HEADER, text, with_header
from traces.record.process import now
from traces.record.wrapper import ClientOptions, Fields, RecordedClient


class RecordedProducer(RecordedClient):
    """A producer of any library."""

    def __init__(self, client: Any, options: ClientOptions) -> None:
        super().__init__(client, options)
        configured = options.configured
        self._retries: int | None = configured.get("retries")
        self._acknowledged = configured.get("acks") not in (None, "0")
        transactional: str | None = configured.get("transactional_id")
        self._named: Fields = {"transactional_id": transactional} if transactional else {}
        self._txn: int = -1
        self._of_txn: Fields = {}
        # A topic, and the transaction that its sends now belong to, have a number in the journal.
        self._contexts: dict[str, int] = {}
        self._partition_counts: dict[str, int] = {}
        self._context_numbers = count(1)
        # Whether messages need more than the compact form tells, or an id of their own.
        self._closer = options.id_of is not None or options.hashes
        self._append_send = options.process.journal.append_send
        self._next_seq = options.process.next_seq
        self._first_id = options.process.first_id

    def _begin(
        self, topic: str, value: Any, key: Any, headers: Any, partition: int | None
    ) -> tuple[int, Any]:
        """Write a send down; answers its place in the program and the headers to send."""
        self._met(topic)
        invoked, seq = now(), self._next_seq()
        given = headers
        if self._id_of is not None:
            id: Any = self._id(topic, key, value, headers)
        else:
            id = self._first_id + seq
            ours = (HEADER, id.to_bytes(8, "big"))
            headers = [ours] if headers is None else with_header(headers, id)
        raw = key.encode() if type(key) is str else key
        plain = type(id) is int and not self._hashes and (partition is None or partition < 0)
        if plain and (raw is None or type(raw) is bytes):
            context = self._contexts.get(topic) or self._new_context(topic)
            self._append_send(context, seq, id, raw, invoked)
        else:
            hashed = self._hash(value, key, given)
            self._write_as_line(seq, topic, id, key, partition, hashed, invoked)
        return seq, headers

    def _met(self, topic: str) -> None:
        """The client sends to a topic, and can be asked for its id."""
        self._ids.met((topic,))

    def _write_as_line(
        self,
        seq: int,
        topic: str,
        id: Any,
        key: Any,
        partition: int | None,
        hashed: int | None,
        invoked: int,
    ) -> None:
        """For what the compact form has no place for."""
        named: Fields = {"topic": topic, "id": id}
        named |= {} if key is None else {"key": text(key), "chosen": False}
        if partition is not None and partition >= 0:
            named |= {"partition": partition, "chosen": True}
        named |= {} if hashed is None else {"hash": hashed}
        call: Fields = {"seq": seq, "op": "send", "invoked_ns": invoked, "records": [named]}
        self._process.write(call | self._of_txn)

    def _new_context(self, topic: str) -> int:
        number = self._contexts[topic] = next(self._context_numbers)
        self._process.write({"context": number, "topic": topic, "inside": self._of_txn})
        return number

    def _knows_of(self, topic: str, count: int) -> None:
        """Write down how many partitions of a topic the client knows of, where that is new."""
        if count and self._partition_counts.get(topic) != count:
            self._partition_counts[topic] = count
            self._process.note("metadata", partition_counts={topic: count})

    def _inside(self, of_txn: Fields) -> None:
        """From here on, sends belong to this transaction, or to none."""
        self._of_txn = of_txn
        self._contexts = {}

    def _stored(self, seq: int, partition: int, offset: int | None, timestamp: int | None) -> None:
        """The cluster has answered; with acks=0, the client has done what it could."""
        if offset is None or offset < 0:
            outcome = "ok" if self._acknowledged else "info"
            self._process.answer(seq, outcome, at=(partition, None, None))
            return
        stamp = -1 if timestamp is None else timestamp
        self._process.journal.append_report(seq, partition, offset, stamp)

    def _not_stored(
        self, seq: int, code: int | None, error: str, partition: int | None = None
    ) -> None:
        """The client has given it up."""
        at = {} if partition is None else {"at": (partition, None, None)}
        self._process.answer(seq, send_outcome(code, self._retries), error=error, **at)
