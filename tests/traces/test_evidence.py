"""The law of evidence: taking some away turns a verdict into *not checked*, or leaves it."""

import gzip
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.traces.evidence import KEPT, Lines, Removal, Trace, every, removals
from tests.traces.fixture import fixture
from tests.traces.judging import SEEDED, examples, judged_lines, own, verdicts
from tests.traces.needs import trace_of
from traces.generate.small import IN_CALLS, NotHere
from traces.ingest.evidence import Evidence
from traces.ingest.run import Run
from traces.ingest.vocabulary import FIELDS

DATA = Path(__file__).parent / "data" / "recordings"
RECORDINGS = sorted(path for path in DATA.iterdir() if path.is_dir())


Said = dict[str, tuple[str, int]]


def judge(trace: Trace) -> Said:
    """The verdict on each promise, and how often it was broken."""
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), *trace)
    return {verdict.check: (verdict.verdict, verdict.count) for verdict in one.verdicts}


def turned(before: Said, after: Said) -> dict[str, Any]:
    """The verdicts that change with less evidence: another one, or the same with more findings."""
    return {
        id: (before[id], after[id])
        for id in before
        if after[id][0] not in (before[id][0], "not checked")
        or (after[id][0] != "not checked" and after[id][1] > before[id][1])
    }


def turns(name: str | None, seed: int, some: int) -> dict[str, Any]:
    """The verdicts that so many removals turn in the trace of this seed."""
    try:
        trace = trace_of(seed, name)
    except NotHere:
        assume(False)
    before, random = judge(trace), Random(seed)
    found = {
        str(removal): turned(before, judge(removal(trace)))
        for removal in random.sample(list(removals(trace, random)), some)
    }
    return {what: one for what, one in found.items() if one}


@pytest.mark.parametrize("name", [None, *IN_CALLS])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=examples(1), phases=SEEDED)
def test_less_evidence_never_turns_a_verdict_into_its_opposite(name: str | None, seed: int) -> None:
    seed = own(seed, name)
    assert not turns(name, seed, 3), (name, seed)  # `make soak` has thirty times the examples


@pytest.mark.parametrize(
    ("name", "seed", "field"),
    [
        (None, 373, "records"),  # a poll that tells watermarks, and not whether it returned any
        (None, 45, "records.tombstone"),  # of what may have been the last send of a key
        # answers about committed offsets that do not list what was asked for
        ("hide_what_was_committed", 12762, "partitions"),
        # a consumer that does not tell which replica answered, beside others that do
        ("watermark_back", 233427, "replica"),
        ("elsewhere", 672877, "invoked_ns"),  # of the assignment that told where to begin
    ],
)
def test_nor_did_it_where_it_once_had(name: str | None, seed: int, field: str) -> None:
    trace = trace_of(seed, name)
    before = judge(trace)
    for removal in every(trace, Random(seed)):
        if removal.what == field:
            assert not turned(before, judge(removal(trace))), str(removal)


@pytest.mark.parametrize(
    ("name", "seed", "removal"),
    [
        # the offsets of a member, sent in a line of its producer
        ("of_a_former_owner", 3238421009, Removal("line", "i0#0 4")),
        ("without_an_owner", 656122733, Removal("end", "y0#0")),  # of a member of a generation
        # answers that list what was asked for, and not what was answered
        ("hide_what_was_committed", 1047627459, Removal("offsets", "committed")),
        # a file that is cut off may hold another attempt, so nobody knows whose record was read
        ("read_each_other", 84546687, Removal("end", "scan-more#0")),
        ("read_each_other", 84546687, Removal("txn", "m0#0 3")),  # of a poll in a transaction
        # a record of no known partition may be the one whose send nobody answered
        ("truncated", 691374994, Removal("records.partition", "c1#0 49")),
        # what was sent and not acknowledged, once more perhaps, by a producer whose file is cut off
        ("truncated", 1966663400, Removal("end", "q0#0")),
        # an epoch is told, so there is a session
        ("gap_in_a_session", 421899001, Removal("producer_id", "n0#0")),
    ],
    ids=str,
)
def test_nor_did_this_removal(name: str, seed: int, removal: Removal) -> None:
    trace = trace_of(seed, name)
    assert not turned(judge(trace), judge(removal(trace)))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_nor_does_it_in_a_recording(path: Path) -> None:
    trace = from_folder(path)
    before = judge(trace)
    for random in map(Random, range(4)):
        for removal in random.sample(list(removals(trace, random)), 2):
            assert not turned(before, judge(removal(trace))), str(removal)


def from_folder(path: Path) -> tuple[Lines, dict[str, Any]]:
    lines: Lines = {}
    for file in sorted(path.glob("*.ndjson.gz")):
        mine = [orjson.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        lines[mine[0]["process"]] = mine
    return lines, orjson.loads((path / "meta.json").read_text())


def test_every_field_that_is_read_is_taken_away_somewhere() -> None:
    """The removals come from the words of the format, so that a new field is among them."""
    w = fixture(1)
    names = {removal.what for removal in removals((w.lines, w.meta), Random(1))}
    called = {name for mine in w.lines.values() for line in mine for name in line}
    assert (called & FIELDS) - KEPT <= names
    assert {"records.hash", "records.delivery_count", "records.timestamp", "meta", "file"} <= names


def evidence_of(folder: Path, lines: Lines, meta: dict[str, Any]) -> dict[str, str]:
    run = judged_lines(folder, lines, meta).run
    assert isinstance(run, Run)
    return run.evidence.missing


def test_a_configured_client_without_a_file_is_missed(tmp_path: Path) -> None:
    w = fixture(1)
    del w.meta["processes"], w.lines["p1#0"]
    missing = evidence_of(tmp_path, w.lines, w.meta)
    assert missing["producers"] == "no file of p1"
    assert "consumers" not in missing


def test_an_incarnation_between_two_others_is_missed(tmp_path: Path) -> None:
    w = fixture(1)
    del w.meta["processes"]
    w.lines["c0#2"] = [
        {"process": "c0#2", "seq": 0, "op": "close", "outcome": "ok"},
    ]
    missing = evidence_of(tmp_path, w.lines, w.meta)
    assert missing["consumers"] == "no file of c0#1"


def test_lines_that_are_missing_in_a_file_are_missed(tmp_path: Path) -> None:
    w = fixture(1)
    del w.lines["p0#0"][1]
    one = judged_lines(tmp_path, w.lines, w.meta)
    assert one.run is not None
    assert one.run.evidence.missing["producers"] == "lines are missing in the file of p0#0"
    assert [str(x) for x in one.run.warnings] == ["p0#0.ndjson:2: seq: 1 line is missing before it"]
    # A record that nobody is known to have sent may have been sent on the missing line.
    assert verdicts(one)["L5"] == "not checked"


def test_without_a_complete_scan_nothing_can_be_called_lost(tmp_path: Path) -> None:
    w = fixture(1)
    w.meta["complete"] = False
    one = judged_lines(tmp_path, w.lines, w.meta)
    lost = {v.check: v for v in one.verdicts}["L4"]
    assert lost.verdict == "not checked"
    assert lost.reason == "meta.json does not say that the run is complete"


def test_a_partition_without_its_scan_leaves_the_run_incomplete(tmp_path: Path) -> None:
    w = fixture(1)
    for process in [p for p in w.lines if p.startswith("scan")]:
        w.lines[process] = [x for x in w.lines[process] if x.get("partitions") != ["t:1"]]
        for seq, line in enumerate(w.lines[process]):
            line["seq"] = seq
    one = judged_lines(tmp_path, w.lines, w.meta)
    lost = {v.check: v for v in one.verdicts}["L4"]
    assert lost.verdict == "not checked"
    assert set(lost.reason.split("; ")) == {"there is no final scan of t:1"}


def test_where_nothing_was_read_no_read_can_break_a_promise(tmp_path: Path) -> None:
    """A lone producer's records were all where it had been told, and none of a failed send seen."""
    one = fixture(2)
    sent = {name: lines for name, lines in one.lines.items() if name[:2] in ("p0", "p1")}
    producers = {name.partition("#")[0]: {"acks": "all"} for name in sent}
    alone = one.meta | {"consumers": {}, "producers": producers, "processes": [*sent]}
    found = judged_lines(tmp_path / "run", sent, alone | {"complete": False})
    reasons = {v.check: v.reason for v in found.verdicts if v.verdict == "not checked"}
    assert {reasons.get(id) for id in ("L6", "L8", "L15")} == {"nothing was read"}
    assert verdicts(found)["L1"] == "holds"


def test_times_of_two_clocks_are_not_compared(tmp_path: Path) -> None:
    """Shifted by an hour, the clock of one client says nothing about order."""
    w = fixture(1)
    lines: Lines = orjson.loads(orjson.dumps(w.lines))
    for line in lines["p0#0"]:
        line |= {"clock": "elsewhere"}
        line["invoked_ns"] += 10**12
        line["returned_ns"] += 10**12
    one = judged_lines(tmp_path, lines, w.meta)
    reasons = {v.check: (v.verdict, v.reason) for v in one.verdicts}
    for id in ("L9", "L10", "T2", "T3", "P3", "G4", "G6"):
        assert reasons[id] == ("not checked", "times of several clocks do not compare")
    assert reasons["L4"][0] == "holds"


NAMELESS = {"L4", "P2", "T1", "C1", "C2", "C3", "C4", "C5", "C7", "G6", "G10", "L13", "S4", "A2"}


def test_a_consumer_that_tells_no_ids_switches_off_only_what_needs_them() -> None:
    """A loss at the end is shown by the final scan; a position is an offset."""
    w = fixture(5, steps=8)
    lines, meta = orjson.loads(orjson.dumps([w.lines, w.meta]))
    for line in lines["c0#0"]:
        for record in line.get("records", ()) if line["op"] == "poll" else ():
            del record["id"]
    said = judge((lines, meta))
    assert {id for id in NAMELESS if said[id][0] != "holds"} == set()
    # Somebody's record is lost, and the same consumer, who tells no ids, goes back.
    lost = next(x for x in lines["p0#0"] if x["op"] == "send")["records"][0]
    for mine in lines.values():
        for line in mine:
            if line["op"] == "scan":
                line["records"] = [r for r in line["records"] if r["id"] != lost["id"]]
    polls = [x for x in lines["c0#0"] if x["op"] == "poll"]
    last = next(r for r in reversed(polls[-1]["records"]))
    last["offset"] = 0
    said = judge((lines, meta))
    assert (said["L4"][0], said["C2"][0]) == ("violated", "violated")


def test_a_reason_that_several_needs_share_is_given_once() -> None:
    evidence = Evidence({"producers": "no file of p", "pending.read": "no file of p"})
    assert evidence.reasons(["producers", "pending.read", "final"]) == ["no file of p"]
