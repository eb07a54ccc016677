"""Settings and fields of a trace that decide about logs, copies, compaction and topics."""

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.traces import small
from tests.traces.fixture import Line, fixture
from tests.traces.judging import judged_lines
from tests.traces.search import broken_somewhere
from tests.traces.stories import story
from traces.generate.small import IN_CALLS, injected
from traces.generate.small.logs import COMPACTED, DELETED, KEYED, SCANNER, WRITER, scan_of
from traces.second_checker import from_lines
from traces.verdicts.verdict import UNTOLD, Verdict

Lines = dict[str, list[Line]]
SEED = 7


def with_anomaly(name: str) -> tuple[Lines, dict[str, Any]]:
    return injected(fixture(SEED), IN_CALLS[name])


def the_truth() -> tuple[Lines, dict[str, Any]]:
    w = fixture(SEED)
    lines, meta = json.loads(json.dumps([w.lines, w.meta]))
    return lines, meta


def said(folder: Path, lines: Lines, meta: dict[str, Any], id: str) -> Verdict:
    return {v.check: v for v in judged_lines(folder, lines, meta).verdicts}[id]


def every(lines: Lines, field: str, *ops: str) -> None:
    """Take a field of records away."""
    for mine in lines.values():
        for line in mine:
            if line["op"] in ops:
                for record in line.get("records", ()):
                    record.pop(field, None)


UNCLEAN = {"unclean_leader_election": True}
CREATE_TIME = {"message_timestamp_type": "CreateTime"}
NOTHING = "saw nothing to judge"
Said = tuple[dict[str, Any], str, str]  # settings, a verdict, and words of its reason
#: By an anomaly, the check it is about, and a topic: what is said with other settings of the topic.
SETTINGS: dict[tuple[str, str, str], list[Said]] = {
    ("lose_a_batch_of_a_copy", "L14", "t"): [
        ({}, "violated", "unclean_leader_election is true"),
        (UNCLEAN, "allowed", "topics.t.unclean_leader_election = true"),
        ({"min_insync_replicas": 1}, "allowed", "topics.t.min_insync_replicas = 1"),
        ({"cleanup_policy": None}, "not checked", UNTOLD),
        # Its key is the only one of its kind, so compaction excuses nothing.
        ({"cleanup_policy": "compact"}, "violated", ""),
    ],
    ("changed", "L7", "t"): [(UNCLEAN, "violated", "never allowed")],
    ("stamped_back", "L17", COMPACTED): [
        ({}, "allowed", "leader's clock"),
        (CREATE_TIME, "not checked", NOTHING),
    ],
    ("removed", "L18", COMPACTED): [
        ({}, "violated", "delete_retention_ms"),
        (UNCLEAN, "allowed", "unclean_leader_election = true"),
        ({"cleanup_policy": "delete"}, "not checked", NOTHING),
    ],
    ("remove_a_tombstone_early", "L18", COMPACTED): [
        ({}, "violated", "delete_retention_ms"),
        ({"delete_retention_ms": None}, "not checked", UNTOLD),
    ],
    ("compact_early", "L19", COMPACTED): [
        ({}, "violated", "message_timestamp_type"),
        # The sender may have stamped its records with times long past.
        (CREATE_TIME, "not checked", UNTOLD),
        ({"min_compaction_lag_ms": 0}, "holds", ""),
        ({"min_compaction_lag_ms": None}, "not checked", UNTOLD),
    ],
    ("read_what_was_deleted", "A2", DELETED): [
        ({}, "violated", "flush_loses"),
        (UNCLEAN, "allowed", "unclean_leader_election = true"),
        ({"min_insync_replicas": 1}, "violated", ""),
        ({"flush_loses": True}, "allowed", "flush_loses"),
        ({"unclean_leader_election": None}, "not checked", UNTOLD),
    ],
    ("elsewhere_by_key", "P6", KEYED): [
        ({}, "violated", "fewer partitions"),
        ({"partitions": None}, "not checked", "partitions is miss"),
    ],
}


@pytest.mark.parametrize(
    ("about", "said_of_it"), [(about, one) for about, rows in SETTINGS.items() for one in rows]
)
def test_the_settings_of_a_topic_decide(
    tmp_path: Path, about: tuple[str, str, str], said_of_it: Said
) -> None:
    (anomaly, id, topic), (settings, verdict, words) = about, said_of_it
    lines, meta = with_anomaly(anomaly)
    meta["topics"][topic] |= settings
    one = said(tmp_path, lines, meta, id)
    assert one.verdict == verdict, one.reason
    assert words in one.reason


@pytest.mark.parametrize("partitioner", ["consistent_random", "org.example.Mine", None])
def test_a_key_belongs_to_a_partition_by_the_partitioner(
    tmp_path: Path, partitioner: str | None
) -> None:
    """Keys that murmur2 has placed are in the wrong place for any other."""
    lines, meta = the_truth()
    meta["producers"]["q0"]["partitioner"] = partitioner
    lines[WRITER][0]["partition_counts"] = {KEYED: meta["topics"][KEYED]["partitions"]}
    verdict = said(tmp_path, lines, meta, "P6").verdict
    assert verdict == ("violated" if partitioner == "consistent_random" else "not checked")


def test_a_partition_that_the_application_chose_is_its_own_affair(tmp_path: Path) -> None:
    lines, meta = with_anomaly("elsewhere_by_key")
    for line in lines[WRITER]:
        for record in line.get("records", ()):
            record["chosen"] = True
    one = said(tmp_path, lines, meta, "P6")
    assert (one.verdict, one.reason[:20]) == ("not checked", "saw nothing to judge")


@pytest.mark.parametrize("word", [True, None])
def test_who_may_have_chosen_the_partition_itself_is_accused_by_neither(
    tmp_path: Path, word: bool | None
) -> None:
    lines, meta = with_anomaly("elsewhere_by_key")
    for line in lines[WRITER]:
        for record in line.get("records", ()):
            record["chosen"] = word
    assert said(tmp_path, lines, meta, "P6").verdict == "not checked"
    assert broken_somewhere(from_lines(lines, meta), "P6") is None


# An anomaly or none, a check, the field of which records is taken away, and the reason then.
MISSING = [
    (None, "L7", "hash", ("send",), "saw nothing to judge"),
    (None, "L7", "hash", ("poll",), "hash is missing"),
    ("bits_flipped", "L14", "hash", ("dump",), "hash is missing"),
    ("keep_the_epoch_of_an_old_leader", "L14", "epoch", ("dump",), "epoch is missing"),
    ("stamped_otherwise", "L14", "timestamp", ("dump",), "timestamp is missing"),
    (None, "L14", "sequence", ("dump",), "sequence is missing"),
    (None, "L12", "epoch", ("scan",), "epoch is missing"),
    ("stamped_back", "L17", "timestamp", ("scan",), "saw nothing to judge"),
    ("stamped_back", "L17", "epoch", ("scan",), "saw nothing to judge"),
    ("removed", "L18", "key", ("send",), "key is missing"),
    ("removed", "L18", "tombstone", ("send",), "tombstone is missing"),
    ("removed", "L4", "tombstone", ("send",), UNTOLD),
    ("compact_early", "L19", "key", ("send",), "key is missing"),
    ("elsewhere_by_key", "P6", "key", ("send",), "saw nothing to judge"),
    ("elsewhere_by_key", "P6", "chosen", ("send",), "chosen is missing"),
    (None, "P6", "chosen", ("send",), "chosen is missing"),
]


@pytest.mark.parametrize(("anomaly", "id", "field", "ops", "reason"), MISSING)
def test_without_the_field_nothing_is_said(
    tmp_path: Path, anomaly: str | None, id: str, field: str, ops: tuple[str, ...], reason: str
) -> None:
    lines, meta = the_truth() if anomaly is None else with_anomaly(anomaly)
    every(lines, field, *ops)
    one = said(tmp_path, lines, meta, id)
    assert one.verdict == "not checked"
    assert reason in one.reason


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("replica", "replica is missing"),
        ("offsets", "records is missing on 2 of 154 dumped rows"),
        ("high_watermark", "saw nothing to judge"),
        ("log_start", "does not tell its log start"),
    ],
)
def test_a_dump_that_does_not_tell_its_bounds_is_compared_with_none(
    tmp_path: Path, field: str, reason: str
) -> None:
    lines, meta = the_truth()
    for line in lines["broker-2"]:
        line.pop(field, None)
    one = said(tmp_path, lines, meta, "L14")
    assert one.verdict == "not checked"
    assert reason in one.reason


def test_a_dump_with_lines_missing_lacks_nothing_for_sure(tmp_path: Path) -> None:
    lines, meta = the_truth()
    del lines["broker-1"][2]
    one = said(tmp_path, lines, meta, "L14")
    assert one.verdict == "not checked"
    assert "the file of broker-1 is not whole" in one.reason


@pytest.mark.parametrize("id", ["L11", "L13"])
@pytest.mark.parametrize(
    ("rack", "replica", "verdict"),
    [(None, True, "violated"), (None, False, "not checked"), ("", False, "violated")],
)
def test_two_replicas_may_tell_two_marks(
    tmp_path: Path, id: str, rack: str | None, replica: bool, verdict: str
) -> None:
    """One leader never goes back; without knowing who answered, only a client without a rack is
    sure to have asked the leader."""
    anomalies = {"L11": "watermark_back", "L13": "log_start_back"}
    lines, meta = with_anomaly(anomalies[id])
    for consumer in meta["consumers"].values():
        consumer |= {} if rack is None else {"rack": rack}
    for line in lines["c0#0"] + lines["c1#0"]:
        if not replica:
            line.pop("replica", None)
    assert said(tmp_path, lines, meta, id).verdict == verdict


@pytest.mark.parametrize("field", ["leader_epochs", "replica"])
def test_another_leader_or_replica_may_be_behind(tmp_path: Path, field: str) -> None:
    """Each poll in an epoch, or from a replica, of its own."""
    lines, meta = with_anomaly("watermark_back")
    for number, line in enumerate(lines["c0#0"]):
        if line["op"] == "poll":
            other = dict.fromkeys(line["leader_epochs"], number)
            line[field] = number if field == "replica" else other
    assert said(tmp_path, lines, meta, "L11").verdict == "holds"


def test_nobody_who_tells_no_log_start_says_that_what_was_deleted_is_gone(tmp_path: Path) -> None:
    """A log start below what was deleted would be the breach, whatever is read and asked."""
    lines, meta = the_truth()
    assert said(tmp_path, lines, meta, "A2").verdict == "holds"
    for line in (line for mine in lines.values() for line in mine if line["op"] == "poll"):
        line.pop("log_start", None)
    verdict = said(tmp_path, lines, meta, "A2")
    assert (verdict.verdict, verdict.reason) == ("not checked", "the polls tell no log start")


def test_what_a_consumer_had_fetched_before_may_be_read_after(tmp_path: Path) -> None:
    """Only a position that was set after the deletion shows that the record was still there."""
    lines, meta = the_truth()
    (deletion,) = (line for line in lines["admin#0"] if line["op"] == "delete_records")
    (early,) = (x for x in lines[WRITER] if _holds(x, DELETED, 0))
    record = {k: v for k, v in early["records"][0].items() if k != "tombstone"} | {"epoch": 1}
    at, late = deletion["invoked_ns"] - 1, deletion["returned_ns"] + 5
    reader: Line = {"process": "r#0", "outcome": "ok"}
    lines["r#0"] = [
        reader | {"seq": 0, "op": "assign", "partitions": [f"{DELETED}:0"], "invoked_ns": at},
        reader | {"seq": 1, "op": "poll", "records": [record], "invoked_ns": late},
        reader | {"seq": 2, "op": "close"},
    ]
    lines["r#0"][0] |= {"returned_ns": at, "offsets": {f"{DELETED}:0": 0}}
    lines["r#0"][1] |= {"returned_ns": late, "isolation": "read_uncommitted", "replica": 1}
    lines["r#0"][1] |= {"log_start": {f"{DELETED}:0": 0}}
    assert said(tmp_path, lines, meta, "A2").verdict == "holds"
    lines["r#0"][0] |= {"invoked_ns": late - 1, "returned_ns": late - 1}
    # Who answered may be a leader that nobody had waited for; a final scan asks one that knows.
    assert said(tmp_path, lines, meta, "A2").verdict == "not checked"
    lines["r#0"][1] |= {"op": "scan", "offsets": {f"{DELETED}:0": 1}}
    assert said(tmp_path, lines, meta, "A2").verdict == "violated"


def _holds(line: Line, topic: str, offset: int) -> bool:
    return any(r["topic"] == topic and r["offset"] == offset for r in line.get("records", ()))


def a_record_below_a_log_start() -> tuple[Lines, dict[str, Any]]:
    """One client is told a log start, and another, asking later, is given what lies below it."""
    lines, meta = the_truth()
    partition, late = f"{DELETED}:0", lines[WRITER][-1]["returned_ns"]
    record = scan_of(lines, DELETED)["records"][0]
    assert record["offset"] == 2

    def client(process: str, at: int, start: int, records: list[Line]) -> None:
        calls: list[Line] = [
            {"op": "assign", "partitions": [partition], "offsets": {partition: start}},
            {"op": "poll", "isolation": "read_uncommitted", "records": records, "replica": 1}
            | {"high_watermark": {partition: 4}, "log_start": {partition: start}}
            | {"leader_epochs": {partition: 1}},
            {"op": "close"},
        ]
        of: Line = {"process": process, "outcome": "ok"}
        lines[process] = [
            of | {"seq": n, "invoked_ns": at + 2 * n, "returned_ns": at + 2 * n + 1} | call
            for n, call in enumerate(calls)
        ]

    client("r#0", late, 3, [])
    client("r#1", late + 10, 2, [record])
    return lines, meta


def test_a_record_below_a_log_start_that_was_told_before_is_found(tmp_path: Path) -> None:
    """By another client, of the same leader, asked later."""
    lines, meta = a_record_below_a_log_start()
    one = judged_lines(tmp_path, lines, meta)
    found = {v.check: v for v in one.verdicts}["L13"]
    assert (found.verdict, found.kinds) == ("violated", {"read-below-log-start": 1})
    events = one.as_json()["checks"]["L13"]["witnesses"][0]["events"]
    assert [(e["process"], e["op"], e["offset"]) for e in events] == [
        ("r#0", "log_start", 3),
        ("r#1", "poll", 2),
    ]
    lines["r#1"][1]["leader_epochs"] = {f"{DELETED}:0": 2}
    assert said(tmp_path, lines, meta, "L13").verdict == "holds"


@pytest.mark.parametrize(
    ("process", "field", "reason"),
    [
        ("r#0", "log_start", "the polls of r#0 tell no log start"),
        ("r#1", "log_start", "the polls of r#1 tell no log start"),
        ("r#0", "replica", "the polls of r#0 tell not which replica answered"),
        ("r#1", "replica", "the polls of r#1 tell not which replica answered"),
    ],
)
def test_a_poll_that_tells_no_log_start_or_no_replica_may_hide_one(
    tmp_path: Path, process: str, field: str, reason: str
) -> None:
    lines, meta = a_record_below_a_log_start()
    del lines[process][1][field]
    one = said(tmp_path, lines, meta, "L13")
    assert one.verdict == "not checked"
    assert reason in one.reason


@pytest.mark.parametrize("process", ["r#0", "r#1"])
def test_two_clients_without_a_rack_ask_one_leader(tmp_path: Path, process: str) -> None:
    """The replica need not be recorded: an epoch has one leader."""
    lines, meta = a_record_below_a_log_start()
    meta["consumers"] |= {"r": {"rack": ""}}
    del lines[process][1]["replica"]
    assert said(tmp_path, lines, meta, "L13").verdict == "violated"


@pytest.mark.parametrize(("id", "field"), [("L13", "log_start"), ("L11", "high_watermark")])
def test_a_client_that_tells_watermarks_tells_them_with_every_poll(
    tmp_path: Path, id: str, field: str
) -> None:
    """A poll without them may have been the one that was told less; an empty map tells of none."""
    lines, meta = the_truth()
    mine = lines["c1#0"]
    closed = mine.pop()
    at = {name: closed[name] for name in ("process", "seq", "invoked_ns", "outcome")}
    empty: Line = at | {"op": "poll", "records": [], "returned_ns": closed["invoked_ns"], field: {}}
    mine += [empty, closed | {"seq": closed["seq"] + 1}]
    assert said(tmp_path, lines, meta, id).verdict == "holds"
    del empty[field]
    one = said(tmp_path, lines, meta, id)
    assert (one.verdict, one.reason.split(" on ")[0]) == ("not checked", f"{field} is missing")


def test_a_scan_without_the_time_of_its_call_hides_where_it_started(tmp_path: Path) -> None:
    lines, meta = with_anomaly("read_what_was_deleted")
    before = said(tmp_path, lines, meta, "C3")
    assert before.verdict == "violated"
    for line in lines[SCANNER]:
        line.pop("invoked_ns", None)
    assert said(tmp_path, lines, meta, "C3").verdict == "not checked"


def test_a_record_above_the_high_watermark_of_its_answer_accuses_nobody(tmp_path: Path) -> None:
    """A broker takes the high watermark of an answer before it reads the records."""
    lines, meta = with_anomaly("watermark_back")
    assert said(tmp_path, lines, meta, "C5").verdict == "holds"


def two_lives() -> tuple[Lines, dict[str, Any]]:
    """A topic that is deleted and made again: other records at the same offsets."""
    calls = """
        p0 send 1@0 OLD; p0 send 2@1 OLD; c0 poll 1@0 2@1 OLD REPORTS
        p0 send 3@0 NEW; p0 send 4@1 NEW; c0 poll 3@0 4@1 NEW REPORTS; scan 3@0 4@1 end=2 NEW
    """
    named = {"OLD": 'topic_ids={"t":"old"}', "NEW": 'topic_ids={"t":"new"}'}
    named["REPORTS"] = "isolation=read_uncommitted high_watermark=2 leader_epochs=1"
    return small.trace(*story(calls, **named))


@pytest.mark.parametrize(
    ("outcome", "again", "verdict"),
    [
        ("fail", 3, "holds"),
        ("info", 3, "holds"),  # either of the two may have put it there
        ("info", 5, "violated"),  # now nobody else can have
    ],
)
def test_a_record_that_another_call_may_have_stored_is_in_no_order(
    outcome: str, again: int, verdict: str, tmp_path: Path
) -> None:
    """A send failed or was not answered, and another producer sent its record again, later."""
    calls = f"""
        p0 send 3 outcome={outcome}; p0 send 4@0; p1 send {again}@1
        c0 poll 4@0 3@1 isolation=read_uncommitted; scan 4@0 3@1 end=2
    """
    assert said(tmp_path, *small.trace(*story(calls)), "P1").verdict == verdict


def test_a_topic_made_again_is_another_log(tmp_path: Path) -> None:
    """Nothing of its former life is lost, doubled or replaced, and nothing comes back."""
    lines, meta = two_lives()
    one = judged_lines(tmp_path, lines, meta)
    verdicts = {v.check: v.verdict for v in one.verdicts}
    assert "violated" not in verdicts.values()
    for id in ("A1", "L1", "L3", "L4", "L8", "L15", "P1"):
        assert verdicts[id] == "holds", id


def test_what_was_deleted_with_its_topic_does_not_come_back(tmp_path: Path) -> None:
    lines, meta = two_lives()
    scan = lines["scan#0"][0]
    scan["records"].append(small.record(2, 2))
    scan["offsets"]["t:0"] = 3
    one = judged_lines(tmp_path, lines, meta)
    assert {v.check: v.verdict for v in one.verdicts}["A1"] == "violated"
    events = one.as_json()["checks"]["A1"]["witnesses"][0]["events"]
    assert [(e["process"], e["op"], e["id"]) for e in events] == [
        ("p0#0", "send", 2),
        ("scan#0", "scan", 2),
    ]


def test_a_call_that_does_not_tell_the_life_leaves_the_log_undecided(tmp_path: Path) -> None:
    lines, meta = two_lives()
    del lines["c0#0"][0]["topic_ids"]
    one = said(tmp_path, lines, meta, "L1")
    assert one.verdict == "not checked"
    assert "topic t was deleted and made again, and 3 rows tell neither its id" in one.reason


def test_two_leaders_have_two_clocks(tmp_path: Path) -> None:
    lines, meta = the_truth()
    first, *others = scan_of(lines, COMPACTED)["records"]
    first["timestamp"] += 1_000
    assert said(tmp_path, lines, meta, "L17").verdict == "allowed"
    for record in others:
        record["epoch"] += 1
    assert said(tmp_path, lines, meta, "L17").verdict == "holds"


def test_a_tombstone_of_unknown_fate_may_have_taken_its_key_along(tmp_path: Path) -> None:
    lines, meta = with_anomaly("removed")
    close = lines[WRITER].pop()
    for number, key in enumerate("acd"):
        record = {"topic": COMPACTED, "partition": 0, "id": 5_000 + number, "key": key}
        record |= {"tombstone": True, "hash": 1}
        line = {"process": WRITER, "seq": close["seq"] + number, "op": "send", "outcome": "info"}
        lines[WRITER].append(line | {"invoked_ns": 5, "records": [record]})
    lines[WRITER].append(close | {"seq": close["seq"] + 3})
    assert said(tmp_path, lines, meta, "L18").verdict == "holds"
    assert said(tmp_path, lines, meta, "L4").verdict == "not checked"


@pytest.mark.parametrize(
    ("idempotence", "verdict"), [(True, "violated"), (False, "allowed"), (None, "not checked")]
)
def test_of_two_copies_compaction_keeps_the_later(
    tmp_path: Path, idempotence: bool | None, verdict: str
) -> None:
    lines, meta = the_truth()
    meta["producers"]["q0"]["idempotence"] = idempotence
    scan = scan_of(lines, COMPACTED)
    scan["records"].append(scan["records"].pop(0) | {"offset": 8})
    scan["offsets"] = {f"{COMPACTED}:0": 9}
    assert said(tmp_path, lines, meta, "L19").verdict == verdict


def test_a_client_that_tells_no_watermark_among_others_that_do_is_missed(tmp_path: Path) -> None:
    lines, meta = the_truth()
    for line in lines["c0#0"]:
        line.pop("high_watermark", None)
    one = said(tmp_path, lines, meta, "L11")
    assert one.verdict == "not checked"
    assert "c0#0" in one.reason
    assert "no high watermark" in one.reason


def test_without_a_policy_nobody_knows_what_compaction_removed(tmp_path: Path) -> None:
    lines, meta = the_truth()
    assert said(tmp_path, lines, meta, "L4").verdict == "holds"
    del meta["topics"][COMPACTED]["cleanup_policy"]
    assert said(tmp_path, lines, meta, "L4").verdict == "not checked"


@pytest.mark.parametrize(
    ("scanned", "log_start", "policy", "expected"),
    [
        (0, 0, "delete", "allowed"),
        (1, 0, "delete", "violated"),
        (1, 1, "delete", "not checked"),
        (1, 0, "compact", "not checked"),
    ],
)
def test_which_of_two_records_gave_way_no_scan_tells_that_may_lack_both(
    tmp_path: Path, scanned: int, log_start: int, policy: str, expected: str
) -> None:
    """Two acknowledged records at one offset, of which only the first may be lost: what retention
    or compaction removed need not have given way (found by seed 10 of the simulator)."""
    stored = "2@0 3@1" if scanned == 0 else "3@1"
    calls = story(f"""
        p0 send 1@0; p1 send 2@0; c0 poll 2@0 isolation=read_uncommitted; p1 send 3@1
        scan list_offsets query=earliest offsets={log_start}; scan {stored} end=2
    """)
    lines, meta = small.trace(*calls)
    meta["producers"]["p0"] = meta["producers"]["p0"] | {"acks": "1"}
    meta["topics"]["t"]["cleanup_policy"] = policy
    assert said(tmp_path, lines, meta, "L1").verdict == expected


def test_a_hash_of_32_bits_has_no_sign(tmp_path: Path) -> None:
    """librdkafka's CRC is above 2^31 for every other key."""
    lines, meta = the_truth()
    meta["producers"]["q0"]["partitioner"] = "consistent"
    for line in lines[WRITER]:
        for record in line.get("records", ()):
            if record["topic"] == KEYED:
                high = (k for k in map(str, range(999)) if crc32(k.encode()) >= 2**31)
                partition = record["partition"]
                record["key"] = next(k for k in high if crc32(k.encode()) % 5 == partition)
    assert said(tmp_path, lines, meta, "P6").verdict == "holds"
