"""Input that the readers accept, input that they refuse, and their messages."""

import gzip
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import orjson
import pytest

from tests.traces.fixture import Line, fixture, meta, write
from tests.traces.judging import counts, judged, judged_lines, verdicts
from traces.ingest.run import Run, read_pieces, read_trace
from traces.model.arrow import pa, pq
from traces.model.problems import BadInput
from traces.model.schema import NONE, Op


def run_of(folder: Path, *lines: Any, last: str = "\n", process: str = "p0#0") -> Run:
    """A run of one process file with these lines, each as JSON unless it is text already."""
    folder.mkdir(exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(meta()))
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / f"{process}.ndjson").write_text("\n".join(texts) + last)
    return read_trace(folder)


def line(ordinal: int, op: str = "send", **fields: Any) -> Line:
    record = {"topic": "t", "partition": 0, "offset": ordinal, "id": ordinal}
    base = {"process": "p0#0", "seq": ordinal, "op": op, "outcome": "ok"}
    return base | ({"records": [record]} if op == "send" else {}) | fields


def refused(folder: Path, *lines: Any, last: str = "\n") -> list[str]:
    with pytest.raises(BadInput) as caught:
        run_of(folder, *lines, last=last)
    return [str(problem) for problem in caught.value.problems]


def send_of(**fields: Any) -> Line:
    record = {"topic": "t", "partition": 0, "offset": 0, "id": 1} | fields
    return line(0, records=[record])


BAD_LINES: dict[str, tuple[Any, str]] = {
    "a return before its call": (
        line(0, invoked_ns=5, returned_ns=4),
        "p0#0.ndjson:1: returned_ns: expected at least invoked_ns, 5, found 4",
    ),
    "a partition that Kafka cannot have": (
        send_of(partition=2**40),
        "p0#0.ndjson:1: records[0].partition: expected a whole number of at least 0 and below"
        " 1000000, found 1099511627776",
    ),
    "a partition that no topic has, by name": (
        line(0, op="commit", offsets={"t:1000000": 1}),
        "p0#0.ndjson:1: offsets: expected names such as \"topic:partition\", found 't:1000000'",
    ),
    "a producer id below none": (
        line(0, producer_id=-2),
        "p0#0.ndjson:1: producer_id: expected a whole number of at least -1, found -2",
    ),
    "a generation below none": (
        line(0, group="g", generation=-3),
        "p0#0.ndjson:1: generation: expected a whole number of at least -1, found -3",
    ),
    "an epoch below none": (
        send_of(epoch=-7),
        "p0#0.ndjson:1: records[0].epoch: expected a whole number of at least -1 and below 2^31,"
        " found -7",
    ),
    "a timestamp below none": (
        send_of(timestamp=-4),
        "p0#0.ndjson:1: records[0].timestamp: expected a whole number of at least -1, found -4",
    ),
    "a misspelt query": (
        line(0, op="list_offsets", query="erliest", offsets={"t:0": 0}),
        "p0#0.ndjson:1: query: expected one of earliest, latest or a time in ms, found 'erliest'",
    ),
    **{
        f"an empty {field} of another kind": (
            line(0, op="dump", replica=1) | {field: json.loads(found)},
            f"p0#0.ndjson:1: {field}: expected {kind}, found {found}",
        )
        for field, found, kind in (
            ("records", "{}", "a list"),
            ("partitions", "{}", "a list"),
            ("offsets", "[]", "an object"),
            ("topic_ids", "[]", "an object"),
            ("high_watermark", "[]", "an object"),
        )
    },
    "an offset of thirty digits": (
        '{"process": "p0#0", "seq": 0, "op": "send", "outcome": "ok", '
        '"records": [{"topic": "t", "partition": 0, "id": 1, "offset": ' + "9" * 30 + "}]}",
        "p0#0.ndjson:1: records[0].offset: expected a whole number of at least 0, found 1e+30",
    ),
    "a partition in other digits": (
        line(0, op="commit", offsets={"t:\u0663": 1}),
        "p0#0.ndjson:1: offsets: expected names such as \"topic:partition\", found 't:\u0663'",
    ),
    "an unknown field that is too deep": (
        json.dumps(line(0))[:-1] + ', "note": ' + "[" * 300 + "]" * 300 + "}",
        "p0#0.ndjson:1: cannot be read: Recursion limit reached",
    ),
    "a line that is no JSON": (
        '{"process": "p0#0", "seq": 0,',
        "p0#0.ndjson:1: expected JSON: unexpected end of data",
    ),
    "a line that is no object": ("[1, 2]", "p0#0.ndjson:1: expected an object"),
    "an unknown op": (
        line(0, op="produce"),
        "p0#0.ndjson:1: op: expected one of send, poll, process, commit, committed, assign, "
        "subscribe, assigned, revoked, lost, seek, init_producer, txn_begin, txn_offsets, "
        "txn_commit, txn_abort, list_offsets, scan, crash, close, dump, delete_records, reset, "
        "acquire, acknowledge, pause, resume, delete_groups, delete_offsets, alter_offsets, "
        "create_partitions, alter_configs, metadata, create_topics, delete_topics, "
        "describe_topics, found 'produce'",
    ),
    "a reset without its reason": (
        line(0, op="reset"),
        "p0#0.ndjson:1: reason: is missing",
    ),
    "a reset for an unknown reason": (
        line(0, op="reset", reason="boredom"),
        "p0#0.ndjson:1: reason: expected one of no_offset, out_of_range, truncation, "
        "found 'boredom'",
    ),
    "an unknown acknowledgement": (
        line(0, op="acknowledge", records=[{"topic": "t", "partition": 0, "ack": "maybe"}]),
        "p0#0.ndjson:1: records[0].ack: expected one of accept, release, reject, renew, "
        "found 'maybe'",
    ),
    "a watermark below zero": (
        line(0, op="poll", high_watermark={"t:0": -1}),
        "p0#0.ndjson:1: high_watermark.t:0: expected a whole number of at least 0, found -1",
    ),
    "a topic id that is no string": (
        line(0, op="poll", topic_ids={"t": 7}),
        "p0#0.ndjson:1: topic_ids.t: expected a string, found 7",
    ),
    "an unknown outcome": (
        line(0, outcome="maybe"),
        "p0#0.ndjson:1: outcome: expected one of ok, fail, info, found 'maybe'",
    ),
    "no outcome": (
        {"process": "p0#0", "seq": 0, "op": "close"},
        "p0#0.ndjson:1: outcome: is missing",
    ),
    "a sequence number in words": (
        line(0, seq="zero"),
        "p0#0.ndjson:1: seq: expected a whole number of at least 0, found 'zero'",
    ),
    "a time with a fraction": (
        line(0, invoked_ns=1.5),
        "p0#0.ndjson:1: invoked_ns: expected a whole number of at least 0, found 1.5",
    ),
    "an offset below zero": (
        send_of(offset=-1001),
        "p0#0.ndjson:1: records[0].offset: expected a whole number of at least 0, found -1001",
    ),
    "a truth where an offset should be": (
        send_of(offset=True),
        "p0#0.ndjson:1: records[0].offset: expected a whole number of at least 0, found True",
    ),
    "an offset beyond 64 bits": (
        send_of(offset=2**63),
        "p0#0.ndjson:1: records[0].offset: expected a whole number of at least 0, "
        "found 9223372036854775808",
    ),
    "an id that is a list": (
        send_of(id=[1]),
        "p0#0.ndjson:1: records[0].id: expected a whole number or a string, found [1]",
    ),
    "a topic that is a number": (
        send_of(topic=7),
        "p0#0.ndjson:1: records[0].topic: expected a string, found 7",
    ),
    "a record without a topic": (
        line(0, records=[{"partition": 0}]),
        "p0#0.ndjson:1: records[0].topic: is missing",
    ),
    "a record that is no object": (
        line(0, records=[3]),
        "p0#0.ndjson:1: records[0]: expected an object, found 3",
    ),
    "records that are no list": (
        line(0, records={"topic": "t"}),
        "p0#0.ndjson:1: records: expected a list, found {'topic': 't'}",
    ),
    "a partition without its number": (
        line(0, op="assigned", partitions=["t:0", "t"]),
        "p0#0.ndjson:1: partitions[1]: expected \"topic:partition\", found 't'",
    ),
    "an offset in words": (
        line(0, op="commit", offsets={"t:0": "five"}),
        "p0#0.ndjson:1: offsets.t:0: expected a whole number of at least 0, found 'five'",
    ),
    "offsets that are a list": (
        line(0, op="commit", offsets=[5]),
        "p0#0.ndjson:1: offsets: expected an object, found [5]",
    ),
    "an isolation of one's own": (
        line(0, op="poll", isolation="serializable"),
        "p0#0.ndjson:1: isolation: expected one of read_committed, read_uncommitted, "
        "found 'serializable'",
    ),
    "a group that is a number": (
        line(0, op="commit", group=1),
        "p0#0.ndjson:1: group: expected a string, found 1",
    ),
    "topics that are one name": (
        line(0, op="subscribe", topics="orders"),
        "p0#0.ndjson:1: topics: expected a list, found 'orders'",
    ),
    "a topic of a subscription that is a number": (
        line(0, op="subscribe", topics=["orders", 7]),
        "p0#0.ndjson:1: topics[1]: expected a string, found 7",
    ),
    "a generation in words": (
        line(0, op="commit", group="g", generation="first"),
        "p0#0.ndjson:1: generation: expected a whole number of at least -1, found 'first'",
    ),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_named_by_file_line_and_field(case: str, tmp_path: Path) -> None:
    bad, message = BAD_LINES[case]
    assert refused(tmp_path, bad, line(1, op="close")) == [message]


@pytest.mark.parametrize(
    ("op", "field"),
    [
        *(("send", "records"), ("scan", "records"), ("scan", "partitions"), ("dump", "log_start")),
        *(("committed", "offsets"), ("assigned", "partitions"), ("subscribe", "topics")),
    ],
)
def test_null_says_as_much_as_nothing(op: str, field: str, tmp_path: Path) -> None:
    """A send with null for its records was none of any record: L5 was violated of what it sent."""
    first: Line = {"process": "p0#0", "seq": 0, "op": op, "outcome": "ok", "group": "g"}
    first |= {"partitions": ["t:0"]} if op == "committed" else {}
    absent, null = (
        run_of(tmp_path / name, first | more, line(1, op="close"))
        for name, more in (("absent", {}), ("null", {field: None}))
    )
    assert null.table(0) == absent.table(0)
    assert null.evidence.missing == absent.evidence.missing


def test_every_bad_line_is_counted_and_the_first_are_shown(tmp_path: Path) -> None:
    lines = [line(n, outcome="maybe") for n in range(30)]
    with pytest.raises(BadInput) as caught:
        run_of(tmp_path, *lines)
    assert caught.value.count == 30
    assert str(caught.value).endswith("… and 10 more")
    assert len(caught.value.problems) == 20


def test_lines_of_two_processes_in_one_file_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, line(0), line(1, process="p1#0")) == [
        "p0#0.ndjson:2: process: expected 'p0#0' as on the first line, found 'p1#0'"
    ]


def test_lines_out_of_order_are_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, line(0), line(5), line(4), line(6, op="close")) == [
        "p0#0.ndjson:3: seq: expected more than 5, found 4"
    ]


def test_a_line_torn_at_the_end_of_a_cut_off_file_is_reported_and_not_bad(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(0), '{"process": "p0#0", "se', last="")
    assert [str(w) for w in run.warnings] == [
        "p0#0.ndjson:2: the last line is incomplete (unexpected end of data)"
    ]
    assert run.calls == 1
    assert run.evidence.missing["producers.whole"] == "the file of p0#0 is cut off"


def test_a_file_without_close_or_crash_is_reported_as_cut_off(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(0))
    assert [str(w) for w in run.warnings] == [
        "p0#0.ndjson:1: op: the file ends without close or crash: cut off"
    ]
    assert run_of(tmp_path, line(0), line(1, op="crash")).warnings == []


def test_a_compressed_file_that_ends_in_the_middle_gives_what_it_holds(tmp_path: Path) -> None:
    whole = "".join(json.dumps(line(n)) + "\n" for n in range(2000)).encode()
    (tmp_path / "meta.json").write_text(json.dumps(meta()))
    (tmp_path / "p0#0.ndjson.gz").write_bytes(gzip.compress(whole)[:-400])
    run = read_trace(tmp_path)
    assert 0 < run.calls < 2000
    assert "the compressed file ends in the middle" in str(run.warnings[0])


def test_a_file_that_only_calls_itself_compressed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(meta()))
    (tmp_path / "p0#0.ndjson.gz").write_text(json.dumps(line(0)))
    with pytest.raises(BadInput, match=r"p0#0.ndjson.gz:1: expected gzip: "):
        read_trace(tmp_path)


BAD_META: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "meta.json:1: expected JSON: "),
    "no object": ("[]", "meta.json: expected an object"),
    "another format": ('{"format": 2}', "meta.json: format: expected 1, found 2"),
    "no format": ("{}", "meta.json: format: expected 1, found None"),
    "a number of partitions in words": (
        '{"format": 1, "topics": {"t": {"partitions": "three"}}}',
        "meta.json: topics.t.partitions: expected a whole number, found 'three'",
    ),
    "producers that are a list": (
        '{"format": 1, "producers": []}',
        "meta.json: producers: expected an object, found []",
    ),
    "a truth in words": (
        '{"format": 1, "complete": "yes"}',
        "meta.json: complete: expected true or false, found 'yes'",
    ),
    "a consumer that is no object": (
        '{"format": 1, "consumers": {"c0": "g"}}',
        "meta.json: consumers.c0: expected an object, found 'g'",
    ),
}


@pytest.mark.parametrize("case", BAD_META)
def test_bad_configuration_is_named_by_field(case: str, tmp_path: Path) -> None:
    text, message = BAD_META[case]
    (tmp_path / "p0#0.ndjson").write_text(json.dumps(line(0)) + "\n")
    (tmp_path / "meta.json").write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(tmp_path)
    assert str(caught.value.problems[0]).startswith(message)


def test_a_run_without_process_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(meta()))
    with pytest.raises(BadInput, match="expected process files"):
        read_trace(tmp_path)


def test_unknown_fields_are_kept_beside_the_table(tmp_path: Path) -> None:
    run = run_of(tmp_path, line(0, note="hot", attempt=2), line(1, op="close"))
    assert [(e.process, e.seq, orjson.loads(e.fields)) for e in run.extra] == [
        ("p0#0", 0, {"note": "hot", "attempt": 2})
    ]


def test_one_call_is_a_row_per_record_in_program_order(tmp_path: Path) -> None:
    given = [("t", 1, 4, "x"), ("u", 0, 9, 17), ("t", 1, 5, "y")]
    records = [{"topic": t, "partition": p, "offset": o, "id": i} for t, p, o, i in given]
    run = run_of(tmp_path, line(0, op="poll", records=records), line(1, op="close"))
    c, names = run.columns, run.names
    polls = np.flatnonzero(c["op"] == Op.POLL)
    assert c["idx"][polls].tolist() == [0, 1, 2]
    assert c["offset"][polls].tolist() == [4, 9, 5]
    assert [names.topics.name(int(t)) for t in c["topic"][polls]] == ["t", "u", "t"]
    assert [names.id_name(int(i)) for i in c["id"][polls]] == ["x", 17, "y"]
    assert c["inv"][polls].tolist() == [NONE, NONE, NONE]


def test_an_id_in_words_is_not_the_number_that_it_spells(tmp_path: Path) -> None:
    """ "7" and 7 are two records, and so are -1 and an id that is absent."""
    ids = ["7", 7, -1, None]
    records = [{"topic": "t", "partition": 0, "offset": n, "id": i} for n, i in enumerate(ids)]
    run = run_of(tmp_path, line(0, op="poll", records=records), line(1, op="close"))
    numbers = run.columns["id"][run.columns["op"] == Op.POLL].tolist()
    assert len(set(numbers)) == 4
    assert [run.names.id_name(n) for n in numbers] == ids


def as_parquet(folder: Path, lines: dict[str, list[Line]]) -> None:
    for process, mine in lines.items():
        names = sorted({name for line in mine for name in line})
        schema = pa.schema([(n, kind([x[n] for x in mine if n in x])) for n in names])
        rows: list[Any] = [
            {k: [*cast("Line", v).items()] if isinstance(v, dict) else v for k, v in line.items()}
            for line in mine
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"{process}.parquet")


def kind(values: list[Any]) -> Any:
    """The Arrow type of the values of a field: a map from places, not a struct of them."""
    several = [value for value in values if value is not None]
    if isinstance(several[0], dict):
        return pa.map_(pa.string(), kind([of for value in several for of in value.values()]))
    if isinstance(several[0], list) and (inner := [of for value in several for of in value]):
        if not isinstance(inner[0], dict):
            return pa.list_(kind(inner))
        names = sorted({name for record in inner for name in record})
        fields = [(name, kind([record.get(name) for record in inner])) for name in names]
        return pa.list_(pa.struct(fields))
    return pa.array(several).type


def test_parquet_of_the_same_columns_says_the_same(tmp_path: Path) -> None:
    w = fixture(3)
    one = judged_lines(tmp_path / "ndjson", w.lines, w.meta)
    other = tmp_path / "parquet"
    other.mkdir()
    (other / "meta.json").write_text(json.dumps(w.meta))
    as_parquet(other, w.lines)
    two = judged(other)
    assert verdicts(one) == verdicts(two)
    assert {v.check: v.reason for v in one.verdicts} == {v.check: v.reason for v in two.verdicts}


def test_a_bad_row_of_a_parquet_file_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(meta()))
    rows = [line(0, op="crash"), line(1, op="crash", outcome="perhaps")]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p0#0.parquet")
    with pytest.raises(BadInput, match=r"p0#0.parquet:2: outcome: expected one of ok, fail, info"):
        read_trace(tmp_path)


def test_a_send_whose_partition_nobody_knows_may_have_gone_to_any(tmp_path: Path) -> None:
    """It is no phantom where it turns up, and lost nowhere."""
    w = fixture(4)
    victim = next(x for x in w.lines["p0#0"] if x["op"] == "send")
    victim["outcome"] = "info"
    del victim["records"][0]["partition"], victim["records"][0]["offset"]
    one = judged_lines(tmp_path, w.lines, w.meta)
    assert counts(one) == {}
    assert verdicts(one)["L5"] == verdicts(one)["L4"] == "holds"


def test_a_commit_that_nobody_answered_is_proved_by_one_committed_read(tmp_path: Path) -> None:
    """And then all of the transaction has to be there."""
    w = fixture(5)
    end = [x for x in w.lines["t0#0"] if x["op"] == "txn_commit"][-1]
    end["outcome"] = "info"
    sends = [x for x in w.lines["t0#0"] if x["op"] == "send" and x["txn"] == end["txn"]]
    assert verdicts(judged_lines(tmp_path / "whole", w.lines, w.meta))["T1"] == "holds"
    ids = {x["records"][0]["id"] for x in sends}
    records = [r for mine in w.lines.values() for x in mine for r in x.get("records", ())]
    rest = [r for r in records if r.get("id") in ids]
    assert rest
    if len(sends) > 1:
        torn = sends[0]["records"][0]["id"]
        for mine in w.lines.values():
            for x in mine:
                if x["op"] in ("scan", "poll", "process"):
                    x["records"] = [r for r in x["records"] if r["id"] != torn]
        assert verdicts(judged_lines(tmp_path / "torn", w.lines, w.meta))["T1"] == "violated"


def test_writing_and_reading_a_fixture_twice_gives_the_same_rows(tmp_path: Path) -> None:
    w = fixture(6)
    one = read_trace(write(tmp_path / "a", w.lines, w.meta)).table(0)
    two = read_trace(write(tmp_path / "b", w.lines, w.meta)).table(0)
    assert one.equals(two)


def timed(seq: int, made: int | None, returned: int | None, clock: str | None = None) -> Line:
    times: dict[str, Any] = {"invoked_ns": made, "returned_ns": returned, "clock": clock}
    return line(seq, **{name: value for name, value in times.items() if value is not None})


WENT_BACK = (
    "p0#0.ndjson:2: returned_ns: expected at least 1000, when an earlier call was made, found 910: "
    "the clock 'host' went back (from here on, give it another name, or no times)"
)


def test_a_clock_that_went_back_is_refused_where_it_did(tmp_path: Path) -> None:
    """L9 would hold such times against Kafka, which did nothing wrong."""
    assert refused(tmp_path / "a", timed(0, 1000, 1010), timed(1, 900, 910)) == [WENT_BACK]
    assert refused(tmp_path / "b", timed(0, 1000, None), timed(1, None, 910)) == [WENT_BACK]


def test_a_clock_that_went_back_is_seen_over_the_border_of_a_piece(tmp_path: Path) -> None:
    lines = timed(0, 1000, 1010), timed(1, 900, 910)
    with pytest.raises(BadInput):
        run_of(tmp_path / "run", *lines)
    for size in (1, 100, 250):
        with pytest.raises(BadInput) as caught:
            read_pieces(tmp_path / "run", size)
        assert [str(problem) for problem in caught.value.problems] == [WENT_BACK]


def test_calls_inside_others_and_clocks_of_another_name_do_not_go_back(tmp_path: Path) -> None:
    """A callback runs inside a poll, and an asynchronous send is answered late."""
    run = run_of(
        tmp_path / "run",
        timed(0, 1020, 1030),
        timed(1, 1000, 1040),
        timed(2, 1050, 9000),
        timed(3, 1060, 1070),
        timed(4, 10, 20, "after the step"),
        timed(5, None, 1070),
    )
    assert run.calls == 6
