"""Small traces of which a check once said something else when a field, a line or an end was gone.

That is what the law of evidence forbids (test_evidence.py), of which no fixture had an example.
"""

from typing import Any

import pytest

from tests.traces.evidence import Removal
from tests.traces.needs import looked, turned
from tests.traces.small import (
    PARTITION,
    STARTS,
    TID,
    TXN,
    Call,
    aborted_and_sent_again,
    keyed,
    polled,
    record,
    scan,
    sent,
    trace,
)
from traces.checks.catalogue import CHECKS
from traces.model.partitioners import key_hash
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED

MEMBER: dict[str, Any] = {"group": "g", "generation": 1, "member": "c0"}
OTHER: dict[str, Any] = {"transactional_id": "y", "txn": 0}
EARLIEST: dict[str, Any] = {"query": "earliest"}
BATCH: dict[str, Any] = {"replica": 1, "producer_id": 7, "producer_epoch": 0, "transactional": True}
PARTITION_OF_K = key_hash("murmur2", "k") % 2


def committed(process: str, offset: int, **more: Any) -> Call:
    return process, "commit", {"offsets": {PARTITION: offset}, **MEMBER, **more}


def asked(process: str, offset: int, **more: Any) -> Call:
    answer = {"partitions": [PARTITION], "offsets": {PARTITION: offset}}
    return process, "committed", {**answer, "group": "g", **more}


def dumped(offset: int, timestamp: int) -> Call:
    records = [record(offset, offset, timestamp=timestamp, epoch=1)]
    return "broker-1", "dump", {"records": records, "replica": 1}


def log_of_a_replica(end: int) -> dict[str, Any]:
    about = {"offsets": end, "high_watermark": end, "log_start": 0, "leader_epochs": 1}
    return {"replica": 1} | {name: {PARTITION: value} for name, value in about.items()}


def initialised(process: str, epoch: int, **more: Any) -> Call:
    return process, "init_producer", {"producer_id": 7, "producer_epoch": epoch, **TID, **more}


def _offsets_sent(txn: int, offset: int, **more: Any) -> Call:
    mine = TXN | {"txn": txn}
    return "p0#0", "txn_offsets", {"offsets": {PARTITION: offset}, **MEMBER, **mine, **more}


def _with_offsets(txn: int, offset: int, **more: Any) -> list[Call]:
    mine = TXN | {"txn": txn}
    return [
        ("p0#0", "txn_begin", mine),
        _offsets_sent(txn, offset, **more),
        ("p0#0", "txn_commit", mine),
    ]


def _acquired(member: str, id: int, offset: int) -> Call:
    given = record(id, offset, delivery_count=1)
    return member, "acquire", {"records": [given], "group": "s", "member": member}


def _accepted(member: str, id: int = 1, offset: int = 0) -> list[Call]:
    taken = record(id, offset, ack="accept")
    mine = {"group": "s", "member": member}
    return [
        _acquired(member, id, offset),
        (member, "acknowledge", {"records": [taken], **mine}),
    ]


CASES: dict[str, tuple[str, list[Call], str]] = {
    "of the records of a key whose offsets nobody tells one is the last, compacted": (
        "L4",
        [keyed("p0#0", 1, 0, "k"), keyed("p1#0", 2, 1, "k"), STARTS, scan(end=2)],
        "records.offset of send",
    ),
    **{
        f"what a share group left over may be visible to nobody, or to all: {words}": (
            "S4",
            [
                ("p0#0", "txn_begin", TXN),
                sent("p0#0", 1, at, **TXN),
                ("p0#0", "txn_commit", TXN),
                sent("p1#0", 2, 1),
                _acquired("s0#0", 1, at),
                *_accepted("s1#0", 2, 1),
                ("q0#0", "list_offsets", EARLIEST | {"offsets": {PARTITION: 1}}),
                scan(*sorted((record(1, at), record(2, 1)), key=lambda one: one["offset"]), end=4),
            ],
            words,
        )
        for at, words in ((2, "txn of p0#0 2"), (0, "query of q0#0 0"))
    },
    "a scan that found nothing may have been too early for what was acknowledged": (
        "G6",
        [sent("p0#0", 1, 0), committed("c0#0", 1), STARTS, scan(end=1)],
        "meta of complete",
    ),
    "whose file is cut off may have learnt that what was found by its time was deleted": (
        "L16",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            ("q0#0", "list_offsets", {"query": 1_001, "offsets": {PARTITION: 1}}),
            ("q1#0", "list_offsets", {**EARLIEST, "offsets": {PARTITION: 1}}),
            scan(record(2, 1), end=2),
        ],
        "tail of q1#0 0",
    ),
    **{
        f"{id}, whose file is cut off may have read another of the key above, compacted": (
            id,
            [
                keyed("p0#0", 1, 0, "j"),
                keyed("p0#0", 2, 1, "k"),
                keyed("p1#0", 3, None, "k", outcome="info"),
                polled("c0#0", record(3, 5)),
                scan(record(1, 0), end=3),
            ],
            "tail of c0#0 0",
        )
        for id in ("L4", "L18")
    },
    "whose file is cut off may have learnt that the log begins above": (
        "L4",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            STARTS,
            ("q1#0", "list_offsets", {**EARLIEST, "offsets": {PARTITION: 1}}),
            scan(record(2, 1), end=2),
        ],
        "tail of q1#0 0",
    ),
    "of two initialisations at a time nobody knows which came first": (
        "P4",
        [
            initialised("p0#0", 2, invoked_ns=1, returned_ns=90),
            initialised("p1#0", 1, invoked_ns=20, returned_ns=25),
        ],
        "returned_ns of p0#0 0",
    ),
    "a transaction may have begun after the other one had ended": (
        "T8",
        [
            ("p1#0", "txn_begin", TXN),
            ("p1#0", "txn_commit", TXN),
            ("p2#0", "txn_begin", TXN),
            ("p2#0", "txn_commit", TXN),
            ("p0#0", "txn_begin", TXN),
            ("p0#0", "txn_commit", TXN),
        ],
        "returned_ns of p0#0 0",
    ),
    "who initialised itself again is fenced no more": (
        "P3",
        [
            initialised("p0#0", 0),
            initialised("p1#0", 1),
            initialised("p0#0", 2),
            sent("p0#0", 1, 0, **TXN),
            scan(record(1, 0), end=1),
        ],
        "line of p0#0 1",
    ),
    "a send that does not name its transactional id may be one of a fenced producer": (
        "P3",
        [
            initialised("p0#0", 0),
            sent("p0#0", 1, 0, **TXN),
            initialised("p1#0", 1),
            sent("p0#0", 2, 1, **TXN),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "transactional_id of p0#0 2",
    ),
    "what contradicts an acknowledgement may not tell its id": (
        "L2",
        [
            sent("p0#0", 1, 0),
            sent("p1#0", 2, None, outcome="info"),
            polled("c0#0", record(2, 0)),
            scan(record(1, 1), end=2),
        ],
        "records.id of c0#0",
    ),
    "a record that was sent again may be read before the first transaction commits": (
        "T2",
        [
            sent("p1#0", 1, 0),
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 1, **TXN),
            polled("c0#0", record(1, 0)),
            ("p0#0", "txn_commit", TXN),
            scan(record(1, 0), record(1, 1), end=2),
        ],
        "line of p1#0 0",
    ),
    "what was aborted and sent again may be read": (
        "T4",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_abort", TXN),
            ("p0#0", "txn_begin", TXN | {"txn": 1}),
            sent("p0#0", 9, 1, **TXN | {"txn": 1}),
            ("p0#0", "txn_abort", TXN | {"txn": 1}),
            sent("p1#0", 1, 3),
            polled("c0#0", record(1, 3)),
            scan(record(1, 0), record(9, 1), record(1, 3), end=4),
        ],
        "records.id of p1#0",
    ),
    "an application that went back may commit less": (
        "G5",
        [
            sent("p0#0", 1, 0),
            polled("c0#0", record(1, 0), group="g"),
            committed("c0#0", 1),
            ("c0#0", "seek", {"offsets": {PARTITION: 0}}),
            committed("c0#0", 0),
            scan(record(1, 0), end=1),
        ],
        "line of c0#0 2",
    ),
    "between a higher commit and a lower one may be another": (
        "G5",
        [
            committed("c0#0", 9),
            committed("c1#0", 4),
            committed("c0#0", 6),
            scan(end=9),
        ],
        "returned_ns of c1#0",
    ),
    "a reset may have taken a reader back": (
        "C2",
        [
            sent("p0#0", 1, 0),
            polled("c0#0", record(1, 0)),
            ("c0#0", "reset", {"offsets": {PARTITION: 0}, "reason": "out_of_range"}),
            polled("c0#0", record(1, 0)),
            scan(record(1, 0), end=1),
        ],
        "offsets of reset",
    ),
    "who paused at a time that is not told may have read before": (
        "C4",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            polled("c0#0", record(1, 0)),
            ("c0#0", "pause", {"partitions": [PARTITION]}),
            polled("c0#0", record(2, 1)),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "invoked_ns of pause",
    ),
    "who was assigned at a time that is not told may have read before": (
        "C2",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            ("c0#0", "assign", {"partitions": [PARTITION], "offsets": {PARTITION: 0}}),
            polled("c0#0", record(1, 0)),
            polled("c0#0", record(1, 0)),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "invoked_ns of assign",
    ),
    "a send that is gone may not have failed": (
        "L6",
        [
            sent("p0#0", 1, None, outcome="fail"),
            sent("p1#0", 1, 0),
            scan(record(1, 0), end=1),
        ],
        "tail of p1#0 0",
    ),
    "an acknowledgement that is not told may be of the first record of a time": (
        "L16",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            ("c0#0", "list_offsets", {"query": 1, "offsets": {PARTITION: 1}}),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "returned_ns of p0#0 0",
    ),
    "a record may have been read where it was acknowledged, too": (
        "L8",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            polled("c0#0", record(1, 0)),
            polled("c1#0", record(2, 0), record(1, 2)),
            scan(record(2, 1), end=3),
        ],
        "records.id of c0#0",
    ),
    "who was killed may have read a record where it was acknowledged": (
        "L8",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            polled("c0#0", record(1, 0)),
            polled("c1#0", record(2, 0), record(1, 2)),
            scan(record(2, 1), end=3),
        ],
        "tail of c0#0 0",
    ),
    "a record of the time that was asked for may have been read at the answer, too": (
        "L16",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 2),
            polled("c0#0", record(1, 1)),
            polled("c1#0", record(2, 1)),
            ("q0#0", "list_offsets", {"query": 1_002, "offsets": {PARTITION: 1}}),
            scan(record(1, 0), record(2, 2), end=3),
        ],
        "records.id of c1#0",
    ),
    "a query may have been answered with an acknowledged offset that is not told": (
        "L16",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 9),
            polled("c0#0", record(2, 1)),
            ("q0#0", "list_offsets", {"query": 1_002, "offsets": {PARTITION: 9}}),
            scan(record(1, 0), end=10),
        ],
        "records.offset of p0#0 1",
    ),
    "of several initialisations that were over the newest counts, not the last to begin": (
        "P4",
        [
            initialised("p0#0", 5, invoked_ns=1, returned_ns=10),
            initialised("p1#0", 3, invoked_ns=5, returned_ns=12),
            initialised("p2#0", 4, invoked_ns=20, returned_ns=25),
        ],
        "line of p1#0 0",
    ),
    "who was killed may have read the earlier record where it belongs": (
        "P1",
        [
            sent("p0#0", 1, outcome="info"),
            sent("p0#0", 2, 3),
            polled("c0#0", record(1, 0)),
            scan(record(2, 3), record(1, 5), end=6),
        ],
        "tail of c0#0 0",
    ),
    "a record may have been acknowledged elsewhere than it was read": (
        "P1",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 3),
            polled("c0#0", record(1, 5)),
            scan(record(2, 3), end=6),
        ],
        "records.offset of p0#0 0",
    ),
    "of two producers, too, it may": (
        "L9",
        [
            sent("p0#0", 1, 0),
            sent("p1#0", 2, 3),
            polled("c0#0", record(1, 5)),
            scan(record(2, 3), end=6),
        ],
        "records.offset of p0#0 0",
    ),
    "who was killed may have been given what is lost at the end": (
        "L3",
        [
            sent("p0#0", 1, 0),
            sent("p0#0", 2, 1),
            sent("p0#0", 3, 2),
            polled("c0#0", record(2, 1)),
            scan(record(1, 0), record(3, 2), end=3),
        ],
        "tail of c0#0 0",
    ),
    "who tells its epoch and not when it was answered may have fenced another": (
        "P3",
        [
            sent("p0#0", 1, 0, producer_id=7, producer_epoch=1),
            sent("p1#0", 2, 1, producer_id=7, producer_epoch=0),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "returned_ns of p0#0 0",
    ),
    "a record of the time that was asked for may have been sent again": (
        "L16",
        [
            sent("p0#0", 1, 1),
            polled("c0#0", record(1, 1)),
            ("p0#0", "send", {"records": [record(1, 1, timestamp=1_002)]}),
            ("q0#0", "list_offsets", {"query": 1_002, "offsets": {PARTITION: 1}}),
            scan(record(1, 1), end=2),
        ],
        "tail of p0#0 1",
    ),
    "a scan that found nothing may not have been the last": (
        "C3",
        [
            sent("p0#0", 1, 1),
            polled("c1#0", record(1, 1)),
            ("c0#0", "seek", {"offsets": {PARTITION: 1}}),
            polled("c0#0", record(2, 2)),
            scan(end=3),
        ],
        "meta of complete",
    ),
    "who does not tell its epoch may have fenced another": (
        "P3",
        [
            sent("p0#0", 1, 0, producer_id=7, producer_epoch=1),
            sent("p1#0", 2, 1, producer_id=7, producer_epoch=0),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "producer_epoch of p0#0 0",
    ),
    "where nothing is sent in transactions, everybody reads what is committed": (
        "G6",
        [
            committed("c0#0", 4),
            polled("c0#0", record(1, 2), group="g"),
            scan(record(1, 2), end=5),
        ],
        "isolation of c0#0",
    ),
    "where the final scan found nothing, nothing is there": (
        "G6",
        [committed("c0#0", 4), polled("c0#0", record(1, 2), group="g"), scan(end=5)],
        "records.id of c0#0",
    ),
    "what lies nobody knows where may lie below where the final scan begins": (
        "L4",
        [sent("p0#0", 1, 0), sent("p0#0", 2, 1), scan(record(2, 1), end=2)],
        "records.offset of p0#0 0",
    ),
    "a record of a transaction may": (
        "T1",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            sent("p0#0", 2, 1, **TXN),
            ("p0#0", "txn_commit", TXN),
            scan(record(2, 1), end=3),
        ],
        "records.offset of p0#0 1",
    ),
    "a record that was read may be the copy that another transaction aborted": (
        "C1",
        aborted_and_sent_again(at=1, again=None),
        "tail of p0#0 1",
    ),
    "of two copies that of a transaction may be the one that was read": (
        "C1",
        aborted_and_sent_again(at=3, again=1),
        "records.offset of p1#0 0",
    ),
    "and so it may where nobody tells a transactional id": (
        "C1",
        aborted_and_sent_again(at=3, again=1, txn={"txn": 0}),
        "records.offset of p1#0 0",
    ),
    "nor is it known there who asked for committed records only": (
        "T4",
        [
            ("p0#0", "txn_begin", {"txn": 0}),
            sent("p0#0", 1, 0, txn=0),
            ("p0#0", "txn_abort", {"txn": 0}),
            sent("p1#0", 2, 1),
            polled("c0#0", record(1, 0)),
            polled("c1#0", record(2, 1)),
            scan(record(1, 0), record(2, 1), end=2),
        ],
        "isolation of c0#0",
    ),
    "who does not tell which transaction was aborted need not have committed any": (
        "T1",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            sent("p0#0", 2, 1, **TXN),
            ("p0#0", "txn_abort", TXN),
            polled("c0#0", record(1, 0)),
            STARTS,
            scan(record(2, 1), end=2),
        ],
        "txn of txn_abort",
    ),
    "what proves that a transaction was committed may be of another": (
        "T1",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, outcome="info", **TXN),
            sent("p0#0", 2, 1, **TXN),
            ("p0#0", "txn_commit", TXN | {"outcome": "info"}),
            sent("p1#0", 1, 2),
            polled("c0#0", record(1, 2)),
            STARTS,
            scan(record(1, 2), end=3),
        ],
        "tail of p1#0 0",
    ),
    "a seek at a time that is not told may have come after the commit": (
        "G6",
        [
            sent("p0#0", 1, 0),
            committed("c0#0", 1),
            ("c0#0", "seek", {"offsets": {PARTITION: 1}}),
            committed("c0#0", 1),
            scan(record(1, 0), end=1),
        ],
        "invoked_ns of seek",
    ),
    "a seek at a time that is not told may have come before the group's first commit": (
        "G8",
        [
            sent("p0#0", 1, 0),
            committed("c0#0", 1),
            ("c0#0", "seek", {"offsets": {PARTITION: 1}}),
            asked("c0#0", 0),
            scan(record(1, 0), end=1),
        ],
        "invoked_ns of seek",
    ),
    "who asked where its group is may be of the group that it does not name": (
        "G6",
        [
            sent("p0#0", 1, 0),
            asked("c1#0", 1),
            committed("c0#0", 1),
            scan(record(1, 0), end=1),
        ],
        "group of committed",
    ),
    "a seek that is not told may have moved a group to where it commits": (
        "G6",
        [
            sent("p0#0", 1, 0),
            ("c0#0", "seek", {"offsets": {PARTITION: 1}}),
            committed("c0#0", 1),
            scan(record(1, 0), end=1),
        ],
        "offsets of seek",
    ),
    "an assignment, too, may have": (
        "G6",
        [
            sent("p0#0", 1, 0),
            ("c0#0", "assign", {"partitions": [PARTITION], "offsets": {PARTITION: 1}}),
            committed("c0#0", 1),
            scan(record(1, 0), end=1),
        ],
        "offsets of assign",
    ),
    "a record of a dump that does not tell its offset may lie anywhere, stamped": (
        "L17",
        [dumped(0, 1_002), dumped(1, 1_001), scan(end=2)],
        "records.offset of broker-1",
    ),
    "of two records of dumps the later may be the lower, stamped": (
        "L17",
        [dumped(1, 1_001), dumped(0, 1_000), scan(end=2)],
        "records.offset of broker-1 0",
    ),
    "who found nothing may have asked for committed records only": (
        "T7",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_commit", TXN),
            ("p0#0", "txn_begin", TXN | {"txn": 1}),
            sent("p0#0", 2, 1, **TXN | {"txn": 1}),
            ("p0#0", "txn_abort", TXN | {"txn": 1}),
            polled("c0#0", record(1, 0)),
            scan(record(1, 0), end=2),
            ("scan#1", *scan(end=2, isolation="read_committed")[1:]),
        ],
        "isolation of scan#1",
    ),
    "who waits for transactions is a setting of the client, not of a question": (
        "T9",
        [
            committed("c0#0", 1),
            ("p0#0", "txn_begin", TXN),
            ("p0#0", "txn_offsets", {"offsets": {PARTITION: 5}, **MEMBER, **TXN}),
            ("p0#0", "txn_commit", TXN),
            asked("c0#0", 1, isolation="read_uncommitted"),
            scan(end=1),
        ],
        "isolation of committed",
    ),
    "what a share group was given may be of an aborted transaction": (
        "S5",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_abort", TXN),
            ("s0#0", "acquire", {"records": [record(1, 0, delivery_count=1)], "group": "s"}),
            ("s0#0", "acknowledge", {"records": [record(1, 0, ack="accept")], "group": "s"}),
            ("q0#0", "committed", {"offsets": {PARTITION: 0}, "group": "s"}),
            scan(record(1, 0), end=1),
        ],
        "records.id of acquire",
    ),
    "what a replica knew of its own log is no answer to a poll": (
        "C7",
        [
            sent("p0#0", 1, 0),
            polled("c0#0", high_watermark={PARTITION: 1}),
            ("broker-1", "dump", log_of_a_replica(end=0)),
            scan(record(1, 0), end=1),
        ],
        "offsets of dump",
    ),
    "what may have been a tombstone may be gone, compacted": (
        "C1",
        [
            keyed("p0#0", 1, 0, "j"),
            ("p0#0", "send", {"records": [record(2, 1, key="k", tombstone=True)]}),
            keyed("p0#0", 3, 2, "l"),
            polled("c0#0", record(1, 0), record(3, 2)),
            scan(record(1, 0), record(2, 1), record(3, 2), end=3),
        ],
        "records.tombstone of all",
    ),
    **{
        f"a commit that does not name its transaction may have asked for one before, {id}": (
            id,
            [
                ("p0#0", "txn_begin", TXN),
                sent("p0#0", 1, 0, **TXN),
                sent("p1#0", 2, 1),
                ("p0#0", "txn_commit", TXN | {"outcome": "info"}),
                polled("c0#0", record(1, 0), record(2, 1)),
                ("p0#0", "txn_commit", TXN),
                scan(record(1, 0), record(2, 1), end=2),
            ],
            "txn of p0#0 2",
        )
        for id in ("T2", "T3")
    },
    "it may have been carried out, whatever failed after it": (
        "T4",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_commit", TXN),
            ("p0#0", "txn_abort", TXN | {"outcome": "fail"}),
            ("p0#0", "txn_begin", TXN | {"txn": 1}),
            sent("p0#0", 2, 1, **TXN | {"txn": 1}),
            ("p0#0", "txn_abort", TXN | {"txn": 1}),
            polled("c0#0", record(1, 0)),
            scan(record(1, 0), end=2),
        ],
        "txn of p0#0 2",
    ),
    "a record that was acknowledged nobody knows where proves nothing": (
        "T1",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            sent("p0#0", 2, 1, **TXN),
            ("p0#0", "txn_commit", TXN | {"outcome": "info"}),
            ("p1#0", "txn_begin", OTHER),
            sent("p1#0", 3, 2, **OTHER),
            ("p1#0", "txn_commit", OTHER),
            polled("c0#0", record(1, 5)),
            STARTS,
            scan(record(3, 2), record(1, 5), end=6),
        ],
        "records.offset of p0#0 1",
    ),
    **{
        f"a commit that nobody answered may explain an answer, of {words}": (
            "G7",
            [
                committed("c0#0", 1),
                committed("c0#0", 3, outcome="info"),
                asked("c0#0", 3),
                scan(end=4),
            ],
            f"{words} of c0#0 1",
        )
        for words in ("offsets", "group")
    },
    **{
        f"{id}, so may offsets of a transaction": (
            id,
            [
                committed("c0#0", 1),
                *_with_offsets(0, 2),
                *_with_offsets(1, 3, outcome="info"),
                asked("c0#0", 3),
                scan(end=4),
            ],
            "group of p0#0 4",
        )
        for id in ("G7", "T9")
    },
    **{
        f"where it may have been taken a new owner may begin, of {words}": (
            "G10",
            [
                *(sent("p0#0", id, id) for id in range(4)),
                committed("c0#0", 1),
                committed("c0#0", 3, outcome="info"),
                polled("c1#0", record(3, 3), group="g"),
                scan(*(record(id, id) for id in range(4)), end=4),
            ],
            f"{words} of c0#0 1",
        )
        for words in ("offsets", "group", "invoked_ns")
    },
    "who sought may not have been answered": (
        "G10",
        [
            *(sent("p0#0", id, id) for id in range(4)),
            committed("c0#0", 1),
            ("c1#0", "seek", {"offsets": {PARTITION: 3}, "outcome": "info"}),
            polled("c1#0", record(3, 3), group="g"),
            polled("c0#0", record(1, 1), group="g"),
            scan(*(record(id, id) for id in range(4)), end=4),
        ],
        "offsets of c1#0 0",
    ),
    "nor need who went back": (
        "G5",
        [
            committed("c0#0", 3),
            ("c0#0", "seek", {"offsets": {PARTITION: 1}, "outcome": "info"}),
            committed("c0#0", 2),
            scan(end=4),
        ],
        "offsets of c0#0 1",
    ),
    "a question that failed says nothing of where a member begins": (
        "G10",
        [
            *(sent("p0#0", id, id) for id in range(4)),
            asked("c1#0", 1),
            asked("c1#0", 3, outcome="fail"),
            polled("c1#0", record(3, 3), group="g"),
            scan(*(record(id, id) for id in range(4)), end=4),
        ],
        "offsets of c1#0 1",
    ),
    "the first question tells where a group began, whoever asked": (
        "G8",
        [
            *(sent("p0#0", id, id) for id in range(4)),
            asked("c0#0", 2),
            asked("c0#0", 0),
            polled("c0#0", record(2, 2), group="g"),
            ("c0#0", "process", {"records": [record(2, 2)], "group": "g"}),
            committed("c0#0", 3),
            scan(*(record(id, id) for id in range(4)), end=4),
        ],
        "group of c0#0 0",
    ),
    "who was assigned in a group that is not told may have sought for it": (
        "G6",
        [
            sent("p0#0", 1, 0),
            ("c1#0", "seek", {"offsets": {PARTITION: 1}}),
            ("c1#0", "assigned", {"partitions": [PARTITION], **MEMBER}),
            committed("c0#0", 1),
            scan(record(1, 0), end=1),
        ],
        "group of assigned",
    ),
    "whose file is cut off may have been given what another member commits": (
        "G6",
        [
            sent("p0#0", 1, 0),
            ("c0#0", "assigned", {"partitions": [PARTITION], **MEMBER}),
            polled("c0#0", record(1, 0), group="g"),
            asked("c1#0", 0),
            committed("c1#0", 1),
            scan(record(1, 0), end=1),
        ],
        "tail of c0#0 0",
    ),
    "the start of a share group may have been set back, though nobody answered": (
        "S2",
        [
            sent("p0#0", 1, 0),
            *_accepted("s0#0"),
            ("q0#0", "commit", {"offsets": {PARTITION: 0}, "group": "s", "outcome": "info"}),
            *_accepted("s1#0"),
            scan(record(1, 0), end=1),
        ],
        "offsets of q0#0 0",
    ),
} | {
    f"what is read above another record of its key may have replaced it, compacted, {words}": (
        "C3",
        [
            keyed("p0#0", 2, 2, "k"),
            keyed("p1#0", 1, 1, "k"),
            polled("c0#0", record(1, 3)),
            ("c1#0", "seek", {"offsets": {PARTITION: 0}}),
            polled("c1#0", record(4, 4)),
            scan(record(2, 2), end=5),
        ],
        words,
    )
    for words in ("records.id of c0#0", "tail of c0#0 0")
}


UNASKED: dict[str, tuple[str, list[Call], str]] = {
    **{
        f"what was answered before a transaction was sent is not its doing, {outcome}": (
            "T9",
            [
                asked("c0#0", 0),
                asked("c0#0", 1),
                ("p0#0", "txn_begin", TXN),
                _offsets_sent(0, 1, outcome=outcome),
                ("p0#0", "txn_abort", TXN),
                asked("c0#0", 0),
                scan(end=4),
            ],
            "invoked_ns of p0#0 1",
        )
        for outcome in ("ok", "info")
    },
    **{
        f"where a log starts at the end it may not have started, {op}, {words}": (
            "C6",
            [
                *(sent("p0#0", id, id) for id in range(3)),
                polled("c0#0", record(0, 0), record(1, 1), group="g", log_start={PARTITION: 0}),
                polled("c1#0", record(2, 2), group="g", log_start={PARTITION: start}),
                ("q0#0", op, {"offsets": {PARTITION: 3}, **more}),
                ("c0#0", "reset", {"offsets": {PARTITION: 3}, "reason": "out_of_range"}),
                scan(*(record(id, id) for id in range(3)), end=3),
            ],
            words,
        )
        for start, op, more, words in (
            (3, "seek", {}, "log_start of all"),
            (3, "seek", {}, "log_start of c1#0"),
            (0, "delete_records", {}, "offsets of q0#0"),
            (0, "list_offsets", EARLIEST, "offsets of q0#0"),
            (0, "list_offsets", EARLIEST, "query of q0#0"),
        )
    },
    **{
        f"who committed and was not answered may have aborted, without {words}": (
            "T1",
            [
                ("p0#0", "txn_begin", TXN),
                sent("p0#0", 1, 0, **TXN),
                sent("p0#0", 2, 1, **TXN),
                ("p0#0", "txn_commit", TXN | {"outcome": "info"}),
                ("p0#0", "txn_abort", TXN),
                ("p1#0", "txn_begin", OTHER),
                sent("p1#0", 3, 2, **OTHER),
                ("p1#0", "txn_commit", OTHER),
                polled("c0#0", record(1, 0)),
                STARTS,
                scan(record(1, 0), record(3, 2), end=4),
            ],
            words,
        )
        for words in ("line of p0#0 4", "tail of p0#0 4", "txn of p0#0 4")
    },
    "a record of a dump that does not tell its id may be another than was acknowledged": (
        "T7",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_commit", TXN),
            scan(record(1, 0), end=2),
            ("broker-1", "dump", {"records": [record(2, 0, sequence=0)], **BATCH}),
            ("broker-1", "dump", {"records": [record(3, 1)], **BATCH, "control": "abort"}),
            ("broker-1", "dump", log_of_a_replica(2)),
        ],
        "records.id of broker-1 0",
    ),
    "a record of a dump that does not tell its producer met no marker": (
        "T7",
        [
            ("p0#0", "txn_begin", TXN),
            sent("p0#0", 1, 0, **TXN),
            ("p0#0", "txn_commit", TXN),
            scan(record(1, 0), end=2),
            ("scan#1", *scan(record(1, 0), end=2, isolation="read_committed")[1:]),
            ("broker-1", "dump", {"records": [record(1, 0, sequence=0)], **BATCH}),
            ("broker-1", "dump", {"records": [record(1, 1)], **BATCH, "control": "abort"}),
            ("broker-1", "dump", log_of_a_replica(2)),
        ],
        "producer_id of broker-1 0",
    ),
}


WEAK: dict[str, tuple[str, list[Call], str]] = {
    f"whose record gave way may have been promised less, without {words}": (
        "L1",
        [
            sent("p0#0", 1, 0),
            polled("c0#0", record(1, 0)),
            sent("p1#0", 2, 0),
            scan(record(2, 0), end=1),
        ],
        words,
    )
    for words in ("records.offset of p0#0 0", "line of p0#0 0")
} | {
    "a group need not process what gave way to another record, as a scan shows": (
        "G8",
        [
            polled("c0#0", record(4, 0), **MEMBER),
            sent("p0#0", 1, 0),
            ("c1#0", "process", {"records": [record(1, 0)], "group": "g"}),
            committed("c1#0", 1),
            scan(record(1, 0), end=1),
        ],
        "meta of complete",
    ),
    "where a log started that began above a record, that may have been removed": (
        "L1",
        [
            sent("p0#0", 1, 0),
            sent("p1#0", 2, outcome="info"),
            polled("c0#0", record(2, 0)),
            ("q0#0", "list_offsets", EARLIEST | {"offsets": {PARTITION: 1}}),
            scan(record(1, 0), end=1),
        ],
        "query of q0#0 0",
    ),
    "what replaced a record may have been read above it, compacted": (
        "L4",
        [
            keyed("p0#0", 1, 0, "k"),
            keyed("p1#0", 3, 1, "k"),
            polled("c0#0", record(1, 2), outcome="fail"),
            scan(record(1, 0), end=4),
        ],
        "records.partition of poll",
    ),
    "what a reader passed over may have been replaced, if the topic is compacted": (
        "C1",
        [
            keyed("p0#0", 1, 0, "j"),
            keyed("p0#0", 2, 1, "k"),
            keyed("p0#0", 3, 2, "k"),
            scan(record(1, 0), record(2, 1), record(3, 2), end=3),
            ("scan#1", *scan(record(1, 0), record(3, 2), end=3)[1:]),
        ],
        "meta of topics/t/cleanup_policy",
    ),
    "a transaction's record, too, may have been replaced by what was read, compacted": (
        "T1",
        [
            ("p0#0", "txn_begin", TXN),
            keyed("p0#0", 1, 1, "k", **TXN),
            ("p0#0", "txn_commit", TXN),
            keyed("p1#0", 2, 0, "k"),
            polled("c0#0", record(2, 4)),
            STARTS,
            scan(record(2, 0), end=5),
        ],
        "records of poll",
    ),
    "whose file is cut off may have committed more": (
        "G10",
        [
            *(sent("p0#0", id, id) for id in range(4)),
            polled("c0#0", *(record(id, id) for id in range(3)), group="g"),
            committed("c0#0", 2),
            committed("c0#0", 3),
            polled("c1#0", record(3, 3), group="g"),
            scan(*(record(id, id) for id in range(4)), end=4),
        ],
        "tail of c0#0 2",
    ),
    "what lies at an offset that nobody tells may have been replaced, compacted": (
        "L4",
        [
            keyed("p0#0", 1, 0, "k"),
            keyed("p1#0", 2, 1, "k"),
            scan(record(1, 0), end=2),
        ],
        "records.offset of send",
    ),
    "of several records at one offset any two may be the breach, compacted": (
        "L1",
        [
            sent("p0#0", 1, 0),
            polled("c0#0", record(2, 0)),
            sent("p1#0", 2, outcome="fail"),
            sent("p1#0", 3, outcome="info"),
            scan(record(3, 0), end=1),
        ],
        "records.partition of send",
    ),
}


@pytest.mark.parametrize("case", [*CASES, *UNASKED, *WEAK])
def test_less_evidence_turned_no_verdict(case: str) -> None:
    id, calls, words = (CASES | UNASKED | WEAK)[case]
    whole = trace(*calls, **({"acks": "1"} if case in WEAK else {}))
    if "compacted" in case:
        whole[1]["topics"]["t"]["cleanup_policy"] = "compact"
    if "stamped" in case:
        whole[1]["topics"]["t"]["message_timestamp_type"] = "LogAppendTime"
    for mine in whole[0].values():
        for line in mine:
            for one in line.get("records", ()) if line["op"] == "send" else ():
                one.setdefault("timestamp", 1_000 + one["id"])
    before, after = looked(whole), looked(Removal.parse(words)(whole))
    assert not turned(before.verdict(CHECKS[id]), after.verdict(CHECKS[id]))


def test_what_is_undecided_for_want_of_reads_says_which() -> None:
    id, calls, words = CASES["who was killed may have been given what is lost at the end"]
    reason = looked(Removal.parse(words)(trace(*calls))).verdict(CHECKS[id]).reason
    assert reason.startswith("1 found, and the file of c0#0 is cut off; whether that is allowed")


def test_who_does_not_tell_its_partitioner_leaves_the_promise_of_a_key_open() -> None:
    lines, meta = trace(keyed("p0#0", 1, 0, "k"), keyed("p1#0", 2, 0, "k"), scan(end=0))
    meta["topics"]["t"]["partitions"] = 2
    meta["producers"] = {"p0": {"partitioner": "own"}, "p1": {"partitioner": "murmur2"}}
    for line in (lines["p0#0"][0], lines["p1#0"][0]):
        line["records"][0] |= {"partition": PARTITION_OF_K, "chosen": False}
    assert looked((lines, meta)).verdict(CHECKS["P6"]).verdict == HOLDS
    del meta["producers"]["p0"]["partitioner"]
    assert looked((lines, meta)).verdict(CHECKS["P6"]).verdict == NOT_CHECKED


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [([], NOT_CHECKED), ([STARTS], NOT_CHECKED), ([("scan#1", *STARTS[1:])], VIOLATED)],
)
def test_what_the_second_final_scan_lacks_at_its_head_may_have_been_deleted(
    asked: list[Call], verdict: str
) -> None:
    calls = [
        ("p0#0", "txn_begin", TXN),
        sent("p0#0", 1, 0, **TXN),
        ("p0#0", "txn_commit", TXN),
        sent("p1#0", 2, 1),
        scan(record(1, 0), record(2, 1), end=3),
        *asked,
        ("scan#1", *scan(record(2, 1), end=3, isolation="read_committed")[1:]),
    ]
    assert looked(trace(*calls)).verdict(CHECKS["T7"]).verdict == verdict


@pytest.mark.parametrize(("sent_to", "verdict"), [(3, NOT_CHECKED), (1, VIOLATED)])
def test_a_log_start_reported_after_a_reset_is_not_that_of_the_broker_that_answered_it(
    sent_to: int, verdict: str
) -> None:
    known: dict[str, Any] = {"group": "g", "log_start": {PARTITION: 0}}
    calls = [
        *(sent("p0#0", id, id) for id in range(3)),
        polled("c0#0", record(0, 0), record(1, 1), **known),
        polled("c1#0", record(2, 2), **known),
        ("c0#0", "reset", {"offsets": {PARTITION: sent_to}, "reason": "out_of_range"}),
        STARTS,
        scan(*(record(id, id) for id in range(3)), end=3),
    ]
    assert looked(trace(*calls)).verdict(CHECKS["C6"]).verdict == verdict


@pytest.mark.parametrize(
    ("asked", "found", "verdict"),
    [
        ([("c0#0", "list_offsets", {**EARLIEST, "offsets": {PARTITION: 1}})], [2], HOLDS),
        ([("c0#0", "list_offsets", {**EARLIEST, "offsets": {PARTITION: 1}})], [3, 2], VIOLATED),
        ([("c0#0", "list_offsets", {**EARLIEST, "offsets": {PARTITION: 0}})], [2], NOT_CHECKED),
        ([STARTS], [2], VIOLATED),
        ([], [2], NOT_CHECKED),
    ],
    ids=["told above", "told above, and read below", "told earlier", "told to the reader", "not"],
)
@pytest.mark.parametrize("id", ["L3", "L4"])
def test_a_head_was_deleted_only_below_what_the_final_scan_begins_with(
    id: str, asked: list[Call], found: list[int], verdict: str
) -> None:
    """And that nothing was deleted below, only who made that scan can have asked."""
    there = [record(n, 0 if n == 3 else 1) for n in found]
    calls = [sent("p0#0", 1, 0), sent("p1#0", 2, 1), sent("p1#0", 3, outcome="info")]
    assert looked(trace(*calls, *asked, scan(*there, end=2))).verdict(CHECKS[id]).verdict == verdict


@pytest.mark.parametrize(
    ("isolations", "verdict"),
    [
        (["read_uncommitted"], ALLOWED),
        (["read_uncommitted", "read_committed"], VIOLATED),  # once it was said to be allowed
        (["read_committed", "read_uncommitted"], VIOLATED),
    ],
)
def test_of_several_reads_of_its_own_record_the_one_counts_that_is_least_allowed(
    isolations: list[str], verdict: str
) -> None:
    calls: list[Call] = [("p0#0", "txn_begin", TXN), sent("p0#0", 1, 0, **TXN)]
    calls += [polled("p0#0", record(1, 0), isolation=one, txn=0) for one in isolations]
    calls += [("p0#0", "txn_commit", TXN), STARTS, scan(record(1, 0), end=2)]
    assert looked(trace(*calls)).verdict(CHECKS["T5"]).verdict == verdict


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        ("k", NOT_CHECKED),  # that copy may lie above, and the one that is read be of the other key
        ("j", VIOLATED),  # it has nothing to do with the key
    ],
)
@pytest.mark.parametrize("id", ["L4", "L18"])
def test_a_record_that_was_sent_twice_may_have_replaced_another_where_nobody_reads_it(
    id: str, again: str, verdict: str
) -> None:
    calls = [keyed("p0#0", 1, 0, "j"), keyed("p0#0", 2, 1, "k"), keyed("p0#0", 3, 2, "l")]
    calls.append(keyed("p1#0", 1, None, again, outcome="info"))
    lines, meta = trace(*calls, STARTS, scan(record(1, 0), record(3, 2), end=3))
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": 0}
    assert looked((lines, meta)).verdict(CHECKS[id]).verdict == verdict


@pytest.mark.parametrize(("idempotence", "verdict"), [(True, VIOLATED), (False, NOT_CHECKED)])
@pytest.mark.parametrize("id", ["L4", "L18"])
def test_a_tombstone_that_may_have_been_stored_twice_may_have_deleted_its_key(
    id: str, idempotence: bool, verdict: str
) -> None:
    dead = ("p0#0", "send", {"records": [record(1, 0, key="k", tombstone=True)]})
    calls = [dead, keyed("p0#0", 2, 1, "k"), keyed("p0#0", 3, 2, "j"), STARTS]
    lines, meta = trace(*calls, scan(record(3, 2), end=3), idempotence=idempotence)
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": 0}
    assert looked((lines, meta)).verdict(CHECKS[id]).verdict == verdict


@pytest.mark.parametrize(
    ("retention_ms", "verdict"), [(10**9, VIOLATED), (0, HOLDS), (None, NOT_CHECKED)]
)
@pytest.mark.parametrize("id", ["L3", "L4", "T1", "T7", "P2"])
def test_at_which_age_a_tombstone_goes_has_to_be_told(
    id: str, retention_ms: int | None, verdict: str
) -> None:
    dead = record(1, 0, key="k", tombstone=True)
    ids: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    calls = [
        ("p0#0", "txn_begin", TXN),
        ("p0#0", "send", {"records": [dead], **TXN, **ids}),
        ("p0#0", "send", {"records": [record(2, 1, key="j", tombstone=False)], **TXN, **ids}),
        ("p0#0", "txn_commit", TXN),
        STARTS,
        scan(*([dead] if id == "T7" else []), record(2, 1), end=3),
        ("scan#1", *scan(record(2, 1), end=3, isolation="read_committed")[1:]),
    ]
    if id == "T7":
        calls.insert(-1, ("scan#1", *STARTS[1:]))
    lines, meta = trace(*calls)
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": retention_ms}
    assert looked((lines, meta)).verdict(CHECKS[id]).verdict == verdict


@pytest.mark.parametrize("id", ["G1", "G4"])
@pytest.mark.parametrize(
    ("protocol", "verdict"), [("classic", ALLOWED), ("consumer", NOT_CHECKED), (None, NOT_CHECKED)]
)
def test_nobody_has_to_permit_what_may_not_have_happened(
    id: str, protocol: str | None, verdict: str
) -> None:
    """Two owners in one generation: under KIP-848, that is none of the group's."""
    calls = [
        ("c0#0", "assigned", {"partitions": [PARTITION], **MEMBER}),
        ("c1#0", "assigned", {"partitions": [PARTITION], **MEMBER, "member": "c1"}),
        ("c1#0", "assigned", {"partitions": [PARTITION], **MEMBER, "generation": 2}),
        committed("c0#0", 0),
        scan(end=0),
    ]
    lines, meta = trace(*calls)
    meta["internal_topics"] = {"__consumer_offsets": {"unclean_leader_election": True}}
    for settings in meta["consumers"].values():
        settings["group_protocol"] = protocol
    assert looked((lines, meta)).verdict(CHECKS[id]).verdict == verdict


@pytest.mark.parametrize(("asked", "verdict"), [([], NOT_CHECKED), ([STARTS], VIOLATED)])
def test_what_a_query_by_time_did_not_find_may_have_been_deleted(
    asked: list[Call], verdict: str
) -> None:
    lines, meta = trace(
        ("p0#0", "send", {"records": [record(1, 0, timestamp=1_001)]}),
        ("p0#0", "send", {"records": [record(2, 1, timestamp=1_002)]}),
        ("q0#0", "list_offsets", {"query": 1_001, "offsets": {PARTITION: 1}}),
        *asked,
        scan(record(2, 1), end=2),
    )
    assert looked((lines, meta)).verdict(CHECKS["L16"]).verdict == verdict


# Each passes over offset 1.
PASSED_OVER: dict[str, list[Call]] = {
    "C1": [polled("c0#0", record(2, 0)), polled("c0#0", record(3, 2))],
    "C3": [("c0#0", "seek", {"offsets": {PARTITION: 1}}), polled("c0#0", record(3, 2))],
    "C5": [
        polled("c0#0", record(2, 0), replica=1, high_watermark={PARTITION: 3}),
        polled("c0#0", record(3, 2), replica=2, high_watermark={PARTITION: 3}),
    ],
    "G6": [polled("c0#0", record(2, 0), **MEMBER), committed("c0#0", 2)],
    "G8": [
        polled("c0#0", record(2, 0), **MEMBER),
        ("c0#0", "process", {"records": [record(2, 0)], "group": "g"}),
        committed("c0#0", 2),
    ],
    "G10": [committed("c1#0", 1), polled("c0#0", record(3, 2), **MEMBER)],
    "S4": [*_accepted("s0#0", 2, 0), *_accepted("s1#0", 3, 2)],
}


@pytest.mark.parametrize("id", PASSED_OVER)
def test_what_nobody_sent_may_have_been_aborted_where_its_reader_does_not_tell_its_isolation(
    id: str,
) -> None:
    calls = [sent("p0#0", 2, 0), sent("p0#0", 3, 2), *PASSED_OVER[id], STARTS]
    there = record(2, 0), record(9, 1), record(3, 2)
    aborted, read = (
        trace(*calls, scan(*there, end=3, isolation=isolation))
        for isolation in ("read_uncommitted", "read_committed")
    )
    silent = Removal.parse("isolation of scan")(aborted)
    said = [looked(one).verdict(CHECKS[id]).verdict for one in (aborted, silent, read)]
    assert said == [HOLDS, NOT_CHECKED, ALLOWED if id == "S4" else VIOLATED]


@pytest.mark.parametrize("id", sorted(set(PASSED_OVER) - {"S4"}))
def test_what_is_there_at_last_may_have_been_below_the_start_that_somebody_was_told(
    id: str,
) -> None:
    """Another leader may have been ahead with its retention when it was passed over."""
    calls = [sent("p0#0", 2, 0), sent("p0#0", 9, 1), sent("p0#0", 3, 2), *PASSED_OVER[id], STARTS]
    asked = "c9#0", "list_offsets", {"query": "earliest", "offsets": {PARTITION: 2}}
    there = scan(record(2, 0), record(9, 1), record(3, 2), end=3)
    said = [
        looked(trace(*calls, *before, there)).verdict(CHECKS[id]).verdict
        for before in ([asked], [])
    ]
    assert said == [NOT_CHECKED, VIOLATED]


def test_what_was_deleted_with_the_head_of_a_log_was_not_moved_though_a_copy_is_left() -> None:
    whole = trace(
        *(keyed("p0#0", 1, offset, "k") for offset in (0, 1)),
        ("c0#0", "list_offsets", {"query": "earliest", "offsets": {PARTITION: 1}}),
        scan(record(1, 1), end=2),
    )
    whole[1]["topics"]["t"] |= {"cleanup_policy": "compact", "min_compaction_lag_ms": 0}
    less = Removal.parse("tail of c0#0 0")(whole)
    said = [looked(one).verdict(CHECKS["L19"]).verdict for one in (whole, less)]
    assert said == [HOLDS, NOT_CHECKED]


def test_a_group_need_not_process_what_gave_way_to_what_its_other_member_was_given() -> None:
    calls = [
        polled("c0#0", record(4, 0), **MEMBER),
        sent("p0#0", 1, 0),
        polled("c1#0", record(1, 0), **MEMBER),
        ("c1#0", "process", {"records": [record(1, 0)], "group": "g"}),
        committed("c1#0", 1),
    ]
    lines, meta = trace(*calls, acks="1")
    del meta["complete"]
    assert looked((lines, meta)).verdict(CHECKS["G8"]).verdict == NOT_CHECKED
    complete = trace(*calls, scan(record(1, 0), end=1), acks="1")
    assert looked(complete).verdict(CHECKS["G8"]).verdict == HOLDS
