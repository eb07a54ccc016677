"""Small traces of which a check once said something else when a field, a line or an end was gone.

That is what the law of evidence forbids (test_evidence.py), of which no fixture had an example.
"""

from typing import Any

import pytest

from tests.traces.evidence import Removal, Trace
from tests.traces.needs import looked, turned
from tests.traces.small import trace
from tests.traces.stories import Story, stories, story
from traces.checks.catalogue import CHECKS
from traces.model.partitioners import key_hash
from traces.verdicts.verdict import ALLOWED, HOLDS, NOT_CHECKED, VIOLATED

MEMBER = {"MEMBER": "group=g generation=1 member=c0"}
PARTITION_OF_K = key_hash("murmur2", "k") % 2
CASES = stories("less_evidence")


def whole(case: Story) -> Trace:
    assert set(case.words) <= {*CHECKS, "compacted", "stamped", "weak"}
    lines, meta = trace(*case.calls, **({"acks": "1"} if "weak" in case.words else {}))
    if "compacted" in case.words:
        meta["topics"]["t"]["cleanup_policy"] = "compact"
    if "stamped" in case.words:
        meta["topics"]["t"]["message_timestamp_type"] = "LogAppendTime"
    for line in (line for mine in lines.values() for line in mine if line["op"] == "send"):
        for one in line["records"]:
            one.setdefault("timestamp", 1_000 + one["id"])
    return lines, meta


def said(id: str, trace: Trace) -> str:
    return looked(trace).verdict(CHECKS[id]).verdict


def compacted(*texts: str, **settings: Any) -> Trace:
    lines, meta = trace(*story("; ".join(texts)), **settings)
    meta["topics"]["t"] |= {"cleanup_policy": "compact", "delete_retention_ms": 0}
    return lines, meta


@pytest.mark.parametrize(
    ("id", "case", "words"),
    [
        pytest.param(id, case, words, id=f"{id} {case.title}, without {words}")
        for case in CASES.values()
        for id in case.words
        if id in CHECKS
        for words in case.without
    ],
)
def test_less_evidence_turned_no_verdict(id: str, case: Story, words: str) -> None:
    less = Removal.parse(words)(whole(case))
    assert less != whole(case)
    before, after = looked(whole(case)), looked(less)
    assert not turned(before.verdict(CHECKS[id]), after.verdict(CHECKS[id]))


def test_what_is_undecided_for_want_of_reads_says_which() -> None:
    case = CASES["who was killed may have been given what is lost at the end"]
    less = Removal.parse(case.without[0])(trace(*case.calls))
    reason = looked(less).verdict(CHECKS["L3"]).reason
    assert reason.startswith("1 found, and the file of c0#0 is cut off; whether that is allowed")


def test_who_does_not_tell_its_partitioner_leaves_the_promise_of_a_key_open() -> None:
    lines, meta = trace(*story("p0 send 1@0:k; p1 send 2@0:k; scan end=0"))
    meta["topics"]["t"]["partitions"] = 2
    meta["producers"] = {"p0": {"partitioner": "own"}, "p1": {"partitioner": "murmur2"}}
    for line in (lines["p0#0"][0], lines["p1#0"][0]):
        line["records"][0] |= {"partition": PARTITION_OF_K, "chosen": False}
    assert said("P6", (lines, meta)) == HOLDS
    del meta["producers"]["p0"]["partitioner"]
    assert said("P6", (lines, meta)) == NOT_CHECKED


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        ("", NOT_CHECKED),
        ("STARTS", NOT_CHECKED),
        ("scan#1 list_offsets query=earliest offsets=0", VIOLATED),
    ],
)
def test_what_the_second_final_scan_lacks_at_its_head_may_have_been_deleted(
    asked: str, verdict: str
) -> None:
    calls = story(f"""
        p0 txn_begin TXN; p0 send 1@0 TXN; p0 txn_commit TXN; p1 send 2@1; scan 1@0 2@1 end=3
        {asked}; scan#1 2@1 end=3 isolation=read_committed
    """)
    assert said("T7", trace(*calls)) == verdict


@pytest.mark.parametrize(("sent_to", "verdict"), [(3, NOT_CHECKED), (1, VIOLATED)])
def test_a_log_start_reported_after_a_reset_is_not_that_of_the_broker_that_answered_it(
    sent_to: int, verdict: str
) -> None:
    calls = story(f"""
        p0 send 0@0; p0 send 1@1; p0 send 2@2
        c0 poll 0@0 1@1 group=g log_start=0; c1 poll 2@2 group=g log_start=0
        c0 reset offsets={sent_to} reason=out_of_range; STARTS; scan 0@0 1@1 2@2 end=3
    """)
    assert said("C6", trace(*calls)) == verdict


@pytest.mark.parametrize(
    ("asked", "found", "verdict"),
    [
        ("c0 list_offsets query=earliest offsets=1", "2@1", HOLDS),
        ("c0 list_offsets query=earliest offsets=1", "3@0 2@1", VIOLATED),
        ("c0 list_offsets query=earliest offsets=0", "2@1", NOT_CHECKED),
        ("STARTS", "2@1", VIOLATED),
        ("", "2@1", NOT_CHECKED),
    ],
    ids=["told above", "told above, and read below", "told earlier", "told to the reader", "not"],
)
@pytest.mark.parametrize("id", ["L3", "L4"])
def test_a_head_was_deleted_only_below_what_the_final_scan_begins_with(
    id: str, asked: str, found: str, verdict: str
) -> None:
    """And that nothing was deleted below, only who made that scan can have asked."""
    sends = "p0 send 1@0; p1 send 2@1; p1 send 3 outcome=info"
    assert said(id, trace(*story(f"{sends}; {asked}; scan {found} end=2"))) == verdict


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
    polls = "; ".join(f"p0 poll 1@0 isolation={one} txn=0" for one in isolations)
    calls = f"p0 txn_begin TXN; p0 send 1@0 TXN; {polls}; p0 txn_commit TXN; STARTS; scan 1@0 end=2"
    assert said("T5", trace(*story(calls))) == verdict


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
    sends = f"p0 send 1@0:j; p0 send 2@1:k; p0 send 3@2:l; p1 send 1:{again} outcome=info"
    assert said(id, compacted(sends, "STARTS; scan 1@0 3@2 end=3")) == verdict


@pytest.mark.parametrize(("idempotence", "verdict"), [(True, VIOLATED), (False, NOT_CHECKED)])
@pytest.mark.parametrize("id", ["L4", "L18"])
def test_a_tombstone_that_may_have_been_stored_twice_may_have_deleted_its_key(
    id: str, idempotence: bool, verdict: str
) -> None:
    sends = "p0 send 1@0(key=k,tombstone=true); p0 send 2@1:k; p0 send 3@2:j"
    made = compacted(sends, "STARTS; scan 3@2 end=3", idempotence=idempotence)
    assert said(id, made) == verdict


@pytest.mark.parametrize(
    ("retention_ms", "verdict"), [(10**9, VIOLATED), (0, HOLDS), (None, NOT_CHECKED)]
)
@pytest.mark.parametrize("id", ["L3", "L4", "T1", "T7", "P2"])
def test_at_which_age_a_tombstone_goes_has_to_be_told(
    id: str, retention_ms: int | None, verdict: str
) -> None:
    dead, ids = "1@0(key=k,tombstone=true)", "producer_id=7 producer_epoch=0"
    lines, meta = compacted(
        f"p0 txn_begin TXN; p0 send {dead} TXN {ids}; p0 send 2@1:j TXN {ids}; p0 txn_commit TXN",
        f"STARTS; scan {dead if id == 'T7' else ''} 2@1 end=3",
        "scan#1 list_offsets query=earliest offsets=0" if id == "T7" else "",
        "scan#1 2@1 end=3 isolation=read_committed",
    )
    meta["topics"]["t"]["delete_retention_ms"] = retention_ms
    assert said(id, (lines, meta)) == verdict


@pytest.mark.parametrize("id", ["G1", "G4"])
@pytest.mark.parametrize(
    ("protocol", "verdict"), [("classic", ALLOWED), ("consumer", NOT_CHECKED), (None, NOT_CHECKED)]
)
def test_nobody_has_to_permit_what_may_not_have_happened(
    id: str, protocol: str | None, verdict: str
) -> None:
    """Two owners in one generation: under KIP-848, that is none of the group's."""
    calls = """
        c0 assigned MEMBER; c1 assigned MEMBER member=c1; c1 assigned MEMBER generation=2
        c0 commit MEMBER offsets=0; scan end=0
    """
    lines, meta = trace(*story(calls, **MEMBER))
    meta["internal_topics"] = {"__consumer_offsets": {"unclean_leader_election": True}}
    for settings in meta["consumers"].values():
        settings["group_protocol"] = protocol
    assert said(id, (lines, meta)) == verdict


@pytest.mark.parametrize(("asked", "verdict"), [("", NOT_CHECKED), ("STARTS", VIOLATED)])
def test_what_a_query_by_time_did_not_find_may_have_been_deleted(asked: str, verdict: str) -> None:
    calls = story(f"""
        p0 send 1@0(timestamp=1001); p0 send 2@1(timestamp=1002)
        q0 list_offsets query=1001 offsets=1; {asked}; scan 2@1 end=2
    """)
    assert said("L16", trace(*calls)) == verdict


# Each passes over offset 1.
PASSED_OVER = {
    "C1": "c0 poll 2@0; c0 poll 3@2",
    "C3": "c0 seek offsets=1; c0 poll 3@2",
    "C5": "c0 poll 2@0 replica=1 high_watermark=3; c0 poll 3@2 replica=2 high_watermark=3",
    "G6": "c0 poll 2@0 MEMBER; c0 commit MEMBER offsets=2",
    "G8": "c0 poll 2@0 MEMBER; c0 process 2@0 group=g; c0 commit MEMBER offsets=2",
    "G10": "c1 commit MEMBER offsets=1; c0 poll 3@2 MEMBER",
    "S4": """
        s0 acquire 2@0(delivery_count=1) group=s member=s0#0
        s0 acknowledge 2@0(ack=accept) group=s member=s0#0
        s1 acquire 3@2(delivery_count=1) group=s member=s1#0
        s1 acknowledge 3@2(ack=accept) group=s member=s1#0
    """,
}


@pytest.mark.parametrize("id", PASSED_OVER)
def test_what_nobody_sent_may_have_been_aborted_where_its_reader_does_not_tell_its_isolation(
    id: str,
) -> None:
    calls = (
        f"p0 send 2@0; p0 send 3@2; {PASSED_OVER[id]}; STARTS; scan 2@0 9@1 3@2 end=3 isolation="
    )
    aborted, read = (
        trace(*story(calls + isolation, **MEMBER))
        for isolation in ("read_uncommitted", "read_committed")
    )
    silent = Removal.parse("isolation of scan")(aborted)
    verdicts = [said(id, one) for one in (aborted, silent, read)]
    assert verdicts == [HOLDS, NOT_CHECKED, ALLOWED if id == "S4" else VIOLATED]


@pytest.mark.parametrize("id", sorted(set(PASSED_OVER) - {"S4"}))
def test_what_is_there_at_last_may_have_been_below_the_start_that_somebody_was_told(
    id: str,
) -> None:
    """Another leader may have been ahead with its retention when it was passed over."""
    calls = f"p0 send 2@0; p0 send 9@1; p0 send 3@2; {PASSED_OVER[id]}; STARTS"
    last = "scan 2@0 9@1 3@2 end=3"
    verdicts = [
        said(id, trace(*story(f"{calls}; {asked}; {last}", **MEMBER)))
        for asked in ("c9 list_offsets query=earliest offsets=2", "")
    ]
    assert verdicts == [NOT_CHECKED, VIOLATED]


def test_what_was_deleted_with_the_head_of_a_log_was_not_moved_though_a_copy_is_left() -> None:
    asked = "c0 list_offsets query=earliest offsets=1"
    made = compacted("p0 send 1@0:k; p0 send 1@1:k", asked, "scan 1@1 end=2")
    made[1]["topics"]["t"]["min_compaction_lag_ms"] = 0
    less = Removal.parse("tail of c0#0 0")(made)
    assert [said("L19", one) for one in (made, less)] == [HOLDS, NOT_CHECKED]


def test_a_group_need_not_process_what_gave_way_to_what_its_other_member_was_given() -> None:
    calls = """
        c0 poll 4@0 MEMBER; p0 send 1@0; c1 poll 1@0 MEMBER; c1 process 1@0 group=g
        c1 commit MEMBER offsets=1
    """
    lines, meta = trace(*story(calls, **MEMBER), acks="1")
    del meta["complete"]
    assert said("G8", (lines, meta)) == NOT_CHECKED
    complete = trace(*story(f"{calls}; scan 1@0 end=1", **MEMBER), acks="1")
    assert said("G8", complete) == HOLDS
