"""Sessions, ends of transactions, offsets, hand-overs, replicas and share groups, call by call."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.traces.fixture import Fixture, Line, fixture, meta, name, write
from tests.traces.judging import judged, judged_lines
from tests.traces.small import Call
from tests.traces.stories import stories, story
from traces.checks.catalogue import CHECKS
from traces.engines import local
from traces.engines.kernel import columns_of
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.ingest.run import read_trace
from traces.verdicts.verdict import Verdict

Tell = Callable[[Fixture], None]
Settings = dict[str, Any]
THREE = {"FIRST": "0@0(epoch=1)", "SECOND": "1@1(epoch=1)", "THIRD": "2@2(epoch=1)"}
SENT = {"SENT": "p send FIRST; p send SECOND; p send THIRD"}
calls = partial(story, **THREE, **SENT)
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


def tells(w: Fixture, calls: Iterable[Call]) -> None:
    """Make these calls one after the other, or `at` a second."""
    for process, op, fields in calls:
        more = dict(fields)
        w.now = round(more.pop("at") * SECOND) if "at" in more else w.now
        made = w.call(process, op, **more)
        if made["returned_ns"] is None:
            del made["returned_ns"]


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


ANSWERS = stories("committed_offsets")


@pytest.mark.parametrize("case", ANSWERS)
def test_a_committed_offset_is_a_register(case: str, tmp_path: Path) -> None:
    (expected,) = ANSWERS[case].words

    def tell(w: Fixture) -> None:
        settings = {"group": "g", "auto_commit": False, "commit_order": "process_then_commit"}
        w.meta["consumers"] = {"c": settings | ANSWERS[case].settings}
        tells(w, ANSWERS[case].calls)

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


SHARING = stories("share_groups")


@pytest.mark.parametrize("case", SHARING)
def test_a_share_group_lends_counts_and_disposes(case: str, tmp_path: Path) -> None:
    one, (id, expected, *more) = SHARING[case], SHARING[case].words

    def tell(w: Fixture) -> None:
        w.meta["share_groups"] = {"s": {"lock_ms": 30_000, "delivery_limit": 3} | one.settings}
        w.meta["topics"]["t"]["partitions"] = 1
        tells(w, calls("STARTS; p send 1@0"))
        tells(w, ((p, op, {"at": n} | fields) for n, (p, op, fields) in enumerate(one.calls, 1)))
        tells(w, calls("scan end=1" if "deleted" in more else "scan 1@0 end=1"))

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
        w.meta["topics"]["t"] |= topic | {"partitions": 1}
        tells(
            w,
            calls(f"""
            SENT; c assign offsets=0; c poll FIRST SECOND log_start=0 isolation=read_uncommitted
            {"" if start is None else f"admin delete_records offsets={start}"}
            c reset reason={reason} offsets=0; scan list_offsets query=earliest offsets={start or 0}
            scan {"" if start else "FIRST SECOND THIRD"} end=3
        """),
        )

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
        tells(w, calls("SENT; c assign offsets=0"))
        reports = "high_watermark=3 leader_epochs=1"
        for replica, offset in polls:
            tells(w, calls(f"c poll {offset}@{offset}(epoch=1) {reports} replica={replica}"))
        tells(w, calls("STARTS; scan FIRST SECOND THIRD end=3"))

    assert judge(tmp_path / "follows", tell, "C5").verdict == follows
    assert judge(tmp_path / "skips", tell, "C1").verdict == skips


@pytest.mark.parametrize(("reported", "expected"), [(True, "holds"), (False, "violated")])
def test_after_a_reset_reading_starts_anew(reported: bool, expected: str, tmp_path: Path) -> None:
    def tell(w: Fixture) -> None:
        resets(reason="out_of_range")(w)
        tells(w, calls("c poll FIRST SECOND isolation=read_uncommitted"))
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

        commit = f"a commit group=g generation=1 offsets=0 at={heard}"
        tells(
            w,
            calls(f"""
            p send 1@0; a assigned group=g generation=1 at=1; {"" if heard is None else commit}
            a {end} group=g generation=1 at=20; b assigned group=g generation=2 at=10
            b poll 1@0 group=g isolation=read_uncommitted at=11; STARTS at=30; scan 1@0 end=1
        """),
        )
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


COVERAGE = stories("coverage")


@pytest.mark.parametrize("case", COVERAGE)
def test_a_group_at_rest_leaves_no_partition_out(case: str, tmp_path: Path) -> None:
    (expected,) = COVERAGE[case].words

    def tell(w: Fixture) -> None:
        settings = {"group": "g", "session_timeout_ms": 10_000, "group_protocol": "classic"}
        w.meta["consumers"] = {"a": settings, "b": settings}
        tells(w, calls('a subscribe topics=["t"] group=g; b subscribe topics=["t"] group=g'))
        tells(w, COVERAGE[case].calls)
        w.now = COVERAGE[case].settings.get("until", 60) * SECOND
        tells(w, calls("b subscribe topics=[] group=g"))  # to nothing any more

    found = judge(tmp_path, tell, "G3")
    assert (found.verdict, found.count) == (expected, expected == "allowed"), found.reason


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
