"""Sessions, ends of transactions, offsets, hand-overs, replicas and share groups, call by call."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.traces.fixture import Fixture, Line, fixture, meta, name, write
from tests.traces.judging import judged, judged_lines
from traces.checks.catalogue import CHECKS
from traces.engines import local
from traces.engines.kernel import columns_of
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.run import read_trace
from traces.verdicts.verdict import Verdict

Tell = Callable[[Fixture], None]
Settings = dict[str, Any]
KEPT: Settings = {}
SECOND = 10**9
PARTITION = name(0)
ROOT = {"topic": "t", "partition": 0}


def judge(folder: Path, tell: Tell, id: str, strict: bool = False) -> Verdict:
    w = Fixture(Random(0))
    w.meta = meta() | {"producers": {}, "consumers": {}}
    tell(w)
    w.close(*w.lines)
    one = judged_lines(folder, w.lines, w.meta, strict=strict)
    return {v.check: v for v in one.verdicts}[id]


def events(found: Verdict) -> list[tuple[int, int]]:
    """Line and offset of each event of the one witness."""
    ((_, rows),) = found.witnesses
    return [(row["seq"], row["offset"]) for row in rows]


# Sessions in the log of a replica: (offset, sequence, epoch) of each record.
def dumped(*batches: tuple[int, int, int], **settings: Any) -> Tell:
    def tell(w: Fixture) -> None:
        w.meta["topics"]["t"] |= settings
        for offset, sequence, epoch in batches:
            record = ROOT | {"offset": offset, "sequence": sequence, "epoch": 1}
            batch = {"replica": 1, "producer_id": 7, "producer_epoch": epoch}
            w.call("broker-1", "dump", records=[record], **batch)
        w.call("broker-1", "dump", replica=1, offsets={PARTITION: 99})

    return tell


LAST = 2**31 - 1
SEQUENCES: dict[str, tuple[Tell, str, list[tuple[int, int]]]] = {
    "in step": (dumped((0, 0, 0), (1, 1, 0), (5, 2, 0)), "holds", []),
    "one is missing": (dumped((0, 0, 0), (1, 1, 0), (2, 3, 0)), "violated", [(1, 1), (2, 2)]),
    "a new epoch begins again": (dumped((0, 0, 0), (1, 1, 0), (2, 0, 1)), "holds", []),
    "numbers begin again after the last": (dumped((9, LAST, 0), (10, 0, 0)), "holds", []),
    "one is missing where they begin again": (
        dumped((9, LAST, 0), (10, 1, 0)),
        "violated",
        [(0, 9), (1, 10)],
    ),
    "the head is missing": (dumped((0, 0, 1), (1, 4, 2)), "violated", [(1, 1)]),
    "retention took the head": (dumped((5, 8, 0), (6, 9, 0)), "holds", []),
    "a batch is there twice": (dumped((0, 0, 0), (1, 1, 0), (2, 1, 0)), "holds", []),
    "compaction may have taken it": (
        dumped((0, 0, 0), (1, 3, 0), cleanup_policy="compact"),
        "not checked",
        [],
    ),
    "nobody knows whether it is compacted": (
        dumped((0, 0, 0), (1, 3, 0), cleanup_policy=None),
        "not checked",
        [(0, 0), (1, 1)],
    ),
    "an unclean leader had forgotten the session": (
        dumped((0, 0, 0), (1, 3, 0), unclean_leader_election=True),
        "allowed",
        [(0, 0), (1, 1)],
    ),
}


@pytest.mark.parametrize("case", SEQUENCES)
def test_sequence_numbers_of_a_session_have_no_gap(case: str, tmp_path: Path) -> None:
    tell, expected, witness = SEQUENCES[case]
    found = judge(tmp_path, tell, "P2")
    assert found.verdict == expected, found.reason
    assert (events(found) if found.witnesses else []) == witness


@pytest.mark.parametrize(
    ("marker_type", "dumped", "expected"),
    [
        ("commit", {"id": 1}, "holds"),
        ("abort", {"id": 1}, "violated"),
        ("abort", {"id": 2}, "not checked"),  # it is another record, of another transaction
        ("abort", {}, "not checked"),  # it may be another
    ],
)
def test_a_marker_says_what_the_producer_was_answered(
    marker_type: str, dumped: Line, expected: str, tmp_path: Path
) -> None:
    def tell(w: Fixture) -> None:
        shared = {"transactional_id": "x", "txn": 0}
        w.call("x#0", "txn_begin", **shared)
        w.call("x#0", "send", records=[ROOT | {"offset": 0, "id": 1}], **shared)
        w.call("x#0", "txn_commit", **shared)
        batch = {"replica": 1, "producer_id": 7, "producer_epoch": 0, "transactional": True}
        record = ROOT | {"offset": 0, "sequence": 0, "epoch": 1}
        w.call("broker-1", "dump", records=[record | dumped], **batch)
        marker = ROOT | {"offset": 1, "epoch": 1}
        w.call("broker-1", "dump", records=[marker], control=marker_type, **batch)
        w.call("broker-1", "dump", replica=1, offsets={PARTITION: 2})

    found = judge(tmp_path, tell, "T7")
    assert found.verdict == expected
    shown = marker_type == "abort" and dumped != {"id": 2}
    assert (events(found) if found.witnesses else []) == [(1, 0), (1, 1)][: 2 * shown]


def offsets(*calls: tuple[str, int | None, int, int | None, str], auto: bool = False) -> Tell:
    """Calls of one group: what, its offset, when it was made, when answered (or not), outcome."""

    def tell(w: Fixture) -> None:
        w.meta["consumers"] = {
            "c": {"group": "g", "auto_commit": auto, "commit_order": "process_then_commit"}
        }
        for n, (op, offset, invoked, returned, outcome) in enumerate(calls):
            line = {"invoked_ns": 100 + invoked, "group": "g", "outcome": outcome}
            line |= {"returned_ns": None if returned is None else 100 + returned}
            reported = {} if offset is None else {PARTITION: offset}
            listing = {"partitions": [PARTITION]} if op in ("committed", "assigned") else {}
            about = listing | ({} if op == "committed" else {"generation": 1})
            made = w.call(f"c#{n}", op, offsets=reported, **line, **about)
            if returned is None:
                del made["returned_ns"]

    return tell


FIVE, NINE = ("commit", 5, 1, 2, "ok"), ("commit", 9, 11, 12, "ok")
ANSWERS: dict[str, tuple[Tell, str]] = {
    "the last commit": (offsets(FIVE, NINE, ("committed", 9, 21, 22, "ok")), "holds"),
    "one that was overwritten": (offsets(FIVE, NINE, ("committed", 5, 21, 22, "ok")), "violated"),
    "nothing, after a commit": (offsets(FIVE, ("committed", None, 21, 22, "ok")), "not checked"),
    "nothing, while a member was there": (
        offsets(("assigned", None, 0, 1, "ok"), FIVE, ("committed", None, 21, 22, "ok")),
        "violated",
    ),
    "what nobody wrote": (offsets(FIVE, ("committed", 7, 21, 22, "ok")), "violated"),
    "a commit still on its way": (offsets(FIVE, NINE, ("committed", 9, 11, 12, "ok")), "holds"),
    "the one before that": (offsets(FIVE, NINE, ("committed", 5, 11, 12, "ok")), "holds"),
    "a commit that was made later": (offsets(FIVE, NINE, ("committed", 9, 5, 6, "ok")), "violated"),
    "a commit that nobody answered": (
        offsets(("commit", 9, 0, None, "info"), FIVE, ("committed", 9, 21, 22, "ok")),
        "holds",
    ),
    "a commit that was refused": (
        offsets(FIVE, ("commit", 9, 11, 12, "fail"), ("committed", 9, 21, 22, "ok")),
        "violated",
    ),
    "of two at a time, either": (
        offsets(FIVE, ("commit", 6, 1, 3, "ok"), ("committed", 5, 21, 22, "ok")),
        "holds",
    ),
    "what was there before the trace": (
        offsets(("committed", 3, 0, 1, "ok"), FIVE),
        "not checked",
    ),
    "of a group that commits by itself": (
        offsets(FIVE, ("committed", 7, 21, 22, "ok"), auto=True),
        "not checked",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_committed_offset_is_a_register(case: str, tmp_path: Path) -> None:
    tell, expected = ANSWERS[case]
    found = judge(tmp_path, tell, "G7")
    assert found.verdict == expected
    assert found.broken == (expected == "violated")


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_committed", "violated"), ("read_uncommitted", "allowed"), (None, "not checked")],
)
def test_who_reads_uncommitted_records_does_not_wait_for_offsets(
    isolation: str | None, expected: str, tmp_path: Path
) -> None:
    lines, settings = injected(fixture(3, 15), IN_CALLS["answered_without_what_was_committed"])
    if isolation is None:
        del settings["consumers"]["y0"]["isolation"]
    else:
        settings["consumers"]["y0"]["isolation"] = isolation
    found = {v.check: v for v in judged_lines(tmp_path, lines, settings).verdicts}["T9"]
    assert (found.verdict, found.count) == (expected, 1)


ABORTED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "where it was": (("txn_abort ok",), 5, "holds"),
    "where the transaction would have moved it": (("txn_abort ok",), 9, "violated"),
    "where another may have moved it": (("txn_abort ok", "txn_commit info"), 9, "holds"),
    "where nobody asked to move it": ((), 9, "violated"),
}


@pytest.mark.parametrize("case", ABORTED)
def test_an_aborted_transaction_leaves_the_group_where_it_was(case: str, tmp_path: Path) -> None:
    ends, answer, expected = ABORTED[case]

    def tell(w: Fixture) -> None:
        settings = {"group": "g", "auto_commit": False, "commit_order": "process_then_commit"}
        w.meta["consumers"] = {"c": settings | {"isolation": "read_committed"}}
        w.call("c#0", "commit", offsets={PARTITION: 5}, group="g", generation=1)
        for txn, end in enumerate(ends or ("",)):
            shared = {"transactional_id": "x", "txn": txn}
            w.call("x#0", "txn_begin", **shared)
            w.call("x#0", "txn_offsets", group="g", offsets={PARTITION: 9}, **shared)
            if end:
                op, outcome = end.split()
                w.call("x#0", op, outcome=outcome, **shared)
        w.call("c#0", "committed", partitions=[PARTITION], offsets={PARTITION: answer}, group="g")

    found = judge(tmp_path, tell, "T9")
    assert found.verdict == expected
    assert (events(found) if found.witnesses else []) == [(1, 9), (1, 9)][: 2 * found.count]


def share(
    *calls: tuple[str, str, int, str],
    at: tuple[float, ...] = (),
    group: Settings = KEPT,
    deleted: bool = False,
) -> Tell:
    """Calls of members on the record at offset 0: member, call, count or acknowledgement, outcome.

    One call a second, or at these seconds. At the end the record is there, or deleted.
    """

    def tell(w: Fixture) -> None:
        w.meta["share_groups"] = {"s": {"lock_ms": 30_000, "delivery_limit": 3} | group}
        w.call("scan#0", "list_offsets", query="earliest", offsets={PARTITION: 0})
        w.call("p#0", "send", records=[ROOT | {"offset": 0, "id": 1}])
        for second, (who, op, number, outcome) in enumerate(calls, 1):
            w.now = round((at[second - 1] if at else second) * SECOND)
            if op in ("committed", "commit"):
                about = {"partitions": [PARTITION], "offsets": {PARTITION: number}, "group": "s"}
                w.call(f"{who}#0", op, outcome=outcome, **about)
                continue
            extra = {"delivery_count": number} if op == "acquire" else {"ack": op}
            verb = "acquire" if op == "acquire" else "acknowledge"
            record = ROOT | {"offset": 0, "id": 1} | extra
            w.call(f"{who}#0", verb, outcome=outcome, records=[record], group="s")
        read = {"isolation": "read_uncommitted", "partitions": ["t:0"], "offsets": {PARTITION: 1}}
        w.meta["topics"]["t"]["partitions"] = 1
        there = [] if deleted else [ROOT | {"offset": 0, "id": 1}]
        w.call("scan#0", "scan", records=there, **read)

    return tell


A1, B1, B2 = (("a", "acquire", 1, "ok"), ("b", "acquire", 1, "ok"), ("b", "acquire", 2, "ok"))
A_OK, B_OK = ("a", "accept", 0, "ok"), ("b", "accept", 0, "ok")
A_BACK, A_LATE = ("a", "release", 0, "ok"), ("a", "accept", 0, "fail")
B_LATE = ("b", "accept", 0, "fail")
OF_FIVE: Settings = {"delivery_limit": 5}
A_MORE = ("a", "renew", 0, "ok")
NO_LOCK: Settings = {"lock_ms": None}
SHARING: dict[str, tuple[str, Tell, str]] = {
    "one after the other": ("S1", share(A1, A_BACK, B2, B_OK), "holds"),
    "two at a time": ("S1", share(A1, B1, A_OK), "violated"),
    "until the moment in which it is acknowledged": (
        "S1",
        share(A1, B1, A_OK, at=(1, 2, 2 + 2 / SECOND)),
        "violated",
    ),
    "from the moment in which it is acknowledged": (
        "S1",
        share(A1, B1, A_OK, at=(1, 2, 2 + 1 / SECOND)),
        "holds",
    ),
    "after the lock time": ("S1", share(A1, B2, A_LATE, B_OK, at=(1, 40, 41, 42)), "holds"),
    "a lock that was renewed": (
        "S1",
        share(A1, A_MORE, B1, A_OK, at=(1, 25, 40, 45)),
        "violated",
    ),
    "success beyond the lock time proves nothing": (
        "S1",
        share(A1, B2, A_OK, at=(1, 20, 40)),
        "allowed",
    ),
    "the first was refused": ("S1", share(A1, B2, A_LATE, B_OK), "allowed"),
    "the first was never heard of again": ("S1", share(A1, B2, B_OK), "allowed"),
    "success where another had accepted it before, after a reload": (
        "S1",
        share(A1, B1, B_OK, A_OK),
        "allowed",
    ),
    "success where another may have accepted it before": (
        "S1",
        share(("c", "acquire", 1, "ok"), ("c", "accept", 0, "info"), A1, B1, A_OK, group=OF_FIVE),
        "allowed",
    ),
    "another accepted it later": ("S1", share(A1, B1, A_OK, B_OK), "violated"),
    "another gave it back before": (
        "S1",
        share(A1, B1, ("b", "release", 0, "ok"), A_OK, group=OF_FIVE),
        "violated",
    ),
    "another may have had it for the last time": (
        "S1",
        share(A1, ("b", "acquire", 2, "ok"), ("b", "release", 0, "ok"), A_OK),
        "allowed",
    ),
    "the start was moved above it": (
        "S1",
        share(A1, B1, ("admin", "commit", 1, "ok"), A_OK, group=OF_FIVE),
        "allowed",
    ),
    "the start was moved, and not above it": (
        "S1",
        share(A1, B1, ("admin", "commit", 0, "ok"), A_OK, group=OF_FIVE),
        "violated",
    ),
    "it was accepted, set back, and held by two": (
        "S1",
        share(("c", "acquire", 1, "ok"), ("c", "accept", 0, "ok"), A1, B1, A_OK, group=OF_FIVE),
        "violated",
    ),
    "a leader that was replaced gave it to the second": (
        "S1",
        share(A1, B1, A_OK, B_LATE, group=OF_FIVE),
        "allowed",
    ),
    "it may have been deleted before": ("S1", share(A1, B1, A_OK, deleted=True), "not checked"),
    "nobody knows how often it may be given": (
        "S1",
        share(A1, B1, A_OK, group={"delivery_limit": None}),
        "not checked",
    ),
    "nobody knows the lock time": ("S1", share(A1, B2, A_OK, group=NO_LOCK), "not checked"),
    "accepted, and given again": ("S2", share(A1, A_OK, B2), "violated"),
    "acceptance refused, and given again": ("S2", share(A1, A_LATE, B2, B_OK), "holds"),
    "given again by a leader that was replaced": ("S2", share(A1, A_OK, B2, B_LATE), "allowed"),
    "given again, and that was accepted, too": ("S2", share(A1, A_OK, B2, B_OK), "violated"),
    "rejected, and given again": ("S2", share(A1, ("a", "reject", 0, "ok"), B2), "violated"),
    "set back by an administrator": (
        "S2",
        share(A1, A_OK, ("admin", "commit", 0, "ok"), B1),
        "holds",
    ),
    "counted": ("S3", share(A1, A_BACK, B2, B_OK), "holds"),
    "not counted": ("S3", share(A1, A_BACK, B1, B_OK), "violated"),
    "not counted by a leader that was replaced": (
        "S3",
        share(A1, A_BACK, B1, B_LATE),
        "allowed",
    ),
    "not counted, as it was not acknowledged": ("S3", share(A1, B1, B_OK), "allowed"),
    "a delivery that nobody told of": (
        "S3",
        share(A1, A_BACK, ("b", "acquire", 3, "ok"), B_OK),
        "holds",
    ),
    "one too many": ("S3", share(("a", "acquire", 4, "ok")), "violated"),
    "nobody knows how many": ("S3", share(A1, group={"delivery_limit": None}), "not checked"),
    "accepted at the end": ("S4", share(A1, A_OK), "holds"),
    "waiting at the end": ("S4", share(A1, A_BACK), "allowed"),
    "given up at the end": ("S4", share(A1, ("a", "acquire", 3, "ok"), A_BACK), "holds"),
    "accepted, perhaps": ("S4", share(A1, ("a", "accept", 0, "info")), "not checked"),
    "the start goes on": (
        "S5",
        share(A1, ("admin", "committed", 0, "ok"), A_OK, ("admin", "committed", 1, "ok")),
        "holds",
    ),
    "the start goes back": (
        "S5",
        share(A1, ("admin", "committed", 1, "ok"), ("admin", "committed", 0, "ok")),
        "violated",
    ),
    "given below the start": ("S5", share(("admin", "committed", 1, "ok"), A1), "violated"),
    "given below the start by a leader that was replaced": (
        "S5",
        share(("admin", "committed", 1, "ok"), A1, A_LATE),
        "allowed",
    ),
    "the start was set back": (
        "S5",
        share(("admin", "committed", 1, "ok"), ("admin", "commit", 0, "ok"), A1),
        "holds",
    ),
}


@pytest.mark.parametrize("case", SHARING)
def test_a_share_group_lends_counts_and_disposes(case: str, tmp_path: Path) -> None:
    id, tell, expected = SHARING[case]
    found = judge(tmp_path, tell, id)
    assert found.verdict == expected, found.reason
    assert bool(found.witnesses) == (found.count > 0)
    for _, rows in found.witnesses:
        assert 1 <= len(rows) <= 4


@pytest.mark.parametrize(("later_ns", "expected"), [(0, "holds"), (1, "violated")])
def test_a_static_member_is_replaced_by_whoever_joins_after_it_had(
    later_ns: int, expected: str, tmp_path: Path
) -> None:
    """A join that may have come first, in the moment of an answer, has replaced nobody for sure."""

    def tell(w: Fixture) -> None:
        w.meta["topics"]["t"]["partitions"] = 1
        w.meta["consumers"] = {one: {"group": "g"} for one in ("a", "b")}
        member: Settings = {"group": "g", "instance": "i", "partitions": [PARTITION]}
        w.call("a#0", "assigned", member="m", generation=1, **member)
        w.now += later_ns - 2  # the answer came one before, and the next call would come two later
        w.call("b#0", "assigned", member="n", generation=2, **member)
        w.call("a#0", "commit", group="g", instance="i", generation=1, offsets={PARTITION: 1})

    assert judge(tmp_path, tell, "G11").verdict == expected


def test_a_share_group_that_reads_everything_may_be_given_what_was_aborted(tmp_path: Path) -> None:
    lines, settings = injected(fixture(3, 15), IN_CALLS["share_what_was_aborted"])
    group = settings["share_groups"]["sharing"]
    group["isolation"] = "read_uncommitted"
    one = judged_lines(tmp_path / "all", lines, settings)
    assert {v.check: v for v in one.verdicts}["S5"].verdict == "holds"
    del group["isolation"]
    one = judged_lines(tmp_path / "unknown", lines, settings)
    assert {v.check: v for v in one.verdicts}["S5"].verdict == "not checked"


def resets(**settings: Any) -> Tell:
    """Three records; a client that was given two is out of range, or finds the log cut."""

    def tell(w: Fixture) -> None:
        topic = settings.copy()
        reason, start = topic.pop("reason"), topic.pop("start", None)
        w.meta["topics"]["t"] |= topic
        records = [ROOT | {"offset": n, "id": n, "epoch": 1} for n in range(3)]
        for record in records:
            w.call("p#0", "send", records=[record])
        w.call("c#0", "assign", partitions=[PARTITION], offsets={PARTITION: 0})
        reports = {"log_start": {PARTITION: 0}, "isolation": "read_uncommitted"}
        w.call("c#0", "poll", records=records[:2], **reports)
        if start is not None:
            w.call("admin#0", "delete_records", offsets={PARTITION: start})
        w.call("c#0", "reset", reason=reason, offsets={PARTITION: 0})
        left = records if start is None else records[start:]
        query = {"query": "earliest", "offsets": {PARTITION: start or 0}}
        w.call("scan#0", "list_offsets", **query)
        read = {
            "isolation": "read_uncommitted",
            "partitions": [PARTITION],
            "offsets": {PARTITION: 3},
        }
        w.call("scan#0", "scan", records=left, **read)
        w.meta["topics"]["t"]["partitions"] = 1

    return tell


RESETS: dict[str, tuple[Tell, str]] = {
    "in range": (resets(reason="out_of_range"), "violated"),
    "in range of a log that may be cut": (
        resets(reason="out_of_range", unclean_leader_election=True),
        "allowed",
    ),
    "below the start": (resets(reason="out_of_range", start=3), "holds"),
    "a log that is never cut": (resets(reason="truncation"), "violated"),
    "a log that may be cut": (resets(reason="truncation", min_insync_replicas=1), "allowed"),
    "a log of which nothing is known": (
        resets(reason="truncation", min_insync_replicas=None),
        "not checked",
    ),
}


@pytest.mark.parametrize("case", RESETS)
def test_a_reset_has_a_cause(case: str, tmp_path: Path) -> None:
    tell, expected = RESETS[case]
    assert judge(tmp_path, tell, "C6").verdict == expected


# Replica and offset of successive polls of a log of three records, and what C5 and C1 say.
FOLLOWED: dict[str, tuple[list[tuple[int, int]], str, str]] = {
    "on with another": ([(2, 0), (1, 1), (1, 2)], "holds", "holds"),
    "skipped by changing": ([(2, 0), (1, 2)], "violated", "violated"),
    "back by changing": ([(2, 0), (2, 1), (1, 1)], "violated", "holds"),
    "skipped by one alone": ([(1, 0), (1, 2)], "not checked", "violated"),
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_reader_goes_on_where_it_changes_its_replica(case: str, tmp_path: Path) -> None:
    polls, follows, skips = FOLLOWED[case]

    def tell(w: Fixture) -> None:
        w.meta["topics"]["t"]["partitions"] = 1
        records = [ROOT | {"offset": n, "id": n, "epoch": 1} for n in range(3)]
        for record in records:
            w.call("p#0", "send", records=[record])
        w.call("c#0", "assign", partitions=[PARTITION], offsets={PARTITION: 0})
        for replica, offset in polls:
            reported = {"high_watermark": {PARTITION: 3}, "leader_epochs": {PARTITION: 1}}
            reported |= {"isolation": "read_committed", "replica": replica}
            w.call("c#0", "poll", records=[records[offset]], **reported)
        w.call("scan#0", "list_offsets", query="earliest", offsets={PARTITION: 0})
        read = {
            "isolation": "read_uncommitted",
            "partitions": [PARTITION],
            "offsets": {PARTITION: 3},
        }
        w.call("scan#0", "scan", records=records, **read)

    assert judge(tmp_path / "follows", tell, "C5").verdict == follows
    assert judge(tmp_path / "skips", tell, "C1").verdict == skips


@pytest.mark.parametrize(("reported", "expected"), [(True, "holds"), (False, "violated")])
def test_after_a_reset_reading_starts_anew(reported: bool, expected: str, tmp_path: Path) -> None:
    def tell(w: Fixture) -> None:
        resets(reason="out_of_range")(w)
        again = [ROOT | {"offset": n, "id": n, "epoch": 1} for n in range(2)]
        w.call("c#0", "poll", records=again, isolation="read_uncommitted")
        if not reported:
            w.lines["c#0"] = [line for line in w.lines["c#0"] if line["op"] != "reset"]
            for seq, line in enumerate(w.lines["c#0"]):
                line["seq"] = seq

    assert judge(tmp_path / "back", tell, "C2").verdict == expected
    assert judge(tmp_path / "start", tell, "C3").verdict == "holds"


def handover(end: str, heard: int | None, timeout: int | None) -> Tell:
    """`a` gives up a partition at second 20, `b` reads it at 11; `a` committed last at `heard`."""

    def tell(w: Fixture) -> None:
        settings: dict[str, Any] = {"group": "g", "group_protocol": "classic"}
        settings["session_timeout_ms"] = timeout and timeout * 1000
        w.meta["consumers"] = {"a": settings, "b": settings}

        def call(second: int, who: str, op: str, **fields: Any) -> None:
            w.now = second * SECOND
            w.call(f"{who}#0", op, group="g", **fields)

        held = {"partitions": [PARTITION]}
        record = ROOT | {"offset": 0, "id": 1}
        w.call("p#0", "send", records=[record])
        call(1, "a", "assigned", generation=1, **held)
        if heard is not None:
            call(heard, "a", "commit", generation=1, offsets={PARTITION: 0})
        call(20, "a", end, generation=1, **held)
        call(10, "b", "assigned", generation=2, **held)
        call(11, "b", "poll", records=[record], isolation="read_uncommitted")
        w.now = 30 * SECOND
        w.call("scan#0", "list_offsets", query="earliest", offsets={PARTITION: 0})
        read = {
            "isolation": "read_uncommitted",
            "partitions": [PARTITION],
            "offsets": {PARTITION: 1},
        }
        w.call("scan#0", "scan", records=[record], **read)
        w.meta["topics"]["t"]["partitions"] = 1

    return tell


HANDOVERS: dict[str, tuple[Tell, str]] = {
    "known to be alive": (handover("revoked", 9, 10), "violated"),
    "a heartbeat may be a third older": (handover("revoked", 4, 10), "allowed"),
    "silent for longer than its session": (handover("revoked", 2, 5), "allowed"),
    "never heard of": (handover("revoked", None, 10), "allowed"),
    "told that it lost the partition": (handover("lost", 9, 10), "not checked"),
    "nobody knows its time-out": (handover("revoked", 9, None), "not checked"),
}


@pytest.mark.parametrize("case", HANDOVERS)
def test_a_partition_is_given_up_before_it_is_read(case: str, tmp_path: Path) -> None:
    tell, expected = HANDOVERS[case]
    found = judge(tmp_path, tell, "G2")
    assert found.verdict == expected, found.reason
    assert found.count == (case != "told that it lost the partition")


def owners(*calls: tuple[int, str, str, tuple[int, ...], int], until: int = 60) -> Tell:
    """Rebalances of a group of two partitions: time, member, call, partitions, generation."""

    def tell(w: Fixture) -> None:
        settings = {"group": "g", "session_timeout_ms": 10_000, "group_protocol": "classic"}
        w.meta["consumers"] = {"a": settings, "b": settings}
        for process in ("a#0", "b#0"):
            w.call(process, "subscribe", topics=["t"], group="g")
        for second, who, op, partitions, generation in calls:
            w.now = second * SECOND
            if op == "crash":
                w.call(f"{who}#0", op)
                continue
            held = {"partitions": [name(p) for p in partitions], "generation": generation}
            w.call(f"{who}#0", op, group="g", **held)
        w.now = until * SECOND
        w.call("b#0", "subscribe", topics=[], group="g")  # to nothing any more

    return tell


BOTH = (1, "a", "assigned", (0, 1), 1)
GAVE_BOTH, GAVE_ONE = (20, "a", "revoked", (0, 1), 1), (20, "a", "revoked", (1,), 1)
TAKES_ONE, TAKES_NONE = (21, "b", "assigned", (1,), 2), (21, "b", "assigned", (), 2)
COVERAGE: dict[str, tuple[Tell, str, int]] = {
    "one has all": (owners(BOTH), "holds", 0),
    "all is dealt anew": (
        owners(BOTH, GAVE_BOTH, (21, "a", "assigned", (0,), 2), TAKES_ONE),
        "holds",
        0,
    ),
    "one keeps what it has": (
        owners(BOTH, GAVE_ONE, (21, "a", "assigned", (), 2), TAKES_ONE),
        "holds",
        0,
    ),
    "what was given up is given to nobody": (
        owners(BOTH, GAVE_ONE, (21, "a", "assigned", (), 2), TAKES_NONE),
        "allowed",
        1,
    ),
    "what a dead member had is given to nobody": (
        owners(BOTH, (15, "a", "crash", (), 0), TAKES_ONE),
        "allowed",
        1,
    ),
    "a generation that is over at once": (
        owners(BOTH, GAVE_ONE, TAKES_NONE, (25, "b", "assigned", (1,), 3)),
        "holds",
        0,
    ),
    "a trace that is over at once": (
        owners((1, "a", "assigned", (0,), 1), until=5),
        "not checked",
        0,
    ),
}


@pytest.mark.parametrize("case", COVERAGE)
def test_a_group_at_rest_leaves_no_partition_out(case: str, tmp_path: Path) -> None:
    tell, expected, count = COVERAGE[case]
    found = judge(tmp_path, tell, "G3")
    assert (found.verdict, found.count) == (expected, count), found.reason


INFORMATION = {
    "stored_by_two": "P5",
    "still_open": "T11",
    "without_an_owner": "G3",
    "left_over": "S4",
    "stamped_back": "L17",
}


@pytest.mark.parametrize("name", INFORMATION)
def test_what_is_no_promise_of_safety_is_no_violation_however_strictly(
    name: str, tmp_path: Path
) -> None:
    lines, settings = injected(fixture(3, 15), IN_CALLS[name])
    one = judged_lines(tmp_path, lines, settings, strict=True)
    found = {v.check: v for v in one.verdicts}[INFORMATION[name]]
    assert (found.verdict, found.count > 0) == ("allowed", True)


@pytest.mark.parametrize(
    ("name", "kind", "setting"),
    [
        ("still_open", "producers", "transaction_timeout_ms"),
        ("without_an_owner", "consumers", "session_timeout_ms"),
        ("without_an_owner", "topics", "partitions"),
        ("left_over", "share_groups", "delivery_limit"),
    ],
)
def test_progress_is_judged_by_time_outs_that_are_told(
    name: str, kind: str, setting: str, tmp_path: Path
) -> None:
    lines, settings = injected(fixture(3, 15), IN_CALLS[name])
    for one in settings[kind].values():
        one.pop(setting, None)
    found = {v.check: v for v in judged_lines(tmp_path, lines, settings).verdicts}
    assert found[INFORMATION[name]].verdict == "not checked"


@pytest.mark.parametrize(("read", "expected"), [([7, 8], "holds"), ([8], "violated")])
def test_a_transaction_of_a_history_is_read_as_a_whole(
    read: list[int], expected: str, tmp_path: Path
) -> None:
    """A record of it that is known to lie below what was read must have been read, too."""
    polled = " ".join(f"[{id - 7} {id}]" for id in read)
    history = tmp_path / "history.edn"
    history.write_text(
        "{:index 0, :time 0, :process 0, :type :invoke, :f :txn, "
        ":value [[:send 1 7] [:send 1 8]]}\n"
        "{:index 1, :time 1, :process 0, :type :ok, :f :txn, "
        ":value [[:send 1 [0 7]] [:send 1 [1 8]]]}\n"
        "{:index 2, :time 2, :process 1, :type :invoke, :f :poll, :value [[:poll]]}\n"
        "{:index 3, :time 3, :process 1, :type :ok, :f :poll, "
        f":value [[:poll {{1 [{polled}]}}]]}}\n"
    )
    found = {v.check: v for v in judged(history).verdicts}["T1"]
    assert (found.verdict, found.count) == (expected, 2 - len(read))


MINE = ("exactly_once", "handovers", "sharing")


@pytest.mark.parametrize(
    "name", [n for n, m in IN_CALLS.items() if m.inject.__module__.rpartition(".")[2] in MINE]
)
def test_a_check_reads_no_other_columns_than_it_says(name: str, tmp_path: Path) -> None:
    """Spark moves only those, so a check that looks at another one finds it empty there."""
    try:
        lines, settings = injected(fixture(3, 15), IN_CALLS[name])
    except NotHere:
        pytest.skip("this fixture has no room for the anomaly")
    run = read_trace(write(tmp_path, lines, settings))
    table, contexts = run.table(0), {0: run.context}
    for id in IN_CALLS[name].must | IN_CALLS[name].allowed:
        check = CHECKS[id]
        columns = columns_of(check.scope, [check], contexts)
        found = local.find(table, contexts, [id])
        assert any(row["found"] for row in found)
        assert local.find(table.select(columns), contexts, [id]) == found
