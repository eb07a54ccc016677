"""The mutants of the specs' promises: which there are, and that a row notices them."""

import shutil
from pathlib import Path

import pytest

from properties.mutants import spec_command
from properties.mutants.promise_mutants import joined_promises, mutated_promise, promise_mutants
from properties.mutants.spec_trials import judged
from properties.tla import InputError, SpecTree
from properties.tla.checker import Status
from properties.tla.tlc import Tlc

TOY = r"""---- MODULE Toy ----
EXTENDS Naturals
CONSTANTS Most, Rule
VARIABLES x, y
vars == <<x, y>>
Init == x = 0 /\ y = 0
Up == /\ x < 4
      /\ Rule = "bounded" => x < Most
      /\ x' = x + 1
      /\ y' = IF Rule = "mirrored" THEN x + 1 ELSE y
Next == Up
Spec == Init /\ [][Next]_vars
Small(n) == n <= Most
(* Two parts, of which no row needs the second. *)
Bounded ==
    /\ \A n \in {x, y} \ {9} :
        \/ Small(n)
        \/ ~(n < 9)
    /\ y <= 9
Grows == [][x' >= x /\ (x > 0 => y' >= y)]_vars
Ends == <>(x >= 2)
====
"""
TABLE = """
rules = ["Rule"]
[[verdict]]
cfg = "ok"
kind = "ok"
expect = "pass"
distinct = 4
depth = 4
[[verdict]]
cfg = "bug_unbounded"
kind = "bug"
expect = "violates"
property = "Bounded"
length = 5
distinct = 5
depth = 5
"""
CFG = 'CONSTANTS\n    Most = 3\n    Rule = "{rule}"\nSPECIFICATION Spec\n{checked}\n'


@pytest.fixture
def toy(tmp_path: Path, own_cache: Path) -> SpecTree:
    """A module with a promise of two parts, of which its rows need one."""
    root = tmp_path / "tla"
    (root / "Toy/cfg").mkdir(parents=True)
    shutil.copytree(SpecTree().root / "lib", root / "lib")
    (root / "Toy/Toy.tla").write_text(TOY)
    (root / "Toy/verdicts.toml").write_text(TABLE)
    both = "INVARIANT Bounded\nPROPERTY Grows"
    (root / "Toy/cfg/ok.cfg").write_text(CFG.format(rule="bounded", checked=both))
    bug = CFG.format(rule="none", checked="INVARIANT Bounded")
    (root / "Toy/cfg/bug_unbounded.cfg").write_text(bug)
    return SpecTree(root)


def test_what_weakens_a_promise_is_changed_and_what_makes_it_stronger_is_not(
    toy: SpecTree,
) -> None:
    changes = [(one.kind, *one.name.split(" -> ")) for one in promise_mutants("Toy", toy)]
    told = [(kind, new) for kind, _, new in changes]
    assert ("shifted", "n < Most") not in told
    assert ("quantified", r"\E n \in {x, y} \ {9} : \/ Small(n) \/ ~(n < 9)") in told
    assert ("negated", "(n < 9)") in told
    assert ("dropped", r"/\ TRUE /\ y <= 9") in told
    assert ("unprimed", "x") in told
    assert ("primed", "y'") in told
    assert ("dropped", "FALSE => y' >= y") in told
    assert not [new for _, new in told if "Ends" in new], "no row is about it"


def test_a_set_of_a_quantifier_loses_elements_and_gains_none(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    union = module.read_text().replace(r"{x, y} \ {9}", r"{x} \cup {y}")
    module.write_text(union)
    sets = {one.new for one in promise_mutants("Toy", toy) if r"\cup" in one.old[:14]}
    assert {r"{} \cup {y}", r"{x} \cup {}"} <= sets
    module.write_text(union.replace(r"{x} \cup {y}", r"{x, y} \ {9}"))
    assert not [one for one in promise_mutants("Toy", toy) if one.old == r"{x, y} \ {9}"]


def test_what_no_row_needs_is_alive_and_the_rest_is_noticed(toy: SpecTree) -> None:
    trials = judged("Toy", toy, of_promises=True)
    found = {name: str(one) for name, one in trials.found.items()}
    whole = r"Bounded: /\ \A n \in {x, y} \ {9} : \/ Small(n) \/ ~(n < 9) /\ y <= 9"
    assert found[rf"{whole} -> /\ TRUE /\ y <= 9"] == "bug_unbounded: Bounded holds"
    assert rf"{whole} -> /\ \A n \in {{x, y}} \ {{9}} : \/ Small(n) \/ ~(n < 9) /\ TRUE" in (
        trials.alive
    )
    assert found["Bounded: ~(n < 9) -> (n < 9)"] == "bug_unbounded: Bounded holds"
    assert [name for name in trials.alive if name.startswith("Grows")], "no bug_ row breaks it"
    assert judged("Toy", toy, of_promises=True) == trials  # from the cache


def with_control(toy: SpecTree, control: str) -> None:
    """Another step, which never comes but with a mutant, and that as the control of Grows."""
    module = toy.folder("Toy") / "Toy.tla"
    down = "Down == /\\ x > 0\n        /\\ y > 5\n        /\\ x' = x - 1\n        /\\ y' = y\n"
    module.write_text(module.read_text().replace("Next == Up\n", f"{down}Next == Up \\/ Down\n"))
    table = toy.folder("Toy") / "verdicts.toml"
    table.write_text(f'{table.read_text()}[controls]\nGrows = "{control}"\n')


def test_a_promise_that_a_mutant_of_the_rules_breaks_is_asked_of_it(toy: SpecTree) -> None:
    with_control(toy, "Down: y > 5 -> TRUE")
    trials = judged("Toy", toy, of_promises=True)
    found = {name: str(one) for name, one in trials.found.items()}
    said = r"Grows: x' >= x /\ (x > 0 => y' >= y)"
    assert (
        found[rf"{said} -> TRUE /\ (x > 0 => y' >= y)"]
        == "ok: Grows holds with `Down: y > 5 -> TRUE`"
    )
    assert rf"{said} -> x' >= x /\ (TRUE)" in trials.alive, "no control makes y fall"
    assert judged("Toy", toy, of_promises=True) == trials  # from the cache


def test_a_control_that_breaks_nothing_is_named(toy: SpecTree) -> None:
    with_control(toy, "Down: x > 0 -> TRUE")
    with pytest.raises(InputError, match=r"\[controls\] Grows: Down: x > 0 -> TRUE: no row breaks"):
        judged("Toy", toy, of_promises=True)


def test_a_control_that_is_no_mutant_is_named(toy: SpecTree) -> None:
    with_control(toy, "Down: y > 6 -> TRUE")
    with pytest.raises(InputError, match="Grows: no mutant 'Down: y > 6 -> TRUE'"):
        judged("Toy", toy, of_promises=True)


def test_a_counterexample_of_another_length_is_told_apart(toy: SpecTree) -> None:
    module = toy.folder("Toy") / "Toy.tla"
    module.write_text(
        module.read_text()
        .replace("x < 4", "x < 6")
        .replace("Small(n) == n <= Most", "Small(n) == n < Most + 1")
    )
    table = toy.folder("Toy") / "verdicts.toml"
    table.write_text(table.read_text())
    trials = judged("Toy", toy, of_promises=True)
    shifted = "Small: n < Most + 1 -> n <= Most + 1"
    assert str(trials.found[shifted]) == "bug_unbounded: counterexample 6, not 5"
    assert trials.found[shifted].by_length
    assert shifted not in trials.by_property
    judgement = spec_command.JudgedModule(trials, {})
    assert shifted in judgement.by_length
    assert shifted not in judgement.unexplained


def test_tlc_says_the_same_of_each_mutant_by_itself(toy: SpecTree) -> None:
    trials = judged("Toy", toy, of_promises=True)
    module = toy.folder("Toy") / "Toy.tla"
    original = module.read_text()
    asked = [one for one in promise_mutants("Toy", toy) if "Bounded" in one.promises]
    for one in asked[::3]:
        module.write_text(mutated_promise(one, SpecTree(toy.root)))
        answer = Tlc(toy, quick=True).check("Toy", "bug_unbounded", 60)
        module.write_text(original)
        noticed = trials.found.get(one.name)
        holds = noticed is not None and noticed.by == "Bounded holds"
        if answer.status is Status.VIOLATED and noticed is not None and noticed.by_length:
            assert answer.length != 5, one.name
        assert (answer.status is Status.PASSED) is holds, one.name


def test_the_lines_of_a_promise_stay_aligned_in_the_text_of_all(toy: SpecTree) -> None:
    text = joined_promises(promise_mutants("Toy", toy), toy)
    assert "VARIABLE mutant" in text
    assert text.count(r"    /\ \A n \in {x, y} \ {9} :") >= 2
    assert text.count("mutant' = mutant /\\ (Up)") == 1


def test_answers_about_promises_are_about_the_modules_as_they_are() -> None:
    names = sorted(file.stem for file in spec_command.PROMISES_KEPT.glob("*.json"))
    assert [one for one in names if spec_command.kept(one, of_promises=True) is None] == []


def test_the_page_says_what_was_found() -> None:
    known = [
        spec_command.with_reasons(one, of_promises=True)
        for one in spec_command.everything_kept(of_promises=True)
    ]
    written = spec_command.PROMISE_PAGE.read_text(encoding="utf-8")
    assert written == "\n".join(spec_command.promise_page(known)) + "\n"


def test_each_explanation_is_about_a_mutant_that_no_row_notices() -> None:
    kept = {one.module: one for one in spec_command.everything_kept(of_promises=True)}
    for module, reasons in spec_command.explained(of_promises=True).items():
        for name, why in reasons.items():
            assert name in kept[module].alive, f"{module}: {name}"
            assert len(why) > 30


def test_no_promise_has_become_weaker_than_its_rows_need() -> None:
    known = [
        spec_command.with_reasons(one, of_promises=True)
        for one in spec_command.everything_kept(of_promises=True)
    ]
    assert {one.trials.module: one.unexplained for one in known if one.unexplained} == {}


def test_the_rules_are_what_its_own_behaviours_are_made_of_and_not_those_of_an_instance() -> None:
    """DurableIsr and AbsLog have a Spec and a Next, too."""
    changed = {one.action for one in promise_mutants("Eligibility")}
    assert {"AckedSurvives", "NobodyWaits"} <= changed
    assert not changed & {"Elect", "CopyOn", "AssignCopy", "ReplaceCurrent", "AssignFound"}
