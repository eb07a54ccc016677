"""The mutants of the specs: which there are, and that a promise notices them."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from properties.mutants import guards, spec_command, spec_rows, spec_trials
from properties.mutants.spec_mutants import joined_text, mutated_text, spec_mutants
from properties.mutants.spec_rows import ANOTHER_GRAPH, NO_MEANING
from properties.mutants.spec_trials import Trials, asked, judged
from properties.tla import InputError, SpecTree
from properties.tla.checker import Status
from properties.tla.processes import Finished
from properties.tla.tlc import Tlc
from properties.tla.verdicts import load

TOY = r"""---- MODULE Toy ----
EXTENDS Naturals
CONSTANTS Most, Rule
VARIABLES x, y
vars == <<x, y>>
Init == x = 0 /\ y = 0
Below(n) == /\ n < Most
            /\ Rule = "strict" => n <= 5
Step(r) ==
    /\ Below(x)
    /\ LET more == x + r
       IN  /\ x' = more
           /\ y' = IF more >= 2 THEN 1 ELSE y
Next == \E r \in 1..1 : Step(r)
Spec == Init /\ [][Next]_vars
NeverAbove == x <= Most
Grows == [][x' >= x]_x
====
"""
TABLE = """
rules = ["Rule"]
[scopes]
conform = ["ok"]
[[verdict]]
cfg = "ok"
kind = "ok"
expect = "pass"
distinct = 4
depth = 4
"""
CFG = """CONSTANTS
    Most = 3
    Rule = "strict"
SPECIFICATION Spec
INVARIANT NeverAbove
PROPERTY Grows
"""


@pytest.fixture
def toy(tmp_path: Path, own_cache: Path) -> SpecTree:
    """A module of two variables, laid out like the others."""
    root = tmp_path / "tla"
    (root / "Toy/cfg").mkdir(parents=True)
    shutil.copytree(SpecTree().root / "lib", root / "lib")
    (root / "Toy/Toy.tla").write_text(TOY)
    (root / "Toy/verdicts.toml").write_text(TABLE)
    (root / "Toy/cfg/ok.cfg").write_text(CFG)
    return SpecTree(root)


def test_guards_comparisons_and_assignments_are_changed_and_no_choice_among_rules(
    toy: SpecTree,
) -> None:
    assert [(one.kind, one.name) for one in spec_mutants("Toy", toy)] == [
        ("shifted", "Below: n < Most -> n <= Most"),
        ("shifted", 'Below: Rule = "strict" => n <= 5 -> Rule = "strict" => n < 5'),
        ("dropped", "Step: Below(x) -> TRUE"),
        ("left out", "Step: x' = more -> x' = x"),
        ("left out", "Step: y' = IF more >= 2 THEN 1 ELSE y -> y' = y"),
        (
            "shifted",
            "Step: y' = IF more >= 2 THEN 1 ELSE y -> y' = IF more > 2 THEN 1 ELSE y",
        ),
    ]


def test_an_action_is_changed_though_its_name_begins_like_the_initial_states(
    toy: SpecTree,
) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    text = module.read_text().replace(
        "Init == x", "InitWith(n) == x = n\nInit == InitWith(0) \\/ x"
    )
    module.write_text(text.replace("Step(", "InitStep(").replace("Below", "Inits"))
    changed = {one.action for one in spec_mutants("Toy", toy)}
    assert changed == {"InitStep", "Inits"}


def test_what_binds_a_name_compares_nothing(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    bound = r"/\ \A a \in 1..x, b \in {n + 1 : n \in 1..y} : a \in 1..9" + "\n    /\\ Below(x)"
    module.write_text(module.read_text().replace(r"/\ Below(x)", bound))
    changed = [one.new for one in spec_mutants("Toy", toy) if one.old.startswith("\\A")]
    assert changed == ["TRUE", r"\A a \in 1..x, b \in {n + 1 : n \in 1..y} : a \notin 1..9"]


def test_what_is_chosen_is_bound_as_well(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    chosen = r"/\ x < (CHOOSE n \in 1..9 : n >= x)" + "\n    /\\ Below(x)"
    module.write_text(module.read_text().replace(r"/\ Below(x)", chosen))
    changed = [one.new for one in spec_mutants("Toy", toy) if "CHOOSE" in one.old]
    assert changed == [
        "TRUE",
        r"x <= (CHOOSE n \in 1..9 : n >= x)",
        r"x < (CHOOSE n \in 1..9 : n > x)",
    ]


def test_what_joins_behind_a_choice_belongs_to_it(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    chosen = "Chosen(s) == CHOOSE n \\in s..9 :\n    n > s /\\ \\A m \\in s..n : m <= n\n"
    text = module.read_text().replace("Step(r) ==", chosen + "Step(r) ==")
    module.write_text(text.replace("x' = more", "x' = Chosen(more)"))
    changed = [one.new for one in spec_mutants("Toy", toy) if one.action == "Chosen"]
    assert changed
    assert all(one.startswith("CHOOSE n ") and "\\A m " in one for one in changed), changed


def test_all_mutants_stand_in_one_text_and_its_lists_stay_aligned(toy: SpecTree) -> None:
    text = joined_text(spec_mutants("Toy", toy), toy)
    assert "VARIABLE mutant" in text
    assert "/\\ (CASE mutant = 3 -> (TRUE) [] OTHER -> (Below(x)))" in text
    lists = [line.index("/\\") for line in text.splitlines() if "mutant =" in line]
    assert len(lists) == 5


def test_actions_are_found_whoever_composes_them_and_promises_are_none(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    names = [one.name for one in spec_mutants("Toy", toy)]
    after = "Bounded(n) ==\n    n <= Most\nNeverAbove"
    module.write_text(module.read_text().replace("NeverAbove", after))
    assert [one.name for one in spec_mutants("Toy", toy)] == names
    module.write_text(module.read_text().replace("Next ==", "ToyNext =="))
    assert [one.name for one in spec_mutants("Toy", toy)] == names
    nobody = module.read_text().replace("ToyNext ==", "Steps ==").replace("[][Next]", "[][Steps]")
    module.write_text(nobody)
    assert [one.name for one in spec_mutants("Toy", toy)] == names


def test_each_step_keeps_the_mutant_before_it_does_anything(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    mutants = spec_mutants("Toy", toy)
    assert "\\E r \\in 1..1 : (mutant' = mutant /\\ (Step(r)))\n" in joined_text(mutants, toy)
    steps = "Next ==\n    \\/ Step(1) \\/ Step(2)\n    \\/ \\E r \\in 1..1 :\n        Step(r)\n"
    text = module.read_text().replace("Next == \\E r \\in 1..1 : Step(r)\n", steps)
    module.write_text(text)
    joined = joined_text(mutants, toy)
    assert "    \\/ (mutant' = mutant /\\ (Step(1) \\/ Step(2)))\n" in joined
    assert "\\E r \\in 1..1 :\n        (mutant' = mutant /\\ (Step(r)))\n" in joined
    module.write_text(text.replace("Next ==", "Steps ==").replace("[Next]", "[Step(1) /\\ x = 0]"))
    assert "[][mutant' = mutant /\\ (Step(1) /\\ x = 0)]_vars" in joined_text(mutants, toy)


def test_a_promise_notices_or_another_graph_or_nothing(toy: SpecTree) -> None:
    trials = judged("Toy", toy)
    found = {name: one.by for name, one in trials.found.items()}
    assert found == {
        "Below: n < Most -> n <= Most": "NeverAbove",
        "Step: Below(x) -> TRUE": "NeverAbove",
        "Step: x' = more -> x' = x": ANOTHER_GRAPH,
        "Step: y' = IF more >= 2 THEN 1 ELSE y -> y' = y": ANOTHER_GRAPH,
        "Step: y' = IF more >= 2 THEN 1 ELSE y -> y' = IF more > 2 THEN 1 ELSE y": ANOTHER_GRAPH,
    }
    assert NO_MEANING not in found.values()
    assert trials.alive == ('Below: Rule = "strict" => n <= 5 -> Rule = "strict" => n < 5',)
    assert judged("Toy", toy) == trials  # from the cache


def test_a_probe_that_holds_notices_what_no_promise_does(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    module.write_text(module.read_text().replace("====", "NeverTold == y = 0\n===="))
    table = 'cfg = "probe"\nkind = "probe"\nexpect = "violates"\nproperty = "NeverTold"\n'
    with (toy.folder("Toy") / "verdicts.toml").open("a") as file:
        file.write(f"[[verdict]]\n{table}length = 3\ndistinct = 3\ndepth = 3\n")
    (toy.root / "Toy/cfg/probe.cfg").write_text(
        CFG.replace("INVARIANT NeverAbove", "INVARIANT NeverTold").replace("PROPERTY Grows", "")
    )
    found = {name: str(one) for name, one in judged("Toy", toy).found.items()}
    assert found["Step: x' = more -> x' = x"] == "probe: NeverTold holds"
    assert found["Step: y' = IF more >= 2 THEN 1 ELSE y -> y' = y"] == "probe: NeverTold holds"
    assert found["Below: n < Most -> n <= Most"] == "ok: NeverAbove"


def test_a_row_that_did_not_end_is_told_and_counts_for_what_it_noticed(
    toy: SpecTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = "0\tkept\t\tsame\t4\t0\n1\tlate\t\tsame\t99\t0\n3\tbroken\tNeverAbove\tother\t9\t2\n"
    ended = Finished((), -9, output, "", cpu_s=240.0, wall_s=240.0, timed_out=True)

    def ends_late(asking: object) -> Finished:
        return ended

    monkeypatch.setattr(spec_rows, "_explored", ends_late)
    trials = judged("Toy", toy)
    assert {name: str(one) for name, one in trials.found.items()} == {
        "Step: Below(x) -> TRUE": "ok: NeverAbove"
    }
    assert set(trials.unasked) == {one.name for one in spec_mutants("Toy", toy)} - {*trials.found}
    told = "\n".join(spec_command.page([spec_command.JudgedModule(trials, {})]))
    assert "| nothing (not asked to the end: `ok`): not explained |" in told


def test_of_whole_behaviours_only_small_rows_are_asked(
    toy: SpecTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = "".join(f"{number}\tkept\t\tsame\t4\t0\n" for number in range(7))
    explored = Finished((), 0, f"temporal\n{same}", "", cpu_s=0.0, wall_s=0.0, timed_out=False)
    broken = SimpleNamespace(status=Status.VIOLATED, violated="Reaches", cpu_s=0.0)

    def finished(asking: object) -> Finished:
        return explored

    def check(*told: object) -> SimpleNamespace:
        return broken

    monkeypatch.setattr(spec_rows, "_explored", finished)
    monkeypatch.setattr(Tlc, "check", check)
    assert {str(one) for one in judged("Toy", toy).found.values()} == {"ok: Reaches"}
    monkeypatch.setattr(spec_trials, "TOO_LARGE_ALONE", 3)
    assert judged("Toy", toy).found == {}


def test_tlc_says_the_same_of_each_mutant_by_itself(toy: SpecTree) -> None:
    trials = judged("Toy", toy)
    module = toy.folder("Toy") / "Toy.tla"
    original = module.read_text()
    for one in spec_mutants("Toy", toy):
        module.write_text(mutated_text(one, SpecTree(toy.root)))
        answer = Tlc(toy, quick=True).check("Toy", "ok", 60)
        module.write_text(original)
        broken = one.name in trials.by_property
        assert answer.status is (Status.VIOLATED if broken else Status.PASSED), one.name
        if broken:
            assert trials.found[one.name].by == answer.violated


def test_what_noticed_a_mutant_before_is_asked_first(toy: SpecTree) -> None:
    before = judged("Toy", toy)
    again = judged("Toy", toy, before)
    assert (again.found, again.alive) == (before.found, before.alive)


def test_answers_are_kept_with_the_text_that_was_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ["before"]

    def text_of(module: str) -> str:
        return text[0]

    def written_meanwhile(
        module: str, before: Trials | None, *, of_promises: bool, of_rules: Trials | None
    ) -> Trials:
        text[0] = "after"
        return Trials(module)

    monkeypatch.setattr(spec_command, "KEPT", tmp_path)
    monkeypatch.setattr(spec_command, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(spec_command, "_text_of", text_of)
    monkeypatch.setattr(spec_command, "judged", written_meanwhile)
    spec_command.of_specs(["AbsLog"], False, True, None, Console(quiet=True))
    assert spec_command.kept("AbsLog") is None
    text[0] = "before"
    assert spec_command.kept("AbsLog") is not None


def test_a_variable_that_only_counts_for_a_bound_is_no_rule() -> None:
    names = [one.name for one in asked("DurableIsr", SpecTree())]
    assert "Crash: crashes' = crashes + 1 -> crashes' = crashes" not in names
    assert "Write: written' = written + 1 -> written' = written" in names  # it numbers records


def test_a_promise_without_a_bug_is_broken_by_the_mutant_that_the_table_names() -> None:
    kept = {one.module: one for one in spec_command.everything_kept()}
    for module in SpecTree().modules():
        for promise, mutants in load(module, SpecTree()).controls.items():
            found = kept[module].found
            assert found[mutants[0]].by == promise, f"{module}: {mutants[0]}"
            # The others break it as well (`ask_controls`), and perhaps another promise before.
            assert all(found[one].by_property for one in mutants), f"{module}: {promise}"


def test_a_conjunct_of_one_branch_ends_before_the_other() -> None:
    text = """Step ==
    /\\ IF x = 0
       THEN /\\ x' = 1
            /\\ y' = 2
       ELSE UNCHANGED <<x, y>>
    /\\ z' = IF y = 0
            THEN 1
            ELSE 2
"""
    found = [
        " ".join(text[a:b].split())
        for a, b in guards.conjuncts(text, text.index("==") + 2, len(text))
    ]
    assert "y' = 2" in found
    assert "z' = IF y = 0 THEN 1 ELSE 2" in found


def test_no_mutant_reaches_from_one_definition_of_a_let_into_the_next() -> None:
    for module in SpecTree().modules():
        cut = [one.name for one in spec_mutants(module) if " == " in one.old]
        assert [name for name in cut if "LET " not in name] == []


def test_the_page_says_what_was_found() -> None:
    kept = [spec_command.with_reasons(one) for one in spec_command.everything_kept()]
    assert spec_command.PAGE.read_text() == "\n".join(spec_command.page(kept)) + "\n"


def test_an_explanation_names_a_mutant_that_is_there() -> None:
    for module, reasons in spec_command.explained().items():
        known = {one.name for one in spec_mutants(module)}
        for name, why in reasons.items():
            assert name in known
            assert len(why) > 30


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="no module 'Trunkation'; there are: AbsLog, "):
        spec_command.modules(["Trunkation"])


def test_a_new_module_is_asked_without_being_named_here(
    toy: SpecTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec_command, "SpecTree", lambda: toy)
    assert [*spec_command.modules([])] == ["Toy"]


OWED = ["AlterPartition", "Replication", "TransactionCoordinator"]
"""Modules that have changed since their mutants were asked: `highwater mutants --specs NAME
--update` asks again. It takes TLC minutes, so what is owed stands here for all to see."""


def test_kept_answers_are_about_the_modules_as_they_are() -> None:
    names = sorted(file.stem for file in spec_command.KEPT.glob("*.json"))
    assert [name for name in names if spec_command.kept(name) is None] == OWED


def test_an_answer_is_old_once_its_module_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spec_command.kept("AbsLog") is not None

    def another(module: str) -> str:
        return f"{module} with another rule"

    monkeypatch.setattr(spec_command, "_text_of", another)
    assert spec_command.kept("AbsLog") is None
    assert spec_command.kept("AbsLog", stale=True) is not None
