"""Group coordinators of Kafka, judged by TLC: recorded runs, and lines that nobody played."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from chaos.recorders.kafka_lines import AgentLinesError, read_lines
from chaos.recorders.kafka_recorder import KafkaRecorder
from chaos.recorders.kafka_steps import ContradictingLinesError
from properties.kafka import judged as judging
from properties.kafka.judged import JudgedSubject, judge
from properties.tla.specs import SpecTree
from properties.tla.tracefile import Trace
from tests.properties.kafka.agent_files import noticed
from tests.properties.kafka.group_lines import TOPIC_ID, GroupLines, MemberLine, write

RUNS = Path(__file__).with_name("runs")
#: Of each kind of alteration
DRAWN = 12

# A recorded run


@pytest.mark.java
def test_a_run_with_a_killed_coordinator_and_a_zombie_is_accepted() -> None:
    run = judge(RUNS / "groups", SpecTree())
    (one,) = run.groups
    assert one.verdict.accepted, one.verdict.why
    assert not one.explained
    assert (one.trace.subject, one.subject.ended, run.unjudged) == ("group billing", "", {})
    taken = Counter(event.action for event in one.trace.events)
    assert (taken["Load"], taken["Fence"], taken["Leave"], taken["Join"]) == (1, 2, 4, 6)
    assert (taken["ChangeTopics"], taken["RefuseHeartbeat"]) == (1, 1)
    assert min(taken["TakeCommit"], taken["ComputeTarget"], taken["Heartbeat"]) >= 5


@pytest.mark.java
def test_a_commit_in_the_partition_of_another_is_rejected_at_its_step_and_hurts() -> None:
    (one,) = judge(RUNS / "commit-of-another", SpecTree()).groups
    found = [(each.known.name, each.verdict.event) for each in one.explained]
    assert found == [("commit-of-another", 20)]
    assert one.verdict.accepted
    assert one.broken is not None
    assert one.broken.promise == "OnlyHoldersCommit"


# Lines that nobody played


def offset(partition: int, at: int) -> dict[str, Any]:
    """A commit's fields: what is asked for, and what is so."""
    asked = [[f"orders:{partition}", at]]
    return {"named": asked, "committed": asked}


def moved(lines: GroupLines) -> None:
    """The next coordinator has everything, and the group goes on."""
    lines.takes("a", 0, 5)
    lines.load(2)
    lines.takes("a", 0, 6)
    lines.beats("a")


def kept(lines: GroupLines) -> None:
    """The next one has a change that was not committed."""
    lines.append(op="commit", m="a", e=lines.members["a"].epoch, **offset(0, 7))
    lines.flush()
    lines.offsets[0] = 7
    lines.load(2)
    lines.commit()


def lost(lines: GroupLines) -> None:
    """It has not; and the one after it has neither."""
    epoch = lines.members["a"].epoch
    lines.append(op="commit", m="a", e=epoch, **offset(0, 7))
    lines.flush()
    lines.load(2, lines.offset - 1)
    lines.takes("a", 0, 3)
    lines.load(3)


def given_up(lines: GroupLines) -> None:
    """Changes of which the batch cannot be written have never been."""
    epoch, before = lines.members["a"].epoch, lines.offset
    lines.append(op="commit", m="a", e=epoch, **offset(0, 9))
    lines.append(records=0, **lines.asks("b", lines.members["b"].epoch, None))
    lines.offset = before
    lines.line("groupReverted", **lines.where, off=before)
    lines.takes("b", 1, 2)
    lines.load(2)


def killed_before_it_told(lines: GroupLines) -> None:
    """A batch is in the log of the next one, though no line of its writer says so."""
    lines.takes("a", 0, 5)
    epoch = lines.members["a"].epoch
    lines.append(op="commit", m="a", e=epoch, **offset(0, 7))
    lines.offsets[0] = 7
    lines.load(2)


def killed_before_it_wrote(lines: GroupLines) -> None:
    """A batch is in nobody's log."""
    lines.takes("a", 0, 5)
    epoch = lines.members["a"].epoch
    lines.append(op="commit", m="a", e=epoch, **offset(0, 7))
    lines.load(2, lines.offset - 1)


def comes_back(lines: GroupLines) -> None:
    """A member is given up, asks once more, and joins anew."""
    epoch = lines.members["b"].epoch
    lines.times_out("b")
    lines.refuses("b", epoch, (1,), "UnknownMemberIdException")
    lines.joins("b")


def rejoins(lines: GroupLines) -> None:
    """A member that is known comes with epoch 0."""
    lines.beats("b", (), claims=0)


def asks_again(lines: GroupLines) -> None:
    """A member has missed the answer that gave it a new epoch."""
    lines.beats("b", (), claims=lines.members["b"].previous)
    lines.refuses("b", lines.members["b"].previous, None, "FencedMemberEpochException")


def commits_late(lines: GroupLines) -> None:
    """A commit of an older epoch counts for what was assigned before, and for nothing else."""
    lines.takes("a", 0, 4, epoch=lines.members["a"].previous)
    lines.refuses_commit("b", 1, lines.members["b"].previous)


def set_by_hand(lines: GroupLines) -> None:
    """Everybody leaves, and offsets are set, deleted, and loaded."""
    lines.takes("a", 0, 4)
    lines.takes("b", 1, 4)
    lines.leaves("a")
    lines.leaves("b")
    lines.op(op="commit", m="", e=-1, **offset(0, 1))
    lines.op(op="", committed=[["orders:1", -1]])
    lines.offsets = {0: 1}
    lines.load(2)
    lines.group_epoch += 1
    lines.members["c"] = MemberLine(lines.group_epoch, assigned={0: lines.group_epoch})
    lines.op(["c"], 3, **lines.asks("c", 0, ()), **lines.retargets(c=(0,)))


def in_a_transaction(lines: GroupLines) -> None:
    """Offsets of a transaction are not judged."""
    lines.takes("a", 0, 4)
    lines.op(op="", committed=[["orders:0", 5]])
    lines.offsets = {0: 5}
    lines.load(2)


ALLOWED = (
    *(moved, kept, lost, given_up, killed_before_it_told, killed_before_it_wrote, comes_back),
    *(rejoins, asks_again, commits_late, set_by_hand, in_a_transaction),
)


def commits_of_another(lines: GroupLines) -> None:
    lines.takes("a", 1, 4)


def refuses_an_older_epoch(lines: GroupLines) -> None:
    lines.refuses_commit("a", 0, lines.members["a"].previous)


FINDS = [
    (commits_of_another, "4.3.1", ["commit-of-another"], "OnlyHoldersCommit"),
    (commits_of_another, "4.1.0", ["commit-of-another"], "OnlyHoldersCommit"),
    (refuses_an_older_epoch, "4.1.0", ["older-epoch-refused"], "OnlyHoldersCommit"),
    (refuses_an_older_epoch, "4.3.1", ["?"], None),
]


def assigns_what_is_held(lines: GroupLines) -> None:
    lines.group_epoch += 1
    more = lines.retargets(a=(0, 1))
    now = lines.group_epoch
    lines.beats("a", None, more=more, epoch=now, assigned={0: 2, 1: now})


def goes_on_unrevoked(lines: GroupLines) -> None:
    lines.group_epoch += 1
    more = lines.retargets(b=(0, 1))
    lines.beats("a", None, more=more, epoch=lines.group_epoch, assigned={})


def takes_an_epoch_that_is_to_come(lines: GroupLines) -> None:
    lines.beats("b", (1,), claims=lines.members["b"].epoch + 1)


def refuses_who_is_welcome(lines: GroupLines) -> None:
    lines.refuses("b", lines.members["b"].epoch, None, "FencedMemberEpochException")


def refuses_a_holder(lines: GroupLines) -> None:
    lines.refuses_commit("b", 1, lines.members["b"].epoch)


def loads_another_epoch(lines: GroupLines) -> None:
    lines.load(2, ge=lines.group_epoch + 1)


def loads_without_a_member(lines: GroupLines) -> None:
    del lines.members["b"]
    lines.load(2)


def forgets_a_commit(lines: GroupLines) -> None:
    lines.takes("a", 0, 4)
    lines.load(2, committed=[])


def keeps_what_was_lost(lines: GroupLines) -> None:
    lost(lines)
    lines.load(1, committed=[["orders:0", 7]])


def forgets_the_group(lines: GroupLines) -> None:
    lines.load(2)
    lines.lines.pop()
    lines.lines[-1]["groups"] = 0


def gives_to_a_stranger(lines: GroupLines) -> None:
    lines.group_epoch += 1
    lines.beats("a", None, more=lines.retargets(a=(0,), x=(1,)), epoch=lines.group_epoch)


def keeps_the_epoch(lines: GroupLines) -> None:
    lines.group_epoch -= 1
    lines.times_out("b")


def forgets_who_beats(lines: GroupLines) -> None:
    lines.members.pop("b")
    lines.op(["b"], 1, **lines.asks("b", 2, None))


def removes_another(lines: GroupLines) -> None:
    lines.group_epoch += 1
    lines.members.pop("a")
    lines.op(["a"], 4, **lines.asks("b", -1, None), targets=[{"m": "a", "parts": []}])


REJECTED = [
    (forgets_who_beats, "Heartbeat"),
    (removes_another, "Leave"),
    (assigns_what_is_held, "Heartbeat"),
    (goes_on_unrevoked, "Heartbeat"),
    (takes_an_epoch_that_is_to_come, "Heartbeat"),
    (refuses_who_is_welcome, "RefuseHeartbeat"),
    (refuses_a_holder, "RefuseCommit"),
    (loads_another_epoch, "Load"),
    (loads_without_a_member, "Load"),
    (forgets_a_commit, "Load"),
    (keeps_what_was_lost, "Load"),
    (forgets_the_group, "Load"),
    (gives_to_a_stranger, "ComputeTarget"),
    (keeps_the_epoch, "Fence"),
]
PLAYED = (*ALLOWED, *dict.fromkeys(play for play, *_ in FINDS), *(play for play, _ in REJECTED))
VERSIONS = ("4.3.1", "4.1.0")
Plays = Mapping[tuple[str, str], JudgedSubject]


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Plays:
    """The verdicts on all of them by name and version: those of a version judged in one go."""
    found: dict[tuple[str, str], JudgedSubject] = {}
    for version in VERSIONS:
        every: dict[str, GroupLines] = {}
        for play in PLAYED:
            every[play.__name__] = lines = GroupLines(play.__name__, len(every), version)
            lines.shared()
            play(lines)
        run = judge(write(tmp_path_factory.mktemp(version), [*every.values()]), SpecTree())
        assert run.unjudged == {}
        of_group = {one.trace.subject: one for one in run.groups}
        found |= {(name, version): of_group[f"group {name}"] for name in every}
    return found


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [play.__name__ for play in ALLOWED])
def test_what_the_spec_allows_is_accepted(plays: Plays, name: str, version: str) -> None:
    one = plays[name, version]
    assert one.verdict.accepted, one.verdict.why
    assert not one.explained
    assert one.subject.ended == ""


@pytest.mark.java
@pytest.mark.parametrize(("play", "version", "known", "promise"), FINDS)
def test_a_find_is_explained_by_its_row(
    plays: Plays,
    play: Callable[[GroupLines], None],
    version: str,
    known: list[str],
    promise: str | None,
) -> None:
    one = plays[play.__name__, version]
    found = [*(each.known.name for each in one.explained), *["?"] * one.unexplained]
    assert found == known, one.verdict.why
    assert (one.broken.promise if one.broken else None) == promise


@pytest.mark.java
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "action"), [(play.__name__, action) for play, action in REJECTED])
def test_what_no_row_explains_is_rejected_at_its_step(
    plays: Plays, name: str, action: str, version: str
) -> None:
    one = plays[name, version]
    assert one.unexplained
    assert one.trace.events[one.verdict.event - 1].action == action


# Where the spec has no words


def static(lines: GroupLines) -> None:
    lines.beats("a")
    lines.lines[-1]["static"] = True


def of_the_classic_protocol(lines: GroupLines) -> None:
    lines.op(["a"])
    lines.lines[-3]["now"][0]["classic"] = True


def becomes_classic(lines: GroupLines) -> None:
    lines.op(op="fence", members=["a"])
    lines.lines[-3]["classic"] = True


def several_go(lines: GroupLines) -> None:
    lines.op(records=4, op="fence", members=["a", "b"])


def joins_without_an_epoch(lines: GroupLines) -> None:
    lines.joins("c")
    lines.lines[-3]["ge"] -= 1
    lines.lines[-3]["now"][0]["regex"] = True


def subscribes_no_more(lines: GroupLines) -> None:
    lines.group_epoch += 1
    more = lines.retargets(a=(0,), b=(1,))
    lines.beats("a", None, more=more, epoch=lines.group_epoch)
    lines.lines[-3]["now"][0]["topics"] = ["others"]


def has_lost_its_log(lines: GroupLines) -> None:
    lines.load(2, lines.offset - 1)


def has_another_log(lines: GroupLines) -> None:
    lines.load(2)
    lines.takes("a", 0, 1)
    lines.load(3)
    lines.lines[-2]["epochs"] = [[0, 0], [2, lines.offset - 1]]


def leads_again(lines: GroupLines) -> None:
    lines.load(2)
    lines.node, lines.coordinator_epoch = 1, 2
    lines.takes("a", 0, 1)


def was_led_by_a_stranger(lines: GroupLines) -> None:
    lines.epochs += [[1, lines.offset]]
    lines.coordinator_epoch, lines.offset = 1, lines.offset + 1
    lines.load(3)


ENDS = [
    (leads_again, "a coordinator leads again and loads nothing"),
    (was_led_by_a_stranger, "a coordinator that has no agent has written"),
    (static, "a static member"),
    (of_the_classic_protocol, "a member of the classic protocol"),
    (becomes_classic, "it becomes a classic group"),
    (several_go, "several members are removed at once"),
    (
        joins_without_an_epoch,
        "a member joins and no epoch begins, for its expression is not resolved",
    ),
    (subscribes_no_more, "a member has partitions of a topic that it does not subscribe to"),
    (has_lost_its_log, "its log has lost what was committed"),
    (has_another_log, "its log has lost what was committed"),
]


@pytest.mark.parametrize(("play", "why"), ENDS)
def test_a_recording_ends_where_the_spec_has_no_words(
    tmp_path: Path, play: Callable[[GroupLines], None], why: str
) -> None:
    lines = GroupLines()
    lines.shared()
    play(lines)
    (one,) = judging.merged(read_lines(lines.write(tmp_path))).groups.all
    assert one.ended == why


def gives_up(lines: GroupLines) -> None:
    """A member is told to give up what it has."""
    lines.group_epoch += 1
    more = lines.retargets(b=(0, 1))
    lines.beats("a", None, more=more, state="UNREVOKED_PARTITIONS", assigned={}, pending={0: 2})


def raises_the_epoch(lines: GroupLines) -> None:
    gives_up(lines)
    lines.beats("a", (), state="UNREVOKED_PARTITIONS", epoch=lines.members["a"].epoch + 1)


def keeps_what_is_pending(lines: GroupLines) -> None:
    gives_up(lines)
    lines.group_epoch += 1
    more, now = lines.retargets(a=(0,), b=(1,)), lines.group_epoch
    lines.beats("a", (), more=more, epoch=now, state="UNRELEASED_PARTITIONS", pending={})


@pytest.mark.parametrize(
    ("play", "why"),
    [
        (raises_the_epoch, "this version raises the epoch of a member that has more to give up"),
        (
            keeps_what_is_pending,
            "this version does not give back at once what was to be given up",
        ),
    ],
)
def test_a_recording_ends_where_an_earlier_version_has_other_rules(
    tmp_path: Path, play: Callable[[GroupLines], None], why: str
) -> None:
    lines = GroupLines(version="4.1.0")
    lines.shared()
    play(lines)
    (one,) = judging.merged(read_lines(lines.write(tmp_path))).groups.all
    assert one.ended == why


def answers_beyond_its_log(lines: GroupLines) -> None:
    lines.line("groupCommitted", **lines.where, off=lines.offset + 1)


def leaves_an_operation_out(lines: GroupLines) -> None:
    lines.offset += 1
    lines.takes("a", 0, 4)


def writes_more_than_it_said(lines: GroupLines) -> None:
    lines.offset += 1
    lines.flush()


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (answers_beyond_its_log, r"\d+ is committed, and the log ends at \d+"),
        (leaves_an_operation_out, r"records from \d+ follow those up to \d+"),
        (writes_more_than_it_said, r"records up to \d+ are written up to \d+"),
    ],
)
def test_lines_that_contradict_each_other_are_refused(
    tmp_path: Path, play: Callable[[GroupLines], None], said: str
) -> None:
    lines = GroupLines()
    lines.shared()
    play(lines)
    with pytest.raises(ContradictingLinesError, match=said):
        judging.merged(read_lines(lines.write(tmp_path)))


def test_a_group_that_is_deleted_and_begins_anew_has_two_traces(tmp_path: Path) -> None:
    lines = GroupLines()
    lines.shared()
    lines.takes("a", 0, 4)
    lines.leaves("a")
    lines.leaves("b")
    lines.op(op="", committed=[["orders:0", -1]])
    lines.lines[-3] |= {"gone": True}
    lines.group_epoch = lines.target_epoch = 1
    lines.joins("c", 0, 1, c=(0, 1))
    groups = judging.merged(read_lines(lines.write(tmp_path))).groups.all
    assert [(one.name, one.ended) for one in groups] == [
        ("group app", "it is deleted"),
        ("group app#2", ""),
    ]


def test_a_group_that_is_older_than_the_recording_is_not_judged(tmp_path: Path) -> None:
    lines = GroupLines()
    lines.group_epoch = lines.target_epoch = 7
    lines.joins("a", 0, 1, a=(0, 1))
    merged = judging.merged(read_lines(lines.write(tmp_path))).groups
    assert not merged.all
    assert merged.unjudged == {
        "group app": "it is older than the recording, or it was a classic group"
    }


def test_commits_of_a_topic_that_no_controller_has_named_are_no_steps(tmp_path: Path) -> None:
    lines = GroupLines()
    lines.shared()
    lines.takes("a", 0, 4)
    folder = lines.write(tmp_path)
    recorded = read_lines(folder)
    recorded.lines = [line for line in recorded.lines if line.get("id") != TOPIC_ID]
    (one,) = judging.merged(recorded).groups.all
    assert "TakeCommit" not in [step.action for step in one.trace.steps]
    assert one.no_step["an offset that no member has committed"] == 1


@pytest.mark.java
def test_a_version_without_the_methods_is_judged_without_groups(tmp_path: Path) -> None:
    lines = GroupLines()
    lines.shared()
    hook = {"ev": "hook", "of": "some.Class", "method": "append", "found": False}
    lines.lines = [{**hook, "node": 1, "advice": "groupAppends", "without": "groups"}, *lines.lines]
    run = judge(lines.write(tmp_path), SpecTree())
    assert run.unjudged == {"groups": "this Kafka has no some.Class.append"}
    del lines.lines[0]["without"]
    said = re.escape("has no some.Class.append, so its steps are missing")
    with pytest.raises(AgentLinesError, match=said):
        read_lines(lines.write(tmp_path))


# Altered runs


def altered(lines: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The run with one line left out, doubled, or with another value.

    An offset that was set by hand is not judged before it is loaded.
    """
    draw = random.Random(40)
    ops = [i for i, line in enumerate(lines) if line["ev"] == "groupOp"]
    changes = [i for i in ops if lines[i]["records"]]
    others = [i for i, line in enumerate(lines) if line["ev"] in ("groupRefused", "groupLoaded")]
    for i in draw.sample(changes, DRAWN):
        yield "left out", [*lines[:i], *lines[i + 1 :]]
    for i in draw.sample(changes, DRAWN):
        yield "doubled", [*lines[: i + 1], *lines[i:]]

    def each(
        what: str, those: list[int], change: Callable[[dict[str, Any]], dict[str, Any] | None]
    ) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        every = ((i, change(deepcopy(lines[i]))) for i in those)
        found = [(i, line) for i, line in every if line is not None]
        for i, line in draw.sample(found, min(DRAWN, len(found))):
            yield what, [*lines[:i], line, *lines[i + 1 :]]

    def of_member(name: str, to: Callable[[Any], Any]) -> Callable[..., dict[str, Any] | None]:
        def change(line: dict[str, Any]) -> dict[str, Any] | None:
            known = [one for one in line.get("now", ()) if one["known"] and one[name] != []]
            if not known:
                return None
            known[0][name] = to(known[0][name])
            return line

        return change

    def of_line(name: str, to: Callable[[Any], Any]) -> Callable[..., dict[str, Any] | None]:
        def change(line: dict[str, Any]) -> dict[str, Any] | None:
            return {**line, name: to(line[name])} if line.get(name) else None

        return change

    def more(epoch: int) -> int:
        return epoch + 1

    told = [i for i in (*changes, *others) if lines[i].get("m") != ""]
    yield from each("group epoch", told, of_line("ge", more))
    yield from each("target epoch", told, of_line("te", more))
    yield from each("claimed epoch", ops, of_line("e", more))
    yield from each("member epoch", told, of_member("e", more))
    yield from each("previous epoch", told, of_member("pe", more))
    unlike = {"STABLE": "UNRELEASED_PARTITIONS"}
    yield from each("state", told, of_member("state", lambda old: unlike.get(old, "STABLE")))
    yield from each("assigned", told, of_member("assigned", lambda old: old[1:]))
    yield from each("since", told, of_member("assigned", lambda old: [[old[0][0], 1], *old[1:]]))
    yield from each("pending", told, of_member("pending", lambda _: []))
    asked = [i for i in told if lines[i].get("op") == "commit"]
    yield from each("asked offset", asked, of_line("named", lambda old: [[old[0][0], 99]]))
    yield from each("target", told, of_line("targets", lambda old: old[1:]))
    every = next(one["owns"] for one in lines if len(one.get("owns", ())) == 4)
    gave_up = [i for i in changes if "owns" in lines[i] and lines[i]["e"] > 0]
    yield from each("owned", gave_up, lambda line: {**line, "owns": every})
    yield from each("offset", told, of_line("committed", lambda old: [[old[0][0], 99], *old[1:]]))


def as_traces(run: KafkaRecorder, name: str) -> list[Trace]:
    """The traces of altered lines, under one set of constants."""
    traces = list(judging.traces(run.groups.all, name, RUNS))
    for one in traces:
        one.constants = {**(one.constants or {}), "MaxEpoch": 1_000}
    return traces


@pytest.mark.java
def test_an_alteration_of_one_line_is_noticed() -> None:
    lines = read_lines(RUNS / "groups").lines
    found, all_of = noticed(lines, altered(lines), as_traces)
    # What a member owns matters only while it has to give something up; nobody else owns nothing.
    del all_of["owned"], all_of["target"]
    assert min(found.pop("owned"), found.pop("target")) >= 2
    assert all_of == found, all_of - found
