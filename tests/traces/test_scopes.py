"""Evidence is counted where it decides: what one partition lacks takes no finding from another."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.traces import scope_search
from tests.traces.dense import dense_trace
from tests.traces.evidence import Removal
from tests.traces.judging import judged_lines
from tests.traces.needs import Looked, looked
from tests.traces.small import Call, Lines, record, trace
from tests.traces.stories import story
from traces.checks.catalogue import CHECKS
from traces.ingest.ingesting import ingest
from traces.ingest.locations import Locations
from traces.ingest.run import read_trace
from traces.model.lacking import PARTITION, Lacking
from traces.verdicts.verdict import NOT_CHECKED, VIOLATED, Verdict

FEW = 2  # traces of the search in `make test`


def reported(folder: Path, lines: Lines, meta: dict[str, Any]) -> dict[str, Verdict]:
    return {verdict.check: verdict for verdict in judged_lines(folder, lines, meta).verdicts}


def two_partitions(*more: Call, lost: bool = True) -> tuple[Lines, dict[str, Any]]:
    """Partition 1 is healthy; of partition 0 an acknowledged record is missing at the end."""

    def of(partition: int, *ids: int) -> list[dict[str, Any]]:
        return [
            record(id, at, timestamp=100 * at) | {"partition": partition}
            for at, id in enumerate(ids)
        ]

    calls: list[Call] = [
        *(("p0#0", "send", {"records": [one]}) for one in of(0, 1, 2, 3)),
        *(("p1#0", "send", {"records": [one]}) for one in of(1, 11, 12, 13)),
        *more,
    ]
    for partition, records in ((0, of(0, 1, 2, 3)), (1, of(1, 11, 12, 13))):
        location = f"t:{partition}"
        about = {
            "partitions": [location],
            "offsets": {location: 3},
            "isolation": "read_uncommitted",
        }
        kept = [one for one in records if not (lost and one["id"] == 2)]
        calls.append(("scan#0", "list_offsets", {"query": "earliest", "offsets": {location: 0}}))
        calls.append(("scan#0", "scan", about | {"records": kept}))
    lines, meta = trace(*calls)
    meta["topics"]["t"]["partitions"] = 2
    return lines, meta


def in_partition_1(lines: Lines, op: str) -> list[dict[str, Any]]:
    mine = [line for several in lines.values() for line in several if line["op"] == op]
    return [line for line in mine if any(r["partition"] == 1 for r in line.get("records", ()))]


def nameless_read(lines: Lines, meta: dict[str, Any]) -> None:
    in_partition_1(lines, "scan")[0]["records"][0].pop("id")


def nameless_send(lines: Lines, meta: dict[str, Any]) -> None:
    in_partition_1(lines, "send")[0]["records"][0].pop("id")


def nowhere(lines: Lines, meta: dict[str, Any]) -> None:
    in_partition_1(lines, "scan")[0]["records"][0].pop("offset")


def unscanned(lines: Lines, meta: dict[str, Any]) -> None:
    lines["scan#0"].remove(in_partition_1(lines, "scan")[0])
    for seq, line in enumerate(lines["scan#0"]):
        line["seq"] = seq


def sent_after_the_scan(lines: Lines, meta: dict[str, Any]) -> None:
    late = in_partition_1(lines, "send")[-1]
    late |= {"invoked_ns": 9_000, "returned_ns": 9_001}
    lines["p1#0"][-1] |= {"invoked_ns": 9_002, "returned_ns": 9_003}


def of_another_host(lines: Lines, meta: dict[str, Any]) -> None:
    for line in lines["p1#0"]:
        line["clock"] = "elsewhere"


POORER: list[Callable[[Lines, dict[str, Any]], None]] = [
    *(nameless_read, nameless_send, nowhere, unscanned, sent_after_the_scan, of_another_host),
]


@pytest.mark.parametrize("change", POORER)
def test_what_one_partition_lacks_takes_nothing_from_another(
    change: Callable[[Lines, dict[str, Any]], None], tmp_path: Path
) -> None:
    lines, meta = two_partitions()
    before = reported(tmp_path / "before", lines, meta)
    change(lines, meta)
    after = reported(tmp_path / "after", lines, meta)
    for id in ("L3", "L4"):
        assert (before[id].verdict, before[id].count) == (VIOLATED, 1)
        assert (after[id].verdict, after[id].count) == (VIOLATED, 1), after[id].reason
    folder = tmp_path / "after"
    ingested = ingest(folder, tmp_path / "ops")
    assert ingested.evidence.lacking == read_trace(folder).evidence.lacking


@pytest.mark.parametrize("change", [nameless_read, nowhere, unscanned])
def test_nothing_is_lost_where_it_may_be_untold(
    change: Callable[[Lines, dict[str, Any]], None], tmp_path: Path
) -> None:
    lines, meta = two_partitions(lost=False)
    change(lines, meta)
    found = reported(tmp_path, lines, meta)
    assert {found[id].verdict for id in ("L3", "L4")} == {NOT_CHECKED}


def asked_by_time(answer: int) -> Call:
    return "c0#0", "list_offsets", {"query": 100, "offsets": {"t:0": answer}}


def test_times_that_other_partitions_lack_hide_no_wrong_answer(tmp_path: Path) -> None:
    lines, meta = two_partitions(asked_by_time(2), lost=False)
    for send in in_partition_1(lines, "send"):
        send["records"][0].pop("timestamp")
    found = reported(tmp_path, lines, meta)["L16"]
    assert (found.verdict, found.count) == (VIOLATED, 1), found.reason


def test_lines_without_times_need_no_clock(tmp_path: Path) -> None:
    """As those that `import segments` adds to a run whose clients name their clocks."""
    lines, meta = two_partitions(lost=False)
    for mine in lines.values():
        for line in mine:
            line["clock"] = "a clock"
    before = reported(tmp_path / "before", lines, meta)
    dumped = {"process": "broker-1", "op": "dump", "outcome": "ok", "replica": 1}
    reported_of = {"offsets": {"t:0": 3}, "high_watermark": {"t:0": 3}, "log_start": {"t:0": 0}}
    lines["broker-1"] = [dumped | {"seq": 0} | reported_of]
    lines["broker-1"].append({"process": "broker-1", "seq": 1, "op": "close", "outcome": "ok"})
    meta["processes"] = list(lines)
    after = reported(tmp_path / "after", lines, meta)
    held = {id for id, one in before.items() if one.verdict != NOT_CHECKED}
    assert {id: after[id].verdict for id in held} == {id: before[id].verdict for id in held}
    assert {"L9", "L10", "L15"} <= held


def losses(before: Looked, after: Looked) -> set[str]:
    """The checks that say nothing more of partition 0."""
    names = before.run.names.topics
    location = {("partition", names.number("t"), 1)}
    return {c.id for c in CHECKS.values() if scope_search.lost(before, after, c, location)}


def nowhere_in_particular(self: Locations, missing: Iterable[str]) -> Lacking:
    """As if every need were missing everywhere."""
    return Lacking.of(missing, {PARTITION: {}})


def test_the_search_finds_evidence_that_is_counted_for_the_whole_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines, meta = two_partitions()
    before = looked((lines, meta))
    nameless_read(lines, meta)
    assert losses(before, looked((lines, meta))) == set()
    monkeypatch.setattr(Locations, "lacking", nowhere_in_particular)
    assert losses(before, looked((lines, meta))) == {"L3", "L4"}


@pytest.mark.parametrize("seed", range(FEW))
def test_the_search_finds_nothing(seed: int) -> None:
    random = Random(seed)
    named = f"dense {seed}"
    assert list(scope_search.searched(named, dense_trace(random.randrange(10**9)), random)) == []


def test_the_search_leaves_out_what_concerns_all() -> None:
    trace_ = dense_trace(1)
    before = looked(trace_)
    assert scope_search.touched(before, trace_, Removal("hash", "all")) is None


@pytest.mark.parametrize(
    ("untold", "verdict"), [("records.id", VIOLATED), ("records", NOT_CHECKED)]
)
def test_who_does_not_tell_its_records_may_have_processed_them_in_any_partition(
    untold: str, verdict: str
) -> None:
    """So no finding of another partition has to stay, and the search takes no records away."""
    reported = trace(
        *story(
            """
        p0 send 1@0; p0 send 2@0(partition=1); c0 assigned partitions=["t:0","t:1"] OF
        c0 committed partitions=["t:0","t:1"] offsets={} OF; c0 poll 1@0 2@0(partition=1) group=g
        c0 process 2@0(partition=1) group=g; c0 commit offsets=1 OF; STARTS
        scan 1@0 end=1; scan list_offsets query=earliest offsets={"t:1":0}
        scan 2@0(partition=1) partitions=["t:1"] offsets={"t:1":1} isolation=read_uncommitted
        """,
            OF="group=g generation=1",
        )
    )
    reported[1]["topics"]["t"]["partitions"] = 2
    removal = Removal(untold, "c0#0 3")
    assert looked(reported).verdict(CHECKS["G8"]).verdict == VIOLATED
    assert looked(removal(reported)).verdict(CHECKS["G8"]).verdict == verdict
    assert (removal in set(scope_search.narrow_removals(reported))) == (untold != "records")
