"""The machines are the specs, in the small scopes; the large ones are for `highwater conform`."""

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
from attrs import define
from click.testing import CliRunner

from chaos.cli import chaos
from properties.conformance import binding, conformed
from properties.conformance.binding import Binding, OtherAction, check_names
from properties.conformance.command import conform
from properties.conformance.discrepancy import Discrepancy, changes, guard_of
from properties.conformance.exhaustive import exhaustive
from properties.conformance.machines import Machines
from properties.conformance.memory import Snapshot
from properties.conformance.refusals import refusals_of
from properties.conformance.scope import ConformanceScope
from properties.conformance.scopes import scopes
from properties.conformance.stateful import Edge, search
from properties.conformance.walks import SideBySide, shorten, stroll, tour
from properties.modules.abs_log import AbsLog
from properties.modules.consumer_commit import ConsumerCommit
from properties.modules.descriptor import modules
from properties.modules.truncation import Truncation
from properties.mutants.catalogue import applied, catalogue, module_of
from properties.tla import InputError, Rec, SpecTree, Value
from properties.tla.guards import load_false_guards
from properties.tla.tracefile import read_traces
from refimpl.errors import Refusal
from refimpl.machines.group import CommittingMember

pytestmark = pytest.mark.java

SMALL = [
    ("AbsLog", "ok_loss_allowed"),
    ("AbsLog", "ok_three_readers"),
    ("AlterPartition", "ok_2_small"),
    ("ClassicGroup", "ok_replaced"),
    ("ConsumerCommit", "ok_auto_commit_monotone"),
    ("ConsumerGroup", "ok_2_small"),
    ("Controller", "ok_1_answered"),
    ("DurableIsr", "bug_unclean_2"),
    ("DurableIsr", "ok_kip966_1_crash"),
    ("Reassignment", "ok_3"),
    ("Registration", "ok_2"),
    ("Truncation", "ok_kip320_2_late_restart"),
    ("Truncation", "ok_kip320_3_small"),
]
TOURED = [
    ("AbsLog", "ok_loss_allowed"),
    ("AlterPartition", "ok_2_small"),
    ("ConsumerCommit", "ok_auto_commit_monotone"),
    ("DurableIsr", "ok_kip966_1_crash"),
    ("Truncation", "ok_kip320_2_late_restart"),
]


def scope(module: str, cfg: str) -> ConformanceScope:
    return ConformanceScope.of(modules()[module].binding, cfg)


def test_what_conforms_is_kept_until_a_file_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conformed, "cache_folder", lambda: tmp_path)
    asked = ["AbsLog", "--scope", "ok", "--scope", "ok_loss_allowed"]
    assert conformed.conformed() == set()
    with applied(catalogue()["readers_look_ahead"]):
        assert CliRunner().invoke(conform, asked).exit_code == 1
    assert conformed.conformed() == set()
    assert CliRunner().invoke(conform, asked).exit_code == 0
    found = {(scope.partition("/")[2], method) for scope, method in conformed.conformed()}
    assert found == {
        *(("ok", method) for method in ("exhaustive", "walk")),
        *(("ok_loss_allowed", method) for method in ("exhaustive", "walk", "tour", "Hypothesis")),
    }
    monkeypatch.setattr(conformed, "ROOMS", ("refimpl",))
    assert conformed.conformed() == set()


def test_conformance_asks_wherever_mutants_are_asked() -> None:
    asked = set(scopes())
    for name, one in modules().items():
        assert asked >= {(name, cfg) for cfg in one.table().scopes.mutants}, name
        assert asked >= {(name, cfg) for cfg in one.table().scopes.tour}, name


def test_large_scopes_are_asked_where_they_are_named_or_all_are_wanted() -> None:
    large = ("ClassicGroup", "ok_cooperative_static")
    assert large in scopes()
    assert large not in scopes(full=False)
    assert large in scopes((), ("ok_cooperative_static",), full=False)


def first(results: Iterable[Discrepancy | None]) -> Discrepancy | None:
    return next(filter(None, results), None)


@pytest.mark.parametrize(("module", "cfg"), SMALL)
def test_every_step_from_every_state_is_as_in_the_spec(module: str, cfg: str) -> None:
    """And what it forbids is refused by the name that it gives a guard that is false there."""
    compared = refusals_of(scope(module, cfg))
    found = first(compared.differences())
    assert found is None, found.story()
    machines = compared.machines
    assert machines.reached.total() == machines.scope.graph.edge_count
    assert compared.compared > 300


@pytest.mark.parametrize(("module", "cfg"), TOURED)
def test_a_tour_takes_every_edge_without_reloading(module: str, cfg: str) -> None:
    run = SideBySide(Machines(scope(module, cfg), "tour"))
    found = first(tour(run))
    assert found is None, found.story()
    assert len(run.taken) == run.scope.graph.edge_count


@pytest.mark.parametrize("module", list(modules()))
def test_random_walks_stay_on_the_graph(module: str) -> None:
    run = SideBySide(Machines(scope(module, modules()[module].table().scopes.conform[0]), "walk"))
    found = first(stroll(run, Random(7), 4_000))
    assert found is None, found.story()
    assert len(run.taken) > 300


@pytest.mark.parametrize("module", list(modules()))
def test_names_are_those_of_the_spec(module: str) -> None:
    check_names(modules()[module].binding)


def test_a_missing_an_extra_and_a_renamed_name_are_told() -> None:
    class Wrong(Binding):
        module = "AbsLog"
        projection: ClassVar = {}

        def __init__(self, constants: Mapping[str, Value]) -> None: ...

        def commit(self, entry: int) -> None: ...

        def compact(self) -> None: ...

        def load(self, state: Mapping[str, Value]) -> None: ...

    with pytest.raises(InputError) as told:
        check_names(Wrong)
    for what in (
        "no method for Observe",
        "no action for compact()",
        "Commit(record) is bound with (entry)",
        "no projection to committed",
    ):
        assert what in str(told.value)


def test_names_change_case_and_nothing_else() -> None:
    assert binding.snake_case("BecomeLeader") == "become_leader"
    assert binding.pascal_case("become_leader") == "BecomeLeader"


def test_a_scope_that_the_machines_are_not_written_for_is_refused() -> None:
    with pytest.raises(InputError, match="Rule is 'hw', and the machines are written for 'kip320'"):
        ConformanceScope.of(Truncation, "bug_hw_2")


# ------------------------------------------------------------------------------ Hypothesis


@pytest.mark.parametrize(
    ("module", "cfg"),
    [
        ("ConsumerCommit", "ok_auto_commit_monotone"),
        ("DurableIsr", "ok_kip966_1_crash"),
        ("Truncation", "ok_kip320_3_small"),
    ],
)
def test_hypothesis_finds_the_whole_enabled_set_as_in_the_spec(module: str, cfg: str) -> None:
    taken: set[Edge] = set()
    found = search(scope(module, cfg), taken, examples=40, steps=25)
    assert found is None, found.story()
    assert len(taken) > 50


def test_hypothesis_tells_a_difference_in_the_words_of_the_spec() -> None:
    with applied(catalogue()["commits_on_append"]):
        found = search(scope("Truncation", "ok_kip320_3_small"), set(), examples=50, steps=20)
    assert found is not None
    assert found.path == ("Write(1)",)
    assert found.step == "AdvanceHighWatermark(1)"
    assert found.spec == "not allowed here"


# ------------------------------------------------------------------------------ how it is told


def test_a_bug_is_told_as_the_shortest_story() -> None:
    with applied(catalogue()["truncates_to_high_watermark"]):
        found = first(exhaustive(Machines(scope("Truncation", "ok_kip320_2"), "exhaustive")))
    assert found is not None
    assert found.step.startswith("Truncate(")
    story = found.story().splitlines()
    assert story[0] == "Truncation/ok_kip320_2, exhaustive:"
    assert story[1] == "    1. " + found.path[0]
    assert len(found.path) < 12
    assert story[-2].startswith("  spec: log[")
    assert story[-1].startswith("  code: takes it: log[")


def test_a_long_walk_into_a_bug_is_made_short() -> None:
    with applied(catalogue()["one_table_for_two"]):
        run = SideBySide(Machines(scope("Truncation", "ok_kip320_2"), "walk"))
        found = first(stroll(run, Random(3), 5_000))
        assert found is not None
        short = shorten(run, run.tried)
    assert short is not None
    assert len(short.path) <= 3 <= len(found.path)


def test_a_refused_step_that_leaves_a_trace_is_told() -> None:
    class Careless(ConsumerCommit):
        projection = ConsumerCommit.projection

        def poll(self, m: int) -> None:
            self.coordinator.received[m, 9] = 1  # no variable of the spec shows this
            super().poll(m)

    for name, method in vars(ConsumerCommit).items():
        if name not in vars(Careless) and callable(method):
            setattr(Careless, name, method)
    original = scope("ConsumerCommit", "ok_auto_commit_monotone")
    careless = ConformanceScope(Careless, original.cfg, original.constants, original.graph)
    found = first(exhaustive(Machines(careless, "exhaustive")))
    assert found is not None
    assert found.step == "Poll(1)"
    assert found.code.startswith("refuses it: NotJoined")
    assert found.code.endswith(", and leaves a trace")


def test_changes_are_told_replica_by_replica() -> None:
    before = {"log": ((1,), ()), "isr": frozenset({1, 2}), "q": Rec.of(a=1)}
    after = {"log": ((1,), (1,)), "isr": frozenset({1}), "q": Rec.of(a=1)}
    assert changes(before, after) == "log[2] <<>> -> <<1>>; isr {1, 2} -> {1}"
    assert changes(before, before) == "nothing changes"


# ------------------------------------------------------------------------------ memory


@define
class Part:
    items: list[int]
    name: str = ""


@define
class Whole:
    left: Part
    right: Part


def test_memory_sees_and_undoes_what_changed_deep_inside() -> None:
    whole = Whole(Part([1]), Part([2]))
    memory = Snapshot.of(whole)
    right = whole.right
    right.items.append(3)
    whole.left = Part([9])
    assert memory.changed()
    memory.restore()
    assert whole == Whole(Part([1]), Part([2]))
    assert whole.right is right
    assert not memory.changed()


def test_memory_puts_back_what_was_replaced_by_its_equal() -> None:
    """The other one may be elsewhere by then, and would be in two places."""
    whole, parts = Whole(Part([1]), Part([2])), [Part([3])]
    left, first = whole.left, parts[0]
    memories = Snapshot.of(whole), Snapshot.of(parts), Snapshot.of(named := {"a": parts[0]})
    whole.left, parts[0], named["a"] = Part([1]), Part([3]), Part([3])
    for memory in memories:
        memory.restore()
    assert whole.left is left
    assert parts[0] is first
    assert named["a"] is first


def test_memory_finds_what_two_parts_share() -> None:
    items = [1]
    assert Snapshot.of(Whole(Part(items), Part(items))).shared == [items]
    assert Snapshot.of(Whole(Part([1]), Part([1]))).shared == []


# ------------------------------------------------------------------------------ the command


def test_conform_prints_each_action_and_ends_well() -> None:
    done = CliRunner().invoke(conform, ["AbsLog", "--scope", "ok", "--steps", "500"])
    assert done.exit_code == 0, done.output
    assert "AbsLog/ok: 173 states, 1,364 edges" in done.output
    assert "0 discrepancies" in done.output


def test_conform_tells_a_bug_and_the_command_that_shows_it_again() -> None:
    with applied(catalogue()["readers_keep_what_was_lost"]):
        done = CliRunner().invoke(conform, ["AbsLog", "--scope", "ok_loss_allowed"])
    assert done.exit_code == 1
    assert "see it again: highwater conform AbsLog --scope ok_loss_allowed" in done.output
    assert "then Lose(0)" in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["Raft"], "no machines for 'Raft'"), (["--scope", "ok_9"], "no scope 'ok_9'")],
)
def test_conform_says_which_names_there_are(arguments: list[str], told: str) -> None:
    done = CliRunner().invoke(conform, arguments)
    assert done.exit_code == 2
    assert told in done.output


def test_there_are_three_scopes_of_each_module_and_a_large_one() -> None:
    assert all(len(one.table().scopes.conform) >= 3 for one in modules().values())
    assert ("Truncation", "ok_kip320_3") in scopes()


def test_every_spec_with_machines_is_found_and_names_files_that_are_there() -> None:
    specs = {path.parent.name for path in SpecTree().root.glob("*/verdicts.toml")}
    assert modules().keys() <= specs
    for one in modules().values():
        for file in one.machines:
            assert find_spec(module_of(file)), one.name


def test_the_simulator_records_what_the_descriptors_say(tmp_path: Path) -> None:
    for protocol in ("classic", "consumer"):
        settings = ["--seed", "3", "--config", f"group_protocol={protocol}"]
        done = CliRunner().invoke(chaos, [*settings, "--events", str(tmp_path / protocol)])
        assert done.exit_code == 0, done.output
    traced = {trace.spec for trace in read_traces([tmp_path])}
    assert traced == {one.recorded for one in modules().values() if one.recorded}


# ------------------------------------------------------------------------------ refusals


def test_fenced_and_unknown_swapped_pass_every_edge_and_are_told_by_name() -> None:
    small = scope("Truncation", "ok_kip320_2_late_restart")
    with applied(catalogue()["fenced_and_unknown_are_swapped"]):
        found = first(refusals_of(small).differences())
    assert found is not None
    assert found.step.startswith("Fetch(")
    assert found.spec.startswith("refuses it with ")
    assert 'for `Rule = "kip320" => epoch[f]' in found.spec
    assert "machines/replica.py:" in found.code


def test_a_binding_that_refuses_what_is_for_the_machines_is_told() -> None:
    original = scope("AbsLog", "ok_loss_allowed")

    class Decides(AbsLog):
        projection = AbsLog.projection
        commit, observe = AbsLog.commit, AbsLog.observe

        def lose(self, length: int) -> None:
            raise OtherAction

    decides = ConformanceScope(Decides, original.cfg, original.constants, original.graph)
    compared = refusals_of(decides)
    found = first(compared.differences())
    assert found is not None
    assert found.spec == "refuses it with INVALID_REQUEST, for `length < Len(committed)`"
    assert found.code.startswith("refuses it: OtherAction")


def test_a_guard_without_a_name_is_told() -> None:
    compared = refusals_of(scope("AbsLog", "ok_loss_allowed"))
    compared.names = {}
    with pytest.raises(InputError, match=r"AbsLog: \[refusals\].*no name for \w+: "):
        first(compared.differences())


def test_false_guards_and_edges_together_are_all_there_is() -> None:
    """A step that fires has no false guard, and one that does not fire has some."""
    graph = scope("DurableIsr", "ok_kip966_1_crash").graph
    guards = load_false_guards("DurableIsr", "ok_kip966_1_crash")
    assert len(guards.rows) == len(graph.states)
    for state, steps in enumerate(graph.out):
        for label in range(len(graph.actions)):
            assert (label in steps) is (guards.of(state, label) == ())


def test_a_refused_edge_names_the_guard_in_the_machine() -> None:
    member = CommittingMember(1)
    with pytest.raises(Refusal) as refused:
        member.poll(3)
    told = guard_of(refused.value)
    assert told.startswith("NotJoined")
    assert "by `if self.generation == 0` (refimpl/machines/group.py:" in told


def test_conform_names_the_guard_of_the_spec_that_forbids_what_the_machines_do() -> None:
    with applied(catalogue()["loss_without_leave"]):
        done = CliRunner().invoke(conform, ["AbsLog", "--scope", "ok"])
    assert done.exit_code == 1
    assert "spec: not allowed here" in done.output
    assert "false guard: LossAllowed" in done.output


def test_the_clock_of_a_coordinator_does_not_go_back_when_an_earlier_deadline_comes() -> None:
    run = SideBySide(Machines(scope("GroupLog", "ok_2_short"), "walk"))
    names = [str(label) for label in run.scope.graph.actions]
    writes, asks = ["Op(1, 0)", "Op(2, 1)", "Op(1, 0)"], ["Ask()"] * 3
    for name in [*writes, "TimeOut()", *asks, "TimeOut()", "Ask()", "TimeOut()"]:
        assert run.step(names.index(name)) is None
