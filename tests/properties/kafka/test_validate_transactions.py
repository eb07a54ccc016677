"""Transaction coordinators of Kafka, judged by TLC: recorded runs, and lines that nobody played."""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from chaos.recorders import kafka_transactions
from chaos.recorders.kafka_lines import read_lines
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recorders.kafka_states import NO_IDENTITY, Identity, Numbers, kind
from chaos.recorders.kafka_steps import ContradictingLinesError
from properties.kafka import judged as judging
from properties.kafka.judged import JudgedRun, JudgedSubject, judge
from properties.tla.specs import SpecTree
from properties.tla.tracefile import Trace
from tests.properties.kafka.agent_files import noticed
from tests.properties.kafka.coordinator_lines import ID, CoordinatorLines, write

RUNS = Path(__file__).with_name("runs")
#: Of each kind of alteration
DRAWN = 20
WAIT = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
SIZES = {"Producers": 3, "Partitions": 3, "MaxTransactions": 6, "MaxIds": 3}


def found(run: JudgedRun) -> dict[str, list[str]]:
    """The explanations of each transactional id; "?" for a rejection that nothing explains."""
    return {
        one.trace.subject: [
            *(each.known.name for each in one.explained),
            *["?"] * one.unexplained,
        ]
        for one in run.transactional_ids
    }


# Recorded runs


@pytest.mark.java
def test_a_run_with_a_killed_coordinator_is_accepted() -> None:
    run = judge(RUNS / "transactions", SpecTree())
    java, librdkafka, slow = (f"transactional id app-{n}" for n in (40, 141, 77))
    known = ["last-epoch-lost"]
    assert found(run) == {"transactional id first": [], java: known, librdkafka: [], slow: []}
    ids = {one.trace.subject: one.trace for one in run.transactional_ids}
    taken = {name: Counter(event.action for event in one.events) for name, one in ids.items()}
    assert (taken[java]["Failover"], taken[java]["InitFences"]) == (1, 1)
    assert (taken[java]["EndTxn"], taken[java]["EndRefused"]) == (4, 1)
    assert (taken[librdkafka]["Failover"], taken[librdkafka]["EndTxn"]) == (1, 3)
    assert (taken[slow]["TimeOut"], taken[slow]["EndAgain"]) == (1, 1)
    versions = {name: (one.constants or {})["Version"] for name, one in ids.items()}
    assert (versions[java], versions[librdkafka]) == (2, 1)
    assert all(one.broken is None and not one.subject.ended for one in run.transactional_ids)


def is_explained(one: JudgedSubject, name: str, step: int, promise: str, breaks_at: int) -> None:
    """A row explains the one rejection, and by Kafka's rules a promise breaks."""
    assert [(each.known.name, each.verdict.event) for each in one.explained] == [(name, step)]
    assert one.verdict.accepted
    assert one.broken is not None
    assert (one.broken.promise, one.broken.event) == (promise, breaks_at)


@pytest.mark.java
def test_a_zombie_that_aborts_is_rejected_at_its_step_and_hurts() -> None:
    (one,) = judge(RUNS / "zombie-aborts", SpecTree()).transactional_ids
    is_explained(one, "zombie-aborts", 28, "FencedForCause", 37)


@pytest.mark.java
def test_a_marker_that_is_dropped_is_rejected_and_leaves_a_record_open() -> None:
    _, *both = judge(RUNS / "marker-dropped", SpecTree()).transactional_ids
    for one in both:
        is_explained(one, "marker-dropped", 24, "NothingHangs", 24)


@pytest.mark.java
def test_half_of_a_transaction_is_rejected_where_its_coordinator_acts_too_early() -> None:
    *_, one = judge(RUNS / "uncommitted-load", SpecTree()).transactional_ids
    is_explained(one, "uncommitted-load", 17, "Atomic", 24)


# Lines that nobody played


def orderly() -> CoordinatorLines:
    lines = CoordinatorLines()
    lines.init()
    lines.transaction()
    return lines


def moved(lines: CoordinatorLines) -> None:
    """The coordinator changes in the middle of a transaction, which goes on."""
    lines.add(lines.partitions[:1])
    lines.load(2, lines.record())
    lines.add()
    lines.end()
    lines.markers()
    lines.complete()


def asked_once_more(lines: CoordinatorLines) -> None:
    """An instance asks again for the epoch that it was given at the end of its transaction."""
    number = lines.ask("init", lines.epoch - 1)
    lines.state = "EMPTY"
    lines.change("init", number)
    lines.answer(number, epoch=lines.epoch)
    lines.load(2, lines.record())
    lines.transaction(commit=False)


def given_up(lines: CoordinatorLines) -> None:
    """The record of a change is written, and not copied in time; the client asks again."""
    number = lines.ask("add", lines.epoch, parts=[*lines.partitions])
    before = lines.state, lines.parts
    lines.state, lines.parts = "ONGOING", lines.partitions
    lines.append("add", number)
    lines.line("txnGaveUp", state="ONGOING")
    lines.answer(number, "COORDINATOR_NOT_AVAILABLE")
    lines.state, lines.parts = before
    lines.transaction()


def written_again(lines: CoordinatorLines) -> None:
    """The record of a completion is not copied in time, and the coordinator writes it again."""
    lines.add()
    lines.end()
    lines.markers()
    lines.state, lines.parts = lines.state.replace("PREPARE", "COMPLETE"), ()
    lines.append("")
    lines.change("")
    lines.load(2, lines.record())
    lines.transaction()


def lost(lines: CoordinatorLines) -> None:
    """The next coordinator has not the record of the change that was under way."""
    before = lines.record()
    number = lines.ask("add", lines.epoch, parts=[*lines.partitions])
    lines.state, lines.parts = "ONGOING", lines.partitions
    lines.append("add", number)
    lines.offset -= 1
    lines.load(3, before)
    lines.line("txnState", node=1, **{**before, "state": "ONGOING"})  # for the one before
    lines.transaction()


def kept(lines: CoordinatorLines) -> None:
    """It has the record, which was committed just before."""
    lines.add()
    number = lines.ask("end", lines.epoch, commit=True)
    lines.epoch, lines.state = lines.epoch + (lines.version == 2), "PREPARE_COMMIT"
    lines.append("end", number)
    lines.load(2, lines.record())
    lines.markers()
    lines.complete()


def kept_and_asked_again(lines: CoordinatorLines) -> None:
    """The client did not get the answer of the first one, and asks the next for its end."""
    asked = lines.epoch
    kept(lines)
    number = lines.ask("end", asked, commit=True)
    lines.answer(number, epoch=lines.epoch if lines.version == 2 else -1)
    lines.transaction()


def deleted(lines: CoordinatorLines) -> None:
    """The markers of a topic that was deleted are left out."""
    lines.add()
    lines.end()
    lines.line("removed", x=None, topic=lines.name, id=lines.name)
    lines.markers(skip=True)
    lines.complete()


ALLOWED = [
    f"{play.__name__}-{version}"
    for play in (
        *(moved, asked_once_more, given_up, written_again),
        *(lost, kept, kept_and_asked_again, deleted),
    )
    for version in (1, 2)
    if (play, version) != (asked_once_more, 1)  # its ends give no epoch
]


def revives(lines: CoordinatorLines) -> None:
    lines.add()
    lines.fence()
    lines.markers()
    lines.complete()
    lines.answer(lines.ask("end", lines.epoch - 1, commit=False), epoch=lines.epoch)


def acts_early(lines: CoordinatorLines) -> None:
    number = lines.ask("add", lines.epoch, parts=[*lines.partitions])
    lines.state, lines.parts = "ONGOING", lines.partitions
    lines.append("add", number)
    lines.behind = 1
    lines.load(2, lines.record())
    lines.answer(lines.ask("add", lines.epoch, parts=[*lines.partitions]))


def drops_markers(lines: CoordinatorLines) -> None:
    lines.add()
    lines.end()
    lines.markers(skip=True)
    lines.complete()


def aborts_for_a_zombie(lines: CoordinatorLines) -> None:
    lines.init()
    lines.add()
    lines.fence(epoch=lines.epoch - 1)


FINDS = [
    ("revives", ["revived"], "FenceIsFinal"),
    ("acts_early", ["last-epoch-lost", "uncommitted-load"], None),
    ("drops_markers", ["marker-dropped"], "NothingHangs"),
    ("aborts_for_a_zombie", ["zombie-aborts"], None),
]


def answers_before_it_is_committed(lines: CoordinatorLines) -> None:
    number = lines.ask("add", lines.epoch, parts=[*lines.partitions])
    lines.state, lines.parts = "ONGOING", lines.partitions
    lines.append("add", number)
    lines.answer(number)


def changes_twice(lines: CoordinatorLines) -> None:
    lines.add()
    number = lines.ask("end", lines.epoch, commit=True)
    other = lines.ask("end", lines.epoch, commit=False)
    lines.last, lines.epoch, lines.state = lines.epoch, lines.epoch + 1, "PREPARE_COMMIT"
    lines.append("end", number)
    lines.state = "PREPARE_ABORT"
    lines.change("end", other)


def forgets_the_id(lines: CoordinatorLines) -> None:
    lines.load(2, None)


def completes_early(lines: CoordinatorLines) -> None:
    lines.add()
    lines.end()
    lines.complete()


def completes_twice(lines: CoordinatorLines) -> None:
    lines.complete()


def takes_an_old_epoch(lines: CoordinatorLines) -> None:
    number = lines.ask("add", lines.epoch - 1, parts=[*lines.partitions])
    lines.state, lines.parts = "ONGOING", lines.partitions
    lines.change("add", number)


def gives_an_epoch_twice(lines: CoordinatorLines) -> None:
    lines.epoch -= 1
    lines.init()


def keeps_the_epoch(lines: CoordinatorLines) -> None:
    lines.add()
    number = lines.ask("end", lines.epoch, commit=True)
    lines.last, lines.state = lines.epoch, "PREPARE_COMMIT"
    lines.change("end", number)


def loads_another_state(lines: CoordinatorLines) -> None:
    lines.add()
    lines.load(2, {**lines.record(), "parts": [lines.partitions[0]]})


REJECTED = [
    ("answers_before_it_is_committed", "Apply"),
    ("changes_twice", "EndTxn"),
    ("forgets_the_id", "Failover"),
    ("completes_early", "Complete"),
    ("completes_twice", "Complete"),
    ("takes_an_old_epoch", "AddPartition"),
    ("gives_an_epoch_twice", "InitAgain"),
    ("keeps_the_epoch", "Apply"),
    ("loads_another_state", "Failover"),
]
PLAYED = (
    *(moved, asked_once_more, given_up, written_again),
    *(lost, kept, kept_and_asked_again, deleted),
    *(revives, acts_early, drops_markers, aborts_for_a_zombie),
    *(answers_before_it_is_committed, changes_twice, forgets_the_id),
    *(
        completes_early,
        completes_twice,
        takes_an_old_epoch,
        gives_an_epoch_twice,
        keeps_the_epoch,
        loads_another_state,
    ),
)


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, JudgedSubject]:
    """The verdicts on all of them, by name and version: judged in one go."""
    every: dict[str, CoordinatorLines] = {}
    for version in (1, 2):
        for play in PLAYED:
            name = f"{play.__name__}-{version}"
            if version == 2 or name in ALLOWED:
                every[name] = lines = CoordinatorLines(name, len(every), version=version)
                lines.init()
                lines.transaction()
                play(lines)
    run = judge(write(tmp_path_factory.mktemp("plays"), [*every.values()]), SpecTree())
    of_id = {one.trace.subject: one for one in run.transactional_ids}
    return {name: of_id[f"transactional id {name}"] for name in every}


@pytest.mark.java
@pytest.mark.parametrize("name", ALLOWED)
def test_what_the_spec_allows_is_accepted(plays: Mapping[str, JudgedSubject], name: str) -> None:
    one = plays[name]
    assert one.verdict.accepted, one.verdict.why
    assert {each.known.name for each in one.explained} <= {"last-epoch-lost"}
    assert one.subject.ended == ""


@pytest.mark.java
@pytest.mark.parametrize(("name", "known", "broken"), FINDS)
def test_a_find_is_explained_by_its_row(
    plays: Mapping[str, JudgedSubject], name: str, known: list[str], broken: str | None
) -> None:
    one = plays[f"{name}-2"]
    assert [each.known.name for each in one.explained] == known
    assert one.verdict.accepted, one.verdict.why
    assert (one.broken.promise if one.broken else None) == broken


@pytest.mark.java
@pytest.mark.parametrize(("name", "action"), REJECTED)
def test_what_no_row_explains_is_rejected_at_its_step(
    plays: Mapping[str, JudgedSubject], name: str, action: str
) -> None:
    one = plays[f"{name}-2"]
    assert one.unexplained
    assert one.trace.events[one.verdict.event - 1].action == action


def takes_effect_from_nothing(lines: CoordinatorLines) -> None:
    lines.line("txnState", **lines.record())


def answers_nobody(lines: CoordinatorLines) -> None:
    lines.answer(77)


def asks_twice(lines: CoordinatorLines) -> None:
    for _ in range(2):
        lines.line("txnAsk", r=79, api="add", pid=7, pe=0, parts=[])


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (takes_effect_from_nothing, "a change without a record"),
        (answers_nobody, "an answer to no request"),
        (asks_twice, "request 79 has come before"),
    ],
)
def test_lines_that_contradict_each_other_are_refused(
    tmp_path: Path, play: Callable[[CoordinatorLines], None], said: str
) -> None:
    lines = orderly()
    play(lines)
    with pytest.raises(ContradictingLinesError, match=said):
        judging.merged(read_lines(lines.write(tmp_path)))


def test_an_id_whose_clients_change_the_version_ends_there(tmp_path: Path) -> None:
    lines = orderly()
    lines.version = 1
    lines.transaction()
    (one,) = judging.merged(read_lines(lines.write(tmp_path))).coordinators.all
    assert one.ended == "its clients change from one transaction version to the other"


def test_an_id_that_is_older_than_the_recording_is_not_judged(tmp_path: Path) -> None:
    lines = CoordinatorLines()
    lines.epoch = 5
    lines.load(2, lines.record())
    lines.init()
    merged = judging.merged(read_lines(lines.write(tmp_path))).coordinators
    assert not merged.all
    assert merged.unjudged == {f"transactional id {ID}": "it is older than the recording"}


@pytest.mark.java
@pytest.mark.parametrize("version", [1, 2])
def test_an_id_with_many_transactions_has_several_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(kafka_transactions, "MOST", 2)
    lines = CoordinatorLines(version=version)
    lines.init()
    for commit in (True, False, True, True, False):
        lines.transaction(commit)
    run = judge(lines.write(tmp_path), SpecTree())
    names = [f"transactional id {ID}{n}" for n in ("", "#2", "#3")]
    assert found(run) == {name: [] for name in names}
    ends = [sum(e.action == "EndTxn" for e in one.trace.events) for one in run.transactional_ids]
    assert ends == [2, 2, 1]


def test_states_of_older_versions_have_other_names() -> None:
    assert [kind({"state": name}) for name in ("PREPARE_COMMIT", "PrepareCommit", "EMPTY")] == [
        *("PrepareCommit", "PrepareCommit", "Empty")
    ]


def test_epochs_count_from_one_for_the_first_producer_id_alone() -> None:
    numbers = Numbers()
    assert numbers.identity(7, 0) == Identity(1, 1)
    assert numbers.identity(9, 0) == Identity(2, 0)
    assert numbers.identity(-1, -1) == NO_IDENTITY


# Altered runs


def altered(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The run with one line left out, doubled, or with another value."""
    draw = random.Random(40)
    events = ("txnAsk", "txnAnswer", "txnAppend", "txnState", "txnMarker", "txnLoaded")
    # A request that is told to wait decides nothing.
    waits = {(one["node"], one["r"]) for one in lines if one.get("error", "NONE") in WAIT}
    steps = [
        i
        for i, line in enumerate(lines)
        if line["ev"] in events
        and line["x"] != "first"
        and (line["node"], line.get("r")) not in waits
    ]
    for what in ("left out", "doubled"):
        for i in draw.sample(steps, DRAWN):
            middle = [] if what == "left out" else [lines[i]] * 2
            yield what, [*lines[:i], *middle, *lines[i + 1 :]]
    others: dict[str, Callable[[Any], Any]] = {
        "pe": lambda old: old + 1,
        "pid": lambda old: old + 1,
        "lpe": lambda old: old + 1,
        "state": lambda old: "ONGOING" if old != "ONGOING" else "EMPTY",
        "part": lambda old: old[:-1] + str(1 - int(old[-1])),
        "skip": lambda old: not old,
        "commit": lambda old: not old,
        "error": lambda _: "PRODUCER_FENCED",
    }
    for event in events:
        for name, other in others.items():
            those = [i for i in steps if lines[i]["ev"] == event and lines[i].get(name, -1) != -1]
            for i in draw.sample(those, min(DRAWN, len(those))):
                changed = {**lines[i], name: other(lines[i][name])}
                yield f"{event}.{name}", [*lines[:i], changed, *lines[i + 1 :]]


def as_traces(run: KafkaRecorder, name: str) -> list[Trace]:
    """The traces of altered lines, under one set of constants."""
    for one in run.coordinators.all:
        one.settle(SIZES["Producers"])
    traces = list(judging.traces(run.coordinators.all, name, RUNS))
    for one in traces:
        one.constants = {**(one.constants or {}), **SIZES, "KeepLastEpoch": False}
    return traces


@pytest.mark.java
def test_an_alteration_of_one_line_is_noticed() -> None:
    lines = read_lines(RUNS / "transactions").lines
    found, all_of = noticed(lines, altered(lines), as_traces)
    records = [f"{event}.{name}" for event in ("txnAppend", "txnState") for name in ("pe", "pid")]
    for what in (*records, "txnState.state", "txnLoaded.pe", "txnMarker.part", "txnMarker.skip"):
        # The run ends between the last record and its effect.
        assert found[what] >= all_of[what] - what.startswith("txnAppend") > 0, what
    # The answer to AddPartitionsToTxn changes nothing in the spec.
    assert found.total() >= 0.9 * all_of.total(), all_of - found
