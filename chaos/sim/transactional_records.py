"""Records of transactions, and of their coordinators, in either kind of log."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from refimpl.broker.logs import BrokerLog
from refimpl.records.coordinators import CoordinatorRecord, read_record, records_in
from refimpl.records.transactional import Entry as KeyedEntry
from refimpl.storage.format.control import EndTxnMarker

EVERYTHING = 1 << 24


class Entry(NamedTuple):
    """A record of a producer: a value, or the end of its transaction."""

    producer_id: int
    producer_epoch: int
    value: int
    committed: bool | None = None
    """True for a commit, False for an abort, None for a value."""


def entry_of(record: Any) -> Entry:
    """The entry that a record is, in memory or from a file."""
    value: Any = record.value
    payload = value.payload
    who = value if hasattr(value, "producer_id") else value.batch
    if isinstance(payload, EndTxnMarker):
        return Entry(who.producer_id, who.producer_epoch, -1, payload.committed)
    if isinstance(payload, tuple):  # key and value of a control record
        return Entry(who.producer_id, who.producer_epoch, -1, payload[0][3] == 1)
    return Entry(who.producer_id, who.producer_epoch, payload)


def keyed_entries(log: BrokerLog, end: int, start: int = 0) -> Iterator[tuple[int, KeyedEntry]]:
    """A coordinator's records and the ends of transactions in its log, below `end`.

    A log in files is read segment by segment.
    """
    while start < end:
        entries, start = log.keyed_records(start, log.slice(start, EVERYTHING))
        yield from (one for one in entries if one[0] < end)


def coordinator_record(record: Any, topic: str) -> CoordinatorRecord:
    """The record of a coordinator."""
    payload: Any = getattr(record.value, "payload", record.value)
    if isinstance(payload, CoordinatorRecord):
        return payload
    key, value = payload
    return read_record(records_in(topic), key, value)
