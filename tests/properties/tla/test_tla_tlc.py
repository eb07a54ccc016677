"""TLC behind the checker interface: what it says, and what is made of a report that lies."""

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve

from properties.tla import InputError, Outcome, Rec, SpecTree, Status, Tlc
from properties.tla.processes import Finished, stop_all
from properties.tla.processes import run as run_process
from properties.tla.report import TlcReport
from properties.tla.runner import Options, jobs, run_all
from properties.tla.specs import ModelConfig
from properties.tla.tlc import HEAP_MB, judge, named
from tests.properties.tla.scratch import Scratch


@cache
def check(tree: SpecTree, cfg: str) -> Outcome:
    return Tlc(tree, quick=True).check("Mailbox", cfg, limit_s=60)


def test_a_model_that_keeps_its_promises_passes(tree: SpecTree) -> None:
    outcome = check(tree, "ok_ordered")
    assert (outcome.status, outcome.violated) == (Status.PASSED, None)
    assert (outcome.distinct, outcome.depth, outcome.length) == (16, 5, None)
    assert outcome.generated is not None
    assert outcome.generated > 16
    assert outcome.cpu_s > 0


def test_a_violated_invariant_comes_with_its_name_and_its_shortest_counterexample(
    tree: SpecTree,
) -> None:
    outcome = check(tree, "bug_unordered")
    assert (outcome.status, outcome.violated) == (Status.VIOLATED, "InOrder")
    actions = [step.action for step in outcome.steps]
    # TLC names an action after the definition it stands in when its set depends on the state.
    assert actions == [None, "Post", "Post", "Next", "Next"]
    assert outcome.steps[0].state == {
        "posted": Rec.of(first=0, second=0),
        "bag": frozenset(),
        "shelf": (),
    }
    assert outcome.steps[-1].state["shelf"] == (2, 1)


@pytest.mark.parametrize(
    ("cfg", "name"),
    [
        ("bug_drop", "NothingLost"),  # named by TLC
        ("bug_not_a_pile", "IsPile"),  # TLC gives only a place in module Pile
        ("bug_unfair", "AllArrive"),  # TLC says no name at all
    ],
)
def test_a_violated_property_has_the_name_that_the_cfg_gives_it(
    tree: SpecTree, cfg: str, name: str
) -> None:
    assert check(tree, cfg).violated == name


def test_a_counterexample_of_liveness_says_where_it_goes_round(tree: SpecTree) -> None:
    outcome = check(tree, "bug_unfair")
    assert outcome.back_to == len(outcome.steps)


def test_a_property_that_tlc_does_not_name_must_be_alone_in_its_cfg() -> None:
    config = ModelConfig({"PROPERTIES": "One Two", "INVARIANTS": "Three"})
    violated = Outcome(Status.VIOLATED, violated="line 3, col 1 of module Abs")
    outcome = named(violated, config)
    assert outcome.status is Status.FAILED
    assert "does not name" in outcome.reason
    assert named(Outcome(Status.VIOLATED, violated="Three"), config).violated == "Three"


def test_a_place_in_a_module_is_its_refinements() -> None:
    config = ModelConfig({"PROPERTIES": "Grows RefinesPile RefinesAbs"})
    told = "line 3, col 1 to line 3, col 9 of module Abs"
    assert named(Outcome(Status.VIOLATED, violated=told), config).violated == "RefinesAbs"


@pytest.mark.parametrize(
    ("path", "old", "new", "said"),
    [
        ("Mailbox/cfg/bug_unordered.cfg", "Letters = 2", "Letters 2", "It was expecting = or <-"),
        ("Mailbox/cfg/bug_unordered.cfg", "INVARIANT InOrder", "INVARIANT Nope", "Nope"),
        ("Mailbox/cfg/bug_unordered.cfg", "Letters = 2", "Letters = 0", "Assumption line 12"),
        ("Mailbox/Mailbox.tla", "Next ==", "Next =", "Was expecting"),
        ("Mailbox/Mailbox.tla", "@ + 1", '@ + "1"', "Cannot cast"),
    ],
)
def test_a_model_that_tlc_cannot_run_fails_and_says_why(
    scratch: Scratch, path: str, old: str, new: str, said: str
) -> None:
    scratch.replace(path, old, new)
    outcome = check(scratch.tree, "bug_unordered")
    assert (outcome.status, outcome.violated) == (Status.FAILED, None)
    assert said in outcome.reason


def test_a_run_that_needs_too_much_time_is_stopped(scratch: Scratch) -> None:
    scratch.replace("Mailbox/cfg/bug_drop.cfg", "Letters = 3", "Letters = 12")
    outcome = Tlc(scratch.tree).check("Mailbox", "bug_drop", limit_s=1)
    assert outcome.status is Status.TIMED_OUT
    assert re.match(r"not finished, with [01]\.\d of 1 CPU s used after \d+ s", outcome.reason)


def figures(outcome: Outcome) -> Outcome:
    """All that is said of the model, and nothing of the run."""
    return evolve(outcome, cpu_s=0.0, wall_s=0.0, command=())


#: Temporal properties, one of them a refinement with fairness.
TEMPORAL = {"ok_fair", "bug_unfair"}


@pytest.mark.parametrize("backwards", [False, True])
def test_configurations_that_share_a_jvm_are_answered_as_each_alone(
    tree: SpecTree, backwards: bool
) -> None:
    cfgs = [model.stem for model in tree.models("Mailbox") if model.stem not in TEMPORAL]
    if backwards:
        cfgs.reverse()
    together = Tlc(tree, quick=True).check_together("Mailbox", cfgs, 60)
    assert list(together) == cfgs
    for cfg in cfgs:
        assert figures(together[cfg]) == figures(check(tree, cfg))
        assert together[cfg].cpu_s > 0


def test_a_temporal_property_and_what_follows_it_in_a_shared_jvm_is_left_open(
    tree: SpecTree,
) -> None:
    cfgs = ["ok_ordered", "bug_unfair", "bug_unordered"]
    assert list(Tlc(tree).check_together("Mailbox", cfgs, 60)) == ["ok_ordered"]


def test_of_configurations_that_share_a_jvm_those_are_answered_that_end_in_time(
    scratch: Scratch,
) -> None:
    scratch.replace("Mailbox/cfg/bug_drop.cfg", "Letters = 3", "Letters = 40")
    cfgs = ["ok_ordered", "bug_drop", "bug_unordered"]
    assert list(Tlc(scratch.tree).check_together("Mailbox", cfgs, 3)) == ["ok_ordered"]


def test_a_model_that_tlc_cannot_run_does_not_stop_the_others(scratch: Scratch) -> None:
    scratch.replace("Mailbox/cfg/bug_unordered.cfg", "INVARIANT InOrder", "INVARIANT Nope")
    cfgs = ["bug_unordered", "ok_ordered"]
    answers = Tlc(scratch.tree).check_together("Mailbox", cfgs, 60)
    assert answers["bug_unordered"].status is Status.FAILED
    assert "Nope" in answers["bug_unordered"].reason
    assert figures(answers["ok_ordered"]) == figures(check(scratch.tree, "ok_ordered"))


def test_what_is_not_as_expected_in_a_shared_jvm_is_asked_alone(scratch: Scratch) -> None:
    table = scratch.file("Mailbox/verdicts.toml").read_text(encoding="utf-8")
    assert "distinct = 16\n" in table
    scratch.replace("Mailbox/verdicts.toml", "distinct = 16\n", "distinct = 17\n")
    todo = jobs(["Mailbox"], scratch.tree)
    results = list(run_all(todo, Options(scratch.tree, 1, HEAP_MB)))
    alone = {r.job.verdict.cfg for r in results if "tlc2.TLC" in r.outcome.command}
    differ = {r.job.verdict.cfg for r in results if r.differences}
    assert differ <= alone
    assert alone.isdisjoint({"bug_unordered", "bug_drop", "bug_not_a_pile", "probe_two"})
    assert differ
    assert len(results) == len(todo) > len(alone)


def test_a_run_leaves_nothing_behind(
    tree: SpecTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(tree.root.rglob("*"))
    assert Tlc(tree).check("Mailbox", "ok_ordered", 60).status is Status.PASSED
    assert list(tmp_path.iterdir()) == []
    assert sorted(tree.root.rglob("*")) == before


def test_an_unknown_module_or_configuration_is_answered_with_those_there_are(
    tree: SpecTree,
) -> None:
    with pytest.raises(InputError, match=r"no module 'Nope' .*there are: Mailbox, Pile"):
        Tlc(tree).check("Nope", "ok", 1)
    with pytest.raises(InputError, match=r"no configuration 'nope' \(there are: ok\)"):
        Tlc(tree).check("Pile", "nope", 1)


# ------------------------------------------------------------------ reports that cannot be true


def message(code: int, text: str, severity: int = 0) -> str:
    return f"@!@!@STARTMSG {code}:{severity} @!@!@\n{text}\n@!@!@ENDMSG {code} @!@!@\n"


SUCCESS = message(2193, "Model checking completed. No error has been found.")
COUNTS = "9 states generated, 4 distinct states found, {} states left on queue."
VIOLATION = (
    message(2110, "Invariant Safe is violated.", 1)
    + message(2217, "1: <Initial predicate>\n/\\ x = 0\n", 4)
    + message(2217, "2: <Step line 1, col 1 to line 1, col 2 of module M>\n/\\ x = 1\n", 4)
    + message(2199, COUNTS.format(1))
)


def judged(output: str, code: int, errors: str = "") -> Outcome:
    finished = Finished(("tlc",), code, output, errors, 1.0, 1.0, timed_out=False)
    return judge(finished, TlcReport.read(output), limit_s=60)


def test_report_and_exit_code_that_agree_are_believed() -> None:
    assert judged(SUCCESS + message(2199, COUNTS.format(0)), 0).status is Status.PASSED
    violated = judged(VIOLATION, 12)
    assert (violated.status, violated.violated, violated.length) == (Status.VIOLATED, "Safe", 2)
    assert violated.steps[1].action == "Step"


@pytest.mark.parametrize(
    ("output", "code", "said"),
    [
        (SUCCESS + message(2199, COUNTS.format(0)), 12, "its exit code is 12"),
        (VIOLATION, 0, "its exit code is 0"),
        (VIOLATION, 13, "its exit code is 13"),
        (SUCCESS + message(2199, COUNTS.format(3)), 0, "leaves 3 states to explore"),
        (SUCCESS, 0, "says not how many states"),
        ("", 0, "without a verdict"),
        (message(1000, "a dark day", 1), 255, "exit code 255:\na dark day"),
        (message(1001, "Java ran out of memory", 1), 153, "out of memory"),
        (VIOLATION.replace("x = 1", "x = ?"), 12, "cannot be read"),
    ],
)
def test_report_and_exit_code_that_disagree_are_a_failure(
    output: str, code: int, said: str
) -> None:
    outcome = judged(output, code)
    assert outcome.status is Status.FAILED
    assert said in outcome.reason


def test_running_out_of_memory_is_said_even_if_only_the_jvm_says_it() -> None:
    assert "out of memory" in judged("", 1, "java.lang.OutOfMemoryError: heap").reason


def test_a_violation_in_the_initial_state_is_a_counterexample_of_one_state() -> None:
    text = "Invariant Safe is violated by the initial state:\n/\\ x = 0\n/\\ y = {}\n"
    outcome = judged(message(2107, text, 1), 12)
    assert (outcome.violated, outcome.length) == ("Safe", 1)
    assert outcome.steps[0].state == {"x": 0, "y": frozenset()}


def test_a_state_of_one_variable_is_printed_without_conjunction() -> None:
    text = "Invariant Safe is violated by the initial state:\nx = <<1,\n  2>>\n"
    assert judged(message(2107, text, 1), 12).steps[0].state == {"x": (1, 2)}


# ------------------------------------------------------------------ processes


def test_a_process_reports_its_own_cpu_time(tmp_path: Path) -> None:
    busy = run_process(
        ["/bin/sh", "-c", "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done"], tmp_path, 30
    )
    idle = run_process(["/bin/sh", "-c", "true"], tmp_path, 30)
    assert busy.cpu_s > idle.cpu_s
    assert (busy.code, busy.timed_out) == (0, False)


def test_both_streams_of_a_process_are_kept_however_much_it_says(tmp_path: Path) -> None:
    script = "head -c 300000 /dev/zero | tr '\\0' e >&2; echo out; exit 3"
    finished = run_process(["/bin/sh", "-c", script], tmp_path, 30)
    assert (finished.output, len(finished.errors), finished.code) == ("out\n", 300_000, 3)


def test_what_still_runs_can_be_ended_from_another_thread(tmp_path: Path) -> None:
    """So that an interrupted `highwater spec` leaves no TLC behind."""
    with ThreadPoolExecutor() as pool:
        sleeping = pool.submit(run_process, ["/bin/sleep", "30"], tmp_path, 60)
        while not sleeping.done():
            stop_all()
    assert sleeping.result().code == -signal.SIGKILL
    assert not sleeping.result().timed_out
