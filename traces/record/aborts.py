"""The decisions of transactions, read from their coordinator's log `__transaction_state`.

`kafka-transactions abort` writes the marker of an abort into one partition, past the coordinator,
which may then take the producer's commit. So records of a transaction that was committed are passed
over by those who read what is committed, and the coordinator never decided to abort anything. What
lies at the last stable offset or above has not been passed over: nothing has ended it yet.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from traces.record.contents import lines_of, process_files
from traces.record.coordinator_logs import (
    PATIENCE_S,
    SHORT,
    messages,
    partition_of,
    since_ms,
    string,
)
from traces.record.process import clock_domain
from traces.record.scan import Library

TOPIC = "__transaction_state"
#: Kafka's TransactionState: PrepareAbort, CompleteAbort, and PrepareEpochFence, which aborts, too.
ABORTS = (3, 5, 7)
_STATUS_AT = 16  # behind version, producer id, epoch and time-out

Txn = tuple[str, int]  # process, and number of its transaction


@define
class Ended:
    """The answers to producers, and the records given to readers, of the run's transactions."""

    #: Of each transaction the ids of its acknowledged records, and its transactional id.
    sent: dict[Txn, list[Any]] = field(factory=dict[Txn, list[Any]])
    names: dict[Txn, str] = field(factory=dict[Txn, str])
    committed: set[Txn] = field(factory=set[Txn])
    #: Records of the final scan with their partitions and offsets, and the last stable offsets.
    stored: dict[Any, tuple[str, int]] = field(factory=dict[Any, tuple[str, int]])
    visible: set[Any] = field(factory=set[Any])
    stable: dict[str, int] = field(factory=dict[str, int])
    began_ns: int | None = None

    def torn(self) -> set[str]:
        """Transactional ids that were answered a commit of records which were passed over."""
        hidden = {
            id
            for id, (partition, offset) in self.stored.items()
            if id not in self.visible and offset < self.stable.get(partition, 0)
        }
        sent = ((txn, self.sent.get(txn, [])) for txn in self.committed)
        return {self.names[txn] for txn, ids in sent if not hidden.isdisjoint(ids)}


def ended(run: Path) -> Ended:
    """Read the transactions and the final scans of a run's process files."""
    found = Ended()
    for file in process_files(run):
        for line in lines_of(file, b'"txn"', b'"scan"'):
            _take(found, line)
    return found


def _take(found: Ended, line: Mapping[str, Any]) -> None:
    if line.get("outcome") != "ok":
        return
    records = [record for record in line.get("records", ()) if "id" in record]
    ids = [record["id"] for record in records]
    if line["op"] == "scan":
        if line.get("isolation") == "read_committed":
            found.visible.update(ids)
            found.stable.update(line.get("offsets", {}))
            return
        for one in records:
            found.stored[one["id"]] = f"{one['topic']}:{one['partition']}", one["offset"]
    elif "txn" in line and "transactional_id" in line:
        txn = line["process"], line["txn"]
        found.names[txn] = line["transactional_id"]
        if line["op"] == "send":
            found.sent.setdefault(txn, []).extend(ids)
        elif line["op"] == "txn_commit":
            found.committed.add(txn)
        if line.get("clock") == clock_domain():
            began = line["invoked_ns"]
            found.began_ns = began if found.began_ns is None else min(began, found.began_ns)


def ended_by_others(used: Library, reader: Any, found: Ended) -> list[str]:
    """Transactional ids of which records were aborted, and no coordinator has decided that.

    Raises the library's error, or `TimeoutError`, where the coordinators' log cannot be read.
    """
    torn = found.torn()
    if not torn:
        return []
    count = len(reader.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions)
    decided = _aborted(
        message
        for number in sorted({partition_of(name, count) for name in torn})
        for message in messages(reader, used, TOPIC, number, since_ms(found.began_ns))
    )
    return sorted(torn - set(decided))


def _aborted(log: Iterable[Any]) -> Iterator[str]:
    """The transactional ids of whose transactions a coordinator has aborted one."""
    for message in log:
        key, value = message.key(), message.value()
        if key is None or value is None or SHORT.unpack_from(key)[0] != 0:
            continue
        if value[_STATUS_AT] in ABORTS:
            yield string(key, SHORT.size)[0]
