"""Runs of Kafka 4.3.1 that agents recorded, judged by TLC; and with one line altered."""

import gzip
import random
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from chaos.recorders.kafka_lines import AgentLinesError, read_lines
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recording import REPLICATION
from properties.kafka import judged as judging
from properties.kafka.known import read_known
from properties.tla.specs import SpecTree
from properties.tla.tracecheck import validate_all
from properties.tla.tracefile import Trace, TraceEvent
from properties.tla.validate_command import validate
from tests.properties.kafka.agent_files import noticed

RUNS = Path(__file__).with_name("runs")
DOCS = Path(__file__).parents[3] / "docs"
STEPS = ("leader", "follower", "answer", "write", "hw", "asked", "alter", "changed", "loaded")
#: Of each kind of alteration
DRAWN = 20


@pytest.mark.java
def test_an_orderly_run_with_a_killed_leader_is_accepted() -> None:
    run = judging.judge(RUNS / "accepted", SpecTree())
    (one,) = run.partitions
    assert (one.verdict.accepted, one.explained, one.subject.ended) == (True, [], "")
    taken = Counter(event.action for event in one.trace.events)
    assert taken["Restart"] == taken["Register"] == 1
    assert taken["Write"] == 40
    assert taken["AdvanceHighWatermark"] > 30


@pytest.mark.java
def test_who_led_without_a_write_is_answered_that_it_diverges_and_cuts_nothing() -> None:
    (one,) = judging.judge(RUNS / "empty-epoch", SpecTree()).partitions
    assert (one.verdict.accepted, one.explained) == (True, [])
    lines = read_lines(RUNS / "empty-epoch").lines
    assert [line["div"] for line in lines if line["ev"] == "read" and line["div"]]
    assert one.subject.no_step["nothing to cut"] > 1
    assert "Truncate" in {event.action for event in one.trace.events}


@pytest.mark.java
def test_a_follower_that_joins_unregistered_is_explained_and_hurts_nobody_here() -> None:
    (one,) = judging.judge(RUNS / "unregistered-follower", SpecTree()).partitions
    assert [found.known.name for found in one.explained] == ["unregistered-follower"]
    assert one.verdict.accepted
    assert one.broken is None


@pytest.mark.java
@pytest.mark.parametrize(
    ("name", "step", "broken"),
    [
        ("missed-epoch", 95, 95),
        ("late-alter-partition", 163, 170),
        ("equal-partition-epoch", 178, 241),
    ],
)
def test_a_finding_is_rejected_at_its_step_and_explained(name: str, step: int, broken: int) -> None:
    (one,) = judging.judge(RUNS / name, SpecTree()).partitions
    assert [(found.known.name, found.verdict.event) for found in one.explained] == [(name, step)]
    assert one.verdict.accepted
    assert one.broken is not None
    assert (one.broken.promise, one.broken.event) == ("CommittedInIsr", broken)


@pytest.mark.java
def test_the_command_tells_the_guard_the_values_and_the_story(tmp_path: Path) -> None:
    svg = tmp_path / "story.svg"
    told = CliRunner().invoke(validate, ["--kafka", str(RUNS / "missed-epoch"), "--svg", str(svg)])
    assert told.exit_code == 0, told.output
    for text in (
        "missed-epoch, at step 95",
        "`new > highWatermark[l]`",
        "ends[2] = <<-1, -1, -1>>",
        "docs/kafka-diff.md, `KeepsFollowers`",
        "✗     95",
        "CommittedInIsr breaks at step 95",
    ):
        assert text in told.output
    assert "AdvanceHighWatermark(l=2)" in svg.read_text(encoding="utf-8")


@pytest.mark.java
def test_a_rejection_that_nothing_explains_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "read_known", lambda: read_known()[1:])
    told = CliRunner().invoke(validate, ["--kafka", str(RUNS / "missed-epoch")])
    assert told.exit_code == 1
    assert "step 95 is explained by no row" in told.output


@pytest.mark.java
@pytest.mark.parametrize(("new", "accepted"), [(1, True), (2, False), (3, False)])
def test_a_leader_may_wait_for_a_follower_that_it_has_not_asked_in(
    new: int, accepted: bool
) -> None:
    """Replica 3 is out of the ISR and has one record of three; replica 2 is in it and has two."""
    follows, laggard = {"f": 2, "l": 1}, {"f": 3, "l": 1}
    steps: list[tuple[str, dict[str, int]]] = [
        *[("Write", {"l": 1})] * 3,
        *[
            ("ShrinkIsr", laggard),
            ("AlterPartition", {"l": 1, "e": 1}),
            ("TakeIsrAnswer", {"l": 1}),
        ],
        *[("Fetch", {**follows, "n": 2}), ("FetchLost", follows)],
        *[("Fetch", {**laggard, "n": 1}), ("FetchLost", laggard)],
    ]
    events = [TraceEvent(n, name, params, {}) for n, (name, params) in enumerate(steps, start=1)]
    mark = {"highWatermark": [new, 0, 0]}
    events.append(TraceEvent(len(events) + 1, "WaitToJoin", {"l": 1}, mark))
    trace = Trace(Path("made-up"), "run", "Replication", "t:0", REPLICATION, events)
    (verdict,) = validate_all([trace], SpecTree())
    assert (verdict.accepted, verdict.event) == (False, len(events))
    (row,) = [row for row in read_known() if row.explains(verdict)]
    assert row.name == "waits-to-join"
    by_kafka = evolve(trace, constants=row.applied(REPLICATION))
    (verdict,) = validate_all([by_kafka], SpecTree())
    assert verdict.accepted == accepted


def test_each_explanation_has_its_row_and_its_report() -> None:
    rows = (DOCS / "kafka-diff.md").read_text(encoding="utf-8")
    for known in read_known():
        assert f"| {known.row}" in rows, known.name
        assert not known.report or (DOCS / "findings" / known.report).is_file()


def test_a_folder_without_agents_files_is_one_sentence(tmp_path: Path) -> None:
    told = CliRunner().invoke(validate, ["--kafka", str(tmp_path)])
    assert told.exit_code == 2
    assert "no agent wrote here" in told.output


# Lines that cannot be judged


def recorded_in(folder: Path, change: str, into: str) -> Path:
    """The accepted run with one text in place of another, once, in the controller's file."""
    for file in (RUNS / "accepted").iterdir():
        text = gzip.decompress(file.read_bytes()).decode()
        if "node-100" in file.name:
            assert change in text
            text = text.replace(change, into, 1)
        (folder / file.name.removesuffix(".gz")).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("change", "into", "said"),
    [
        ('"found":true', '"found":false', "so its steps are missing"),
        ('"ev":"created"', '"ev":"problem","where":"created","what":"x"', "the agent failed"),
        ('"n":30', '"n":31', "1 lines before it are missing"),
        ('"format":1', '"format":2', "format 2, and 1 is known here"),
        ('"boot":"', '"boot":"f', "several hosts"),
        ('"n":30,', '"n":30,,', "not JSON"),
    ],
)
def test_a_recording_with_a_gap_is_refused(
    tmp_path: Path, change: str, into: str, said: str
) -> None:
    with pytest.raises(AgentLinesError, match=said):
        read_lines(recorded_in(tmp_path, change, into))


def test_a_line_that_a_kill_tore_is_counted(tmp_path: Path) -> None:
    folder = recorded_in(tmp_path, '"found":true', '"found":true')
    file = folder / "node-3.steps.ndjson"
    file.write_text(file.read_text(encoding="utf-8") + '{"t":1,"n', encoding="utf-8")
    assert read_lines(folder).torn == 1


# Altered runs


def altered(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The run with one line left out, doubled, or with another number."""
    draw = random.Random(40)
    # A follower with nothing to fetch reads again and again: once more or less is no difference.
    steps = [i for i, line in enumerate(lines) if line["ev"] in STEPS]
    for kind in ("left out", "doubled"):
        for i in draw.sample(steps, DRAWN):
            middle = [] if kind == "left out" else [lines[i]] * 2
            yield kind, [*lines[:i], *middle, *lines[i + 1 :]]
    for kind, event, name, by in (
        ("high watermark", "hw", "hw", 1),
        ("high watermark", "hw", "hw", -1),
        ("log end", "write", "end", 1),
        ("fetched", "taken", "end", 1),
        ("leader epoch", "leader", "epoch", 1),
        ("leader", "changed", "lead", 1),
        ("partition epoch", "answer", "pe", 1),
    ):
        those = [i for i, line in enumerate(lines) if line["ev"] == event]
        for i in draw.sample(those, min(DRAWN, len(those))):
            changed = deepcopy(lines[i])
            changed[name] += by
            yield kind, [*lines[:i], changed, *lines[i + 1 :]]


def as_trace(run: KafkaRecorder, name: str) -> list[Trace]:
    """The trace of altered lines."""
    (one,) = run.all
    return list(judging.traces([one], name, RUNS))


@pytest.mark.java
def test_an_alteration_of_one_line_is_noticed() -> None:
    lines = read_lines(RUNS / "accepted").lines
    found, all_of = noticed(lines, altered(lines), as_trace)
    for kind in ("high watermark", "leader epoch", "partition epoch", "fetched"):
        assert found[kind] == all_of[kind], kind
    # After the last write, or the last leader, nothing contradicts another one.
    assert found.total() >= 0.9 * all_of.total(), (all_of, found)
