"""`highwater check --html`: one page that needs nothing else, and says what the verdicts say."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner
from justhtml import JustHTML

from tests.traces.fixture import Line, fixture, write
from tests.traces.judging import said
from traces.checks.catalogue import CHECKS
from traces.commands.check import check
from traces.engines import local
from traces.generate.small import IN_CALLS, injected
from traces.html.ownership import Owned
from traces.html.page import page
from traces.html.picture import Picture, picture
from traces.html.plots import lanes_of
from traces.html.sequence import calls, draw, moments
from traces.html.series import BINS, CELLS
from traces.ingest.history import Reading, read_history
from traces.ingest.run import Run, read_trace
from traces.model.arrow import pq
from traces.model.problems import BadInput, Problem
from traces.second_checker import Confirmed, Refuted
from traces.verdicts.happened import title
from traces.verdicts.judged import Judged
from traces.verdicts.sentences import sentences

DATA = Path(__file__).parent / "data"
HISTORIES = DATA / "histories"
RECORDING = DATA / "recordings" / "auto-commit"
Element = Any  # half of the parser's methods have no types


def drawn(path: Path) -> tuple[Judged, Picture]:
    """A judged run and its picture, without Spark."""
    one = Judged(path)
    edn = path.suffix == ".edn"
    one.run = read_history(path, Reading()) if edn else read_trace(path)
    pictured = picture(one.run)
    one.settle(local.find(one.table(0), {0: one.run.context}), strict=False)
    return one, pictured


def page_of(*paths: Path) -> bytes:
    runs = [drawn(path) for path in paths]
    return page([one for one, _ in runs], {n: seen for n, (_, seen) in enumerate(runs)})


def parsed(content: bytes) -> Element:
    """The page as a browser would read it, if the HTML standard has nothing against it."""
    return JustHTML(content.decode(), sanitize=False, strict=True).root


def text_of(element: Element) -> str:
    return " ".join(element.to_text().split())


def find(element: Element, selector: str) -> list[Element]:
    return list(element.query(selector))


@pytest.fixture(scope="module")
def recorded() -> tuple[Judged, Element]:
    one, seen = drawn(RECORDING)
    return one, parsed(page([one], {0: seen}))


@pytest.fixture
def lossy(tmp_path: Path) -> Path:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    meta["faults"] = [{"at_ns": 1_100, "what": "kill -9 broker 2"}, {"what": "rain"}]
    return write(tmp_path / "lossy", lines, meta)


def test_every_promise_is_told_with_its_verdict_and_its_reason(
    recorded: tuple[Judged, Element],
) -> None:
    one, root = recorded
    rows = find(root, "table.verdicts tbody tr")
    assert [text_of(row.query_one("th")) for row in rows] == list(CHECKS)
    for row, verdict in zip(rows, one.verdicts, strict=True):
        words = text_of(row)
        assert verdict.title in words
        assert verdict.verdict in words
        assert " ".join(verdict.reason.split()) in words
        assert (f"{verdict.count:,}" in words) or not verdict.count
        checked = CHECKS[verdict.check]
        assert " ".join(checked.formula.split()) in words
        assert verdict.verdict == "allowed" or checked.unless_text in words
        assert checked.spec in words
    cells = find(root, ".glance a.cell")
    assert [cell.attrs["href"] for cell in cells] == [f"#run-1-row-{id}" for id in CHECKS]


def test_a_page_begins_with_what_was_found_counted_and_in_words(
    recorded: tuple[Judged, Element],
) -> None:
    one, root = recorded
    first, *_ = find(root, "#main section > *")
    titles = [text_of(item) for item in find(first, "b")]
    assert titles == [title(incident) for incident in one.incidents]
    assert [text_of(item) for item in find(root, ".found > p")] == [
        " ".join(words.split()) for words in sentences(one.verdicts)[:-1]
    ]
    cells = {text_of(cell).split()[1]: text_of(cell) for cell in find(root, ".glance a.cell")}
    broken = [v for v in one.verdicts if v.verdict in ("violated", "allowed")]
    assert broken
    for verdict in broken:
        assert cells[verdict.check].endswith(f"{verdict.title}: {verdict.count:,}")


def test_every_witness_is_there_with_file_and_line_and_the_first_are_drawn(
    recorded: tuple[Judged, Element],
) -> None:
    one, root = recorded
    files = one.run.names.files.values() if one.run else ()
    for verdict in one.verdicts:
        if verdict.verdict not in ("violated", "allowed"):
            continue
        for n, (_, events) in enumerate(verdict.witnesses, 1):
            (figure,) = find(root, f"#run-1-{verdict.check}-{n}")
            rows = find(figure, "tbody tr")
            assert len(rows) == len(events)
            for row, event in zip(rows, events, strict=True):
                cells = [text_of(cell) for cell in find(row, "td")]
                assert cells[0] in files
                assert cells[2] == str(event["seq"])
            assert len(find(figure, "svg")) == (1 if n <= 3 else 0)
    assert said(one, "allowed") == {"G8", "G9"}


def call(process: str, seq: int, op: str, *times: int, **fields: Any) -> dict[str, Any]:
    known = dict(zip(("invoked_ns", "returned_ns"), times, strict=False))
    return {"process": process, "seq": seq, "op": op, "outcome": "ok", **known, **fields}


def story(*events: dict[str, Any], comparable: bool = True) -> list[tuple[str, int | None, bool]]:
    rows = moments(calls(events), comparable=comparable)
    return [(row.call.client, row.at, row.returns) for row in rows]


def test_a_diagram_tells_calls_and_returns_in_the_order_of_time() -> None:
    early = call("p#0", 3, "send", 10, 90, partition="t:0", offset=5, id=1)
    late = call("q#0", 8, "send", 20, 40, partition="t:0", offset=4, id=2)
    assert story(early, late) == [
        ("p#0", 10, False),
        ("q#0", 20, False),
        ("q#0", 40, True),
        ("p#0", 90, True),
    ]
    # What does not compare stays in the order in which the witness tells it.
    assert [who for who, _, _ in story(early, late, comparable=False)] == ["p#0"] * 2 + ["q#0"] * 2


def test_two_records_of_one_poll_are_one_call_with_two_answers() -> None:
    one = call("c#0", 3, "poll", 10, 90, partition="t:0", offset=5, id=1)
    two = call("c#0", 3, "poll", 10, 90, partition="t:0", offset=3, id=9)
    (made,) = calls([one, two])
    assert made.answers == ["offset 5: id 1", "offset 3: id 9"]
    assert story(one, two) == [("c#0", 10, False), ("c#0", 90, True)]


def words_of(*events: dict[str, Any]) -> list[str]:
    times = {n: f"{n} ms" for n in range(200)}
    svg = JustHTML(draw(events, times, "x", "a diagram"), sanitize=False, strict=False).root
    return [text_of(text) for text in find(svg, "text")]


def test_a_call_that_was_never_answered_or_was_refused_is_drawn_so() -> None:
    unanswered = call("p#0", 3, "send", 10, partition="t:0", id=1, outcome="info")
    refused = call("p#0", 4, "commit", 20, 30, group="g", offset=9, outcome="fail")
    words = words_of(unanswered, refused)
    assert "no answer: nobody knows" in words
    assert "refused" in words
    assert "committed" not in words
    assert {"p#0", "t:0", "group g", "10 ms", "20 ms", "30 ms"} <= set(words)


def test_an_offset_that_nobody_knows_is_asked_for_once() -> None:
    """A send without an answer, whose call returned all the same: it said `offset ??`."""
    words = words_of(call("p#0", 3, "send", 10, 20, partition="t:0", id=1, outcome="info"))
    assert "offset ?" in words


def test_lanes_stand_apart_for_what_is_said_between_them() -> None:
    """Only if there is room for it: words covered the head of a short arrow."""
    polled = call("c#0", 3, "poll", 10, 20, partition="t:0", high_watermark=17, offset=5, id=12345)
    drawings = [draw([polled], {10: "", 20: ""}, "x", "", lane_most=n) for n in (84, 400)]
    for svg, covered in zip(drawings, (True, False), strict=True):
        lines = re.findall(r'd="M([\d.]+),46 ', svg)
        apart = float(lines[1]) - float(lines[0])
        assert (apart < 6.6 * len("offset 5: id 12345") + 30) is covered
        assert 'class="time"' not in svg


def test_the_page_needs_nothing_but_itself(recorded: tuple[Judged, Element]) -> None:
    _, root = recorded
    (policy,) = find(root, "meta[http-equiv=Content-Security-Policy]")
    assert policy.attrs["content"].startswith("default-src 'none';")
    for element in find(root, "*"):
        for name, value in element.attrs.items():
            if name in ("src", "href", "data", "srcset", "poster", "action", "xlink:href"):
                assert value.startswith("#") or value == "data:,", (element.name, name, value)
            for address in re.findall(r"url\(([^)]*)\)", value or ""):
                assert address.startswith("#")
    (style,) = find(root, "style")
    assert "url(" not in text_of(style)
    assert "@import" not in text_of(style)


def test_every_reference_leads_to_one_place(recorded: tuple[Judged, Element]) -> None:
    _, root = recorded
    ids = [element.attrs["id"] for element in find(root, "[id]")]
    assert len(ids) == len(set(ids))
    for element in find(root, "*"):
        for name, value in element.attrs.items():
            named = [*re.findall(r"url\(#([^)]*)\)", value or "")]
            if name == "href" and value != "data:,":
                named.append(value[1:])
            if name == "aria-labelledby":
                named += value.split()
            assert set(named) <= set(ids)


def test_who_cannot_see_or_point_gets_the_same(recorded: tuple[Judged, Element]) -> None:
    _, root = recorded
    assert find(root, "html")[0].attrs["lang"] == "en"
    assert len(find(root, "h1")) == len(find(root, "main")) == 1
    levels = [int(heading.name[1]) for heading in headings(root)]
    assert all(after <= before + 1 for before, after in pairwise(levels)), "a level is skipped"
    for svg in find(root, "svg"):
        assert (svg.attrs["role"], bool(svg.attrs["aria-label"])) == ("img", True)
        assert all(link.attrs["tabindex"] == "-1" for link in find(svg, "a"))
    for table in find(root, "table"):
        assert all(cell.attrs["scope"] in ("col", "row") for cell in find(table, "th"))
    for scrolled in (*find(root, ".wide"), *find(root, ".drawing")):
        assert scrolled.attrs["tabindex"] == "0"
        assert scrolled.attrs.get("aria-label") or scrolled.attrs.get("aria-labelledby")


def headings(root: Element) -> Iterator[Element]:
    for element in find(root, "*"):
        if re.fullmatch(r"h[1-6]", element.name):
            yield element


def test_the_plots_say_what_they_show(recorded: tuple[Judged, Element]) -> None:
    _, root = recorded
    titles = [text_of(title) for title in find(root, ".plot > h3")]
    assert titles == [
        "Consumer lag of group g",
        "Unseen records",
        "Throughput",
        "Latency of sends",
        "Processes",
        "Offsets against time",
        "Ownership in group g",
        "Commit positions of group g",
    ]
    captions = [text_of(caption) for caption in find(root, ".plot > figcaption")]
    assert captions[0].endswith(", 0 at the end.")
    assert "9 members" in captions[6]
    faults = [text_of(fault) for fault in find(root, ".faults li")]
    assert len(faults) == 6
    assert faults[0].startswith("kill -9 client c0#0 at ")
    (lag,) = find(root, ".plot")[:1]
    tips = [text_of(title) for title in find(lag, "svg title")]
    assert sum(tip.startswith("1: kill -9 client c0#0 at ") for tip in tips) == 1
    marked = {link.attrs["href"] for link in find(root, ".plot svg a")}
    assert {"#run-1-G8-1", "#run-1-G9-1"} <= marked


def test_the_same_run_gives_the_same_page(lossy: Path) -> None:
    assert page_of(lossy) == page_of(lossy)


HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>$x_1$ {{7*7}} &amp; 漢\x00\x1b"


def test_no_name_gets_into_the_page_as_anything_but_text(tmp_path: Path) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    renamed: dict[str, list[Line]] = json.loads(
        json.dumps(lines).replace('"t"', '"$HOSTILE$"').replace('"t:', '"$HOSTILE$:')
    )
    for mine in renamed.values():
        for line in mine:
            line["process"] = f"{line['process']} {HOSTILE}"
            line["group"] = HOSTILE if "group" in line else None
            for record in line.get("records", ()):
                if "id" in record:
                    record["id"] = f"{record['id']} {HOSTILE}"
    hostile = json.dumps(HOSTILE)[1:-1]
    renamed = json.loads(json.dumps(renamed).replace("$HOSTILE$", hostile))
    consumer = meta["consumers"]["c0"] | {"group": HOSTILE}
    meta = {
        "format": 1,
        "run": HOSTILE,
        "source": HOSTILE,
        "complete": True,
        "topics": {HOSTILE: meta["topics"]["t"]},
        "producers": {f"{p}#0 {HOSTILE}": meta["producers"][p] for p in ("p0", "p1", "t0", "t1")},
        "consumers": {f"c0#0 {HOSTILE}": consumer, f"c1#0 {HOSTILE}": consumer},
        "faults": [{"at_ns": 1_100, "what": HOSTILE}, {"what": HOSTILE}],
    }
    content = page_of(write(tmp_path / "run", renamed, meta))
    root = parsed(content)
    assert find(root, "script") == []
    assert find(root, "img") == []
    assert all(not name.startswith("on") for e in find(root, "*") for name in e.attrs)
    assert b"\x00" not in content
    assert b"\x1b" not in content
    shown = HOSTILE.replace("\x00", "\\x00").replace("\x1b", "\\x1b")
    assert text_of(find(root, "h1")[0]).startswith(" ".join(shown.split()))
    assert find(root, ".found.violated")
    assert "49" not in text_of(find(root, "h1")[0])


def test_several_runs_are_an_index_and_only_what_is_violated_is_unfolded(lossy: Path) -> None:
    bad = Judged(lossy / "gone", error=BadInput([Problem("x<y>.ndjson", 1, "op", "expected")], 1))
    runs = [drawn(HISTORIES / "basic.edn"), drawn(lossy)]
    content = page([*(one for one, _ in runs), bad], {n: seen for n, (_, seen) in enumerate(runs)})
    root = parsed(content)
    rows = [text_of(row) for row in find(root, "table.index tbody tr")]
    assert [row.split()[0] for row in rows] == ["basic", "fixture", "gone"]
    assert "holds" in rows[0]
    assert {"violated", "L4"} <= set(rows[1].split())
    assert "bad input" in rows[2]
    unfolded = ["open" in details.attrs for details in find(root, "section.run > details")]
    assert unfolded == [False, True, True]
    assert "x<y>.ndjson:1: op: expected" in text_of(find(root, "#run-3")[0])
    assert len({e.attrs["id"] for e in find(root, "[id]")}) == len(find(root, "[id]"))


def test_what_was_not_checked_names_what_would_decide_it(tmp_path: Path) -> None:
    w = fixture(3)
    for line in w.lines["p0#0"]:
        for record in line.get("records", ()):
            record.pop("offset", None)
    del w.meta["complete"]
    one, seen = drawn(write(tmp_path / "run", w.lines, w.meta))
    root = parsed(page([one], {0: seen}))
    table = find(root, "table.reasons")[0]
    listed = [text_of(id) for id in find(table, "li > b")]
    assert sorted(listed) == sorted(said(one, "not checked"))
    words = text_of(table)
    assert "offset on every acked row" in words
    assert "complete: true in meta.json, and a final scan of every partition" in words


def columns_of(seen: Picture) -> int:
    """The size of a picture, in numbers."""
    arrays: list[Any] = []
    for one in seen.partitions.values():
        arrays += [one.end, one.unseen]
        arrays += [part for spans in (one.sends, one.reads) for part in (spans.at, spans.low)]
    for group in seen.groups:
        arrays += list(group.lag.values())
        arrays += [steps.at for steps in (*group.commits.values(), *group.refused.values())]
    return sum(len(array) for array in arrays)


def test_many_more_rows_are_the_same_picture_and_no_larger_page() -> None:
    one = Judged(RECORDING)
    one.run = read_trace(RECORDING)
    small = picture(one.run)
    columns, times = one.run.columns, 13
    moved = {
        "offset": int(columns["offset"].max()) + 1,
        "id": int(columns["id"].max()) + 1,
        "inv": small.end - small.start,
        "ret": small.end - small.start,
        "seq": int(columns["seq"].max()) + 1,
    }
    one.run.columns = {
        name: np.concatenate([np.where(c < 0, c, c + n * moved.get(name, 0)) for n in range(times)])
        for name, c in columns.items()
    }
    large = picture(one.run)
    assert large.rows == times * small.rows > 1_000_000
    assert columns_of(large) < 4 * columns_of(small)
    for partition in large.partitions.values():
        assert len(partition.sends.at) <= CELLS * 4
        assert partition.unread == times * small.partitions[partition.key].unread
    contexts = {0: one.run.context}
    one.run.columns = columns
    one.settle(local.find(one.table(0), contexts), strict=False)
    assert len(page([one], {0: large})) < 3_000_000


def drawings(content: bytes) -> int:
    """Bytes of drawings in a page."""
    return sum(map(len, re.findall(rb"<svg.*?</svg>", content, re.DOTALL)))


def test_many_runs_share_one_page_of_bounded_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, violated = (drawn(HISTORIES / name) for name in ("basic.edn", "dual-ownership.edn"))
    room = drawings(page([kept[0]], {0: kept[1]})) + drawings(page([violated[0]], {0: violated[1]}))
    runs = [kept, kept, kept, violated]
    monkeypatch.setattr("traces.html.page.PAGE", 4 * 40_000 + room + 3_000)
    monkeypatch.setattr("traces.html.page._DRAWINGS", 0)
    content = page([one for one, _ in runs], {n: seen for n, (_, seen) in enumerate(runs)})
    assert drawings(content) <= room * 1.05
    sections = find(parsed(content), "section.run")
    assert [bool(find(section, ".plot")) for section in sections] == [True, False, False, True]
    assert "check this run alone to see all of its plots" in text_of(sections[2])


def in_files(run: Run, folder: Path) -> Run:
    """The same run as `highwater ingest` leaves it: its rows in several files."""
    table = run.table(0)
    third = table.num_rows // 3 + 1
    parts = [folder / f"{n}.parquet" for n in range(3)]
    for n, part in enumerate(parts):
        pq.write_table(table.slice(n * third, third), part)
    return evolve(run, columns={}, parts=tuple(map(str, parts)))


def test_a_run_too_large_for_memory_is_drawn_from_a_sample_of_its_offsets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = Judged(RECORDING)
    one.run = read_trace(RECORDING)
    whole = picture(one.run)
    filed = in_files(one.run, tmp_path)
    same = picture(filed)
    assert (same.rows, same.every) == (whole.rows, 1)
    for key, partition in whole.partitions.items():
        assert np.array_equal(same.partitions[key].unseen, partition.unseen)
    monkeypatch.setattr("traces.html.rows.SAMPLE", whole.rows // 10 + 1)
    part = picture(filed)
    assert (part.rows, part.every, part.start, part.end) == (
        *(whole.rows, 10, whole.start, whole.end),
    )
    (group,), (sampled,) = whole.groups, part.groups
    assert sampled.owned == group.owned
    for key, partition in whole.partitions.items():
        guess = part.partitions[key]
        assert guess.unread == partition.unread == 0, "a send and its reads stay together"
        assert abs(int(guess.unseen.max()) - int(partition.unseen.max())) < 60
        assert sampled.commits[key].value.tolist() == group.commits[key].value.tolist()
        assert np.nanmax(np.abs(sampled.lag[key] - group.lag[key])) < 60
    one.settle([], strict=False)
    root = parsed(page([one], {0: part}))
    assert "one offset of 10 was looked at" in text_of(root)


def test_a_second_opinion_is_shown_with_its_witness(lossy: Path) -> None:
    one, seen = drawn(lossy)
    one.opinions = {("L3", 0): Confirmed(), ("L4", 0): Refuted("it is <there>")}
    root = parsed(page([one], {0: seen}))
    assert "confirmed by the second checker" in text_of(find(root, "#run-1-L3-1")[0])
    words = "refuted by the second checker, so one of the two is wrong: it is <there>"
    assert words in text_of(find(root, "#run-1-L4-1")[0])
    (note,) = (n for n in find(root, ".note.bad") if "disagree" in text_of(n))
    assert "L4 witness 1: it is <there>" in text_of(note)


def run_of(tmp_path: Path, lines: dict[str, list[dict[str, Any]]], **meta: Any) -> Picture:
    for process, mine in lines.items():
        for seq, line in enumerate(mine):
            line |= {"process": process, "seq": seq, "outcome": line.get("outcome", "ok")}
    whole = {"format": 1, "run": "small", "topics": {"t": {"partitions": 2}}, **meta}
    return picture(read_trace(write(tmp_path / "small", lines, whole)))


def at(begun: int, returned: int | None = None) -> dict[str, int]:
    return {"invoked_ns": begun, "returned_ns": begun + 10 if returned is None else returned}


def record(offset: int) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": offset, "id": offset}


def test_unseen_and_lag_are_counted_as_they_are_defined(tmp_path: Path) -> None:
    member: dict[str, Any] = {"group": "g", "generation": 1}
    lines: dict[str, list[dict[str, Any]]] = {
        "p#0": [{"op": "send", "records": [record(n)], **at(1_000 * n)} for n in range(4)],
        "c#0": [
            {"op": "assigned", "partitions": ["t:0"], **member, **at(500)},
            {"op": "poll", "records": [record(0), record(1)], **member, **at(4_000)},
            {"op": "commit", "offsets": {"t:0": 2}, **member, **at(5_000)},
            {"op": "revoked", "partitions": ["t:0"], **member, **at(7_000)},
            {"op": "committed", "offsets": {"t:0": 2}, **member, **at(8_000)},
        ],
        "scan#0": [
            {"op": "scan", "records": [record(0), record(1), record(2)], **at(90_000)},
        ],
    }
    seen = run_of(tmp_path, lines, complete=True)
    assert (seen.start, seen.end) == (0, 8_010)
    one = seen.partitions[0, 0]
    bins = [ns * BINS // seen.end for ns in (500, 1_500, 3_500, 4_500, 5_500, 8_000)]
    assert one.unseen[bins].tolist() == [1, 2, 4, 2, 2, 2]
    assert (one.unread, one.missing) == (2, 1)
    (group,) = seen.groups
    assert group.lag[0, 0][bins].tolist() == [1, 2, 4, 4, 2, 2]
    (owned,) = group.owned
    assert (owned.start, owned.end, owned.generation, owned.ending) == (510, 7_000, 1, "revoked")
    assert group.commits[0, 0].value.tolist() == [2]


def test_a_log_that_is_cut_back_does_not_leave_a_lag_that_never_ends(tmp_path: Path) -> None:
    sends = [0, 1, 2, 3, 4, 5, 2, 3]
    lines: dict[str, list[dict[str, Any]]] = {
        "p#0": [
            {"op": "send", "records": [record(o) | {"id": n}], **at(1_000 * n)}
            for n, o in enumerate(sends)
        ],
        "c#0": [
            {"op": "commit", "offsets": {"t:0": 1}, "group": "g", **at(1_500)},
            {"op": "commit", "offsets": {"t:0": 5}, "group": "g", **at(5_500)},
            {"op": "poll", "records": [record(1)], "group": "g", **at(7_500)},
            {"op": "commit", "offsets": {"t:0": 4}, "group": "g", **at(8_000)},
        ],
    }
    (group,) = run_of(tmp_path, lines).groups
    lag = group.lag[0, 0]
    assert (lag.min(), lag.max(), lag[-1]) == (0, 5, 0)


def test_what_was_aborted_is_not_awaited_and_what_was_committed_from_then_on(
    tmp_path: Path,
) -> None:
    def txn(number: int, op: str, **fields: Any) -> dict[str, Any]:
        return {"op": op, "txn": number, "transactional_id": "x", **fields}

    lines: dict[str, list[dict[str, Any]]] = {
        "p#0": [
            txn(0, "txn_begin", **at(0)),
            txn(0, "send", records=[record(0)], **at(100)),
            txn(0, "txn_abort", **at(200)),
            txn(1, "txn_begin", **at(300)),
            txn(1, "send", records=[record(2)], **at(400)),
            txn(1, "txn_commit", **at(2_000)),
        ],
        "c#0": [{"op": "poll", "records": [record(2)], **at(4_000)}],
    }
    seen = run_of(tmp_path, lines)
    one = seen.partitions[0, 0]
    bins = [ns * BINS // seen.end for ns in (250, 1_000, 2_500, 4_009)]
    assert one.unseen[bins].tolist() == [0, 0, 1, 0]
    assert one.unread == 0


def test_a_name_with_dollars_is_no_formula(tmp_path: Path) -> None:
    w = fixture(3)
    lines = json.loads(json.dumps(w.lines).replace('"t"', '"$x_1$"').replace('"t:', '"$x_1$:'))
    w.meta["topics"]["$x_1$"] = w.meta["topics"].pop("t")
    root = parsed(page_of(write(tmp_path / "run", lines, w.meta)))
    words = {text_of(text) for text in find(root, ".plot svg text")}
    assert {"$x_1$:0", "$x_1$:1"} <= words


def test_owners_at_the_same_time_stand_below_each_other() -> None:
    def owned(process: int, start: int, end: int) -> Owned:
        return Owned(0, 0, 0, process, 1, start, end, "")

    times = [owned(0, 0, 10), owned(1, 5, 20), owned(2, 10, 15), owned(3, 30, 40)]
    assert [lane for _, lane in lanes_of(times)] == [0, 1, 0, 0]


def test_no_step_back_is_smoothed_away_however_many_commits_there_are(tmp_path: Path) -> None:
    offsets = [*range(100, 4_108), 17, *range(4_109, 8_100)]
    lines: dict[str, list[dict[str, Any]]] = {
        "c#0": [
            {"op": "commit", "offsets": {"t:0": offset}, "group": "g", **at(100 * n)}
            for n, offset in enumerate(offsets)
        ]
    }
    (group,) = run_of(tmp_path, lines).groups
    kept = group.commits[0, 0].value.tolist()
    assert len(kept) <= 4 * BINS
    assert (kept[0], kept[-1], kept.count(17)) == (100, 8_099, 1)
    kept.remove(17)
    assert kept == sorted(kept)


def ownership_of(tmp_path: Path, *lines: dict[str, Any]) -> list[tuple[int, int, int, str]]:
    member: dict[str, Any] = {"group": "g", "generation": 1}
    lines_of = {"c#0": [member | line for line in lines], "d#0": [{"op": "poll", **at(9_000)}]}
    (group,) = run_of(tmp_path, lines_of).groups
    return [(one.partition, one.start, one.end, one.ending) for one in group.owned]


def test_ownership_ends_with_what_ended_it(tmp_path: Path) -> None:
    both = {"op": "assigned", "partitions": ["t:0", "t:1"], **at(0)}
    assert ownership_of(tmp_path / "1", both, {"op": "lost", "partitions": ["t:1"], **at(500)}) == [
        (0, 10, 9_010, ""),
        (1, 10, 500, "lost"),
    ]
    assert ownership_of(tmp_path / "2", both, {"op": "crash", **at(700)}) == [
        (0, 10, 700, "crashed"),
        (1, 10, 700, "crashed"),
    ]
    again = {"op": "assigned", "partitions": ["t:0"], "generation": 2, **at(600)}
    assert ownership_of(tmp_path / "3", both, again) == [
        (0, 10, 600, "assigned again"),
        (1, 10, 9_010, ""),
        (0, 610, 9_010, ""),
    ]


def without_times(line: Line) -> Line:
    return {name: value for name, value in line.items() if not name.endswith("_ns")}


def with_a_clock_each(line: Line) -> Line:
    return line | {"clock": line["process"]}


@pytest.mark.parametrize(
    ("change", "words", "plotted"),
    [
        (without_times, "No event of this run has a time, so nothing is plotted.", False),
        (with_a_clock_each, "clocks, whose times do not compare", True),
    ],
)
def test_times_that_are_not_there_or_do_not_compare_are_not_drawn_as_if_they_did(
    change: Callable[[Line], Line], words: str, plotted: bool, tmp_path: Path
) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    changed = {process: [change(line) for line in mine] for process, mine in lines.items()}
    root = parsed(page_of(write(tmp_path / "run", changed, meta)))
    assert words in text_of(root)
    titles = {text_of(title) for title in find(root, ".plot > h3")}
    assert bool(titles) == plotted
    assert not any("lag" in title or "Unseen" in title for title in titles)
    assert find(root, ".plot svg a") == [], "a mark would stand at a time of another clock"
    for text in find(root, ".witness svg text.time"):
        assert not text_of(text)


def test_a_missing_folder_and_a_missing_package_are_told_before_the_work(tmp_path: Path) -> None:
    asked = [str(RECORDING), "--html", str(tmp_path / "no" / "page.html")]
    result = CliRunner().invoke(check, asked)
    assert result.exit_code == 2
    assert "there is no folder" in result.output
    script = (
        "import sys\n"
        "sys.modules['matplotlib'] = None\n"
        "from refimpl.__main__ import main\n"
        f"sys.argv = ['highwater', 'check', {str(RECORDING)!r}, '--html', 'page.html']\n"
        "main()\n"
    )
    command = [sys.executable, "-c", script]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 2
    assert "the package `matplotlib`, which is not installed" in ran.stderr
    assert "pip install 'highwatermark[html]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_the_page_beside_everything_else(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    asked = [str(RECORDING), "--no-recheck", "--html", str(out)]
    ran = CliRunner().invoke(check, asked, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    assert out.read_bytes() == page_of(RECORDING)
    assert list(tmp_path.iterdir()) == [out]
