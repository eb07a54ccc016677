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


SETTINGS: list[tuple[str, str, str, dict[str, Any], str, str]] = [
    # An anomaly, the check it is about, whose setting is changed and how, and what is said then.
    ("lose_a_batch_of_a_copy", "L14", "t", {}, "violated", "unclean_leader_election is true"),
    (
        "lose_a_batch_of_a_copy",
        "L14",
        "t",
        {"unclean_leader_election": True},
        "allowed",
        "topics.t.unclean_leader_election = true",
    ),
    (
        "lose_a_batch_of_a_copy",
        "L14",
        "t",
        {"min_insync_replicas": 1},
        "allowed",
        "topics.t.min_insync_replicas = 1",
    ),
    ("lose_a_batch_of_a_copy", "L14", "t", {"cleanup_policy": None}, "not checked", UNTOLD),
    # Its key is the only one of its kind, so compaction excuses nothing.
    ("lose_a_batch_of_a_copy", "L14", "t", {"cleanup_policy": "compact"}, "violated", ""),
    ("changed", "L7", "t", {"unclean_leader_election": True}, "violated", "never allowed"),
    ("stamped_back", "L17", COMPACTED, {}, "allowed", "leader's clock"),
    (
        "stamped_back",
        "L17",
        COMPACTED,
        {"message_timestamp_type": "CreateTime"},
        "not checked",
        "saw nothing to judge",
    ),
    ("removed", "L18", COMPACTED, {}, "violated", "delete_retention_ms"),
    (
        "removed",
        "L18",
        COMPACTED,
        {"unclean_leader_election": True},
        "allowed",
        "unclean_leader_election = true",
    ),
    (
        "removed",
        "L18",
        COMPACTED,
        {"cleanup_policy": "delete"},
        "not checked",
        "saw nothing to judge",
    ),
    ("remove_a_tombstone_early", "L18", COMPACTED, {}, "violated", "delete_retention_ms"),
    (
        "remove_a_tombstone_early",
        "L18",
        COMPACTED,
        {"delete_retention_ms": None},
        "not checked",
        UNTOLD,
    ),
    ("compact_early", "L19", COMPACTED, {}, "violated", "message_timestamp_type"),
    # The sender may have stamped its records with times long past.
    (
        "compact_early",
        "L19",
        COMPACTED,
        {"message_timestamp_type": "CreateTime"},
        "not checked",
        UNTOLD,
    ),
    ("compact_early", "L19", COMPACTED, {"min_compaction_lag_ms": 0}, "holds", ""),
    (
        "compact_early",
        "L19",
        COMPACTED,
        {"min_compaction_lag_ms": None},
        "not checked",
        UNTOLD,
    ),
    ("read_what_was_deleted", "A2", DELETED, {}, "violated", "flush_loses"),
    (
        "read_what_was_deleted",
        "A2",
        DELETED,
        {"unclean_leader_election": True},
        "allowed",
        "unclean_leader_election = true",
    ),
    ("read_what_was_deleted", "A2", DELETED, {"min_insync_replicas": 1}, "violated", ""),
    ("read_what_was_deleted", "A2", DELETED, {"flush_loses": True}, "allowed", "flush_loses"),
    (
        "read_what_was_deleted",
        "A2",
        DELETED,
        {"unclean_leader_election": None},
        "not checked",
        UNTOLD,
    ),
    ("elsewhere_by_key", "P6", KEYED, {}, "violated", "fewer partitions"),
    (
        "elsewhere_by_key",
        "P6",
        KEYED,
        {"partitions": None},
        "not checked",
        "partitions is miss",
    ),
]


@pytest.mark.parametrize(("anomaly", "id", "topic", "settings", "verdict", "words"), SETTINGS)
def test_the_settings_of_a_topic_decide(
    tmp_path: Path,
    anomaly: str,
    id: str,
    topic: str,
    settings: dict[str, Any],
    verdict: str,
    words: str,
) -> None:
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
    lines: Lines = {}
    times = iter(range(1_000, 9_000, 10))

    def call(process: str, op: str, **fields: Any) -> None:
        mine, at = lines.setdefault(process, []), next(times)
        line = {"process": process, "seq": len(mine), "op": op, "outcome": "ok"}
        mine.append(line | {"invoked_ns": at, "returned_ns": at + 5} | fields)

    for life, ids in (("old", (1, 2)), ("new", (3, 4))):
        about = {"topic_ids": {"m": life}}
        records = [{"topic": "m", "partition": 0, "offset": o, "id": i} for o, i in enumerate(ids)]
        for record in records:
            call("p#0", "send", records=[record], **about)
        read = {"records": records, "isolation": "read_uncommitted"}
        reported = {"high_watermark": {"m:0": 2}, "leader_epochs": {"m:0": 1}}
        call("c#0", "poll", **about, **read, **reported)
        if life == "new":
            at = {"partitions": ["m:0"], "offsets": {"m:0": 2}}
            call("scan#0", "scan", **about, **read, **at)
    for process in lines:
        call(process, "close")
    topic = {"partitions": 1, "min_insync_replicas": 2, "unclean_leader_election": False}
    producer = {"acks": "all", "idempotence": True, "max_in_flight": 5, "retries": 10}
    meta = {"format": 1, "complete": True, "topics": {"m": topic | {"cleanup_policy": "delete"}}}
    alone: Lines = json.loads(json.dumps(lines))  # no two lines share a record
    return alone, meta | {"producers": {"p": producer}, "consumers": {}}


def test_a_record_that_another_call_may_have_stored_is_in_no_order(tmp_path: Path) -> None:
    """A send failed or was not answered, and another producer sent its record again, later."""
    lines, meta = two_lives()
    lines["p#0"] = lines["p#0"][2:]
    failed, stored, close = lines["p#0"]
    other = json.loads(json.dumps(failed)) | {"process": "q#0", "seq": 0}
    failed["outcome"], failed["records"][0]["offset"] = "fail", None
    del failed["records"][0]["offset"]
    stored["records"][0]["offset"], other["records"][0]["offset"] = 0, 1
    later = {"invoked_ns": stored["returned_ns"] + 1, "returned_ns": stored["returned_ns"] + 2}
    lines["q#0"] = [other | later, close | {"process": "q#0"}]
    for mine in lines.values():
        for seq, line in enumerate(mine):
            line["seq"] = seq
            if line["op"] in ("poll", "scan"):
                line["records"] = [
                    {"topic": "m", "partition": 0, "offset": o, "id": i}
                    for o, i in ((0, 4), (1, 3))
                ]
    lines["c#0"] = lines["c#0"][1:]
    lines["c#0"][0]["seq"], lines["c#0"][1]["seq"] = 0, 1
    meta["producers"]["q"] = meta["producers"]["p"]
    assert said(tmp_path, lines, meta, "P1").verdict == "holds"
    failed["outcome"] = "info"  # either of the two may have put it there
    assert said(tmp_path, lines, meta, "P1").verdict == "holds"
    lines["q#0"][0]["records"][0]["id"] = 5  # now nobody else can have
    assert said(tmp_path, lines, meta, "P1").verdict == "violated"


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
    scan["records"].append({"topic": "m", "partition": 0, "offset": 2, "id": 2})
    scan["offsets"]["m:0"] = 3
    one = judged_lines(tmp_path, lines, meta)
    assert {v.check: v.verdict for v in one.verdicts}["A1"] == "violated"
    events = one.as_json()["checks"]["A1"]["witnesses"][0]["events"]
    assert [(e["process"], e["op"], e["id"]) for e in events] == [
        ("p#0", "send", 2),
        ("scan#0", "scan", 2),
    ]


def test_a_call_that_does_not_tell_the_life_leaves_the_log_undecided(tmp_path: Path) -> None:
    lines, meta = two_lives()
    del lines["c#0"][0]["topic_ids"]
    one = said(tmp_path, lines, meta, "L1")
    assert one.verdict == "not checked"
    assert "topic m was deleted and made again, and 3 rows tell neither its id" in one.reason


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
    stored = [small.record(2, 0), small.record(3, 1)]
    lines, meta = small.trace(
        ("p0#0", "send", {"records": [small.record(1, 0)]}),
        ("p1#0", "send", {"records": [small.record(2, 0)]}),
        ("c0#0", "poll", {"records": [small.record(2, 0)], "isolation": "read_uncommitted"}),
        ("p1#0", "send", {"records": [small.record(3, 1)]}),
        ("scan#0", "list_offsets", {"query": "earliest", "offsets": {small.PARTITION: log_start}}),
        small.scan(*stored[scanned:], end=2),
    )
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
