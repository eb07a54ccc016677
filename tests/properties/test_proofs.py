"""Inductive invariants: the evaluator is the spec, and what a proof claims can fail."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from click.testing import CliRunner

from properties.proofs import evaluate, induct, ranges, sany, table
from properties.proofs.actions import steps_of_next, taken
from properties.proofs.checking import ProofClaim, ProofTask, run, tasks
from properties.proofs.command import prove
from properties.proofs.endless import EndlessSequences, EndlessSubsets
from properties.proofs.evaluate import Evaluator, Memo
from properties.proofs.faithful import LiftedGraph, compare
from properties.proofs.induct import PROMISE, Failure, ProofAnswer, Prover, Question
from properties.proofs.known import KnownNumbers, is_cardinality, is_chosen
from properties.proofs.needs import needs
from properties.proofs.ranges import shapes_of
from properties.proofs.shapes import Either, Flags, Mapped, Numbers, Sequences, Shape, Words
from properties.proofs.small import refute
from properties.proofs.terms import (
    Num,
    at_most,
    conjunction,
    disjunction,
    implication,
    negation,
    same_bool,
    z3,
)
from properties.proofs.values import (
    Endless,
    EndlessSet,
    Fun,
    Seq,
    Set,
    appended,
    apply,
    cardinality,
    chosen,
    concatenation,
    difference,
    enumerated,
    equal,
    filtered,
    if_then_else,
    intersection,
    interval,
    length,
    member,
    offsets,
    selected,
    subsequence,
    subset,
    union,
    updated,
)
from properties.tla.errors import InputError
from properties.tla.graph import load_graph
from properties.tla.specs import SpecTree

pytestmark = pytest.mark.java
TREE = SpecTree()
TINY = {"M": 2, "LogEnd": 1, "MaxGeneration": 2}


@pytest.fixture
def proof() -> table.Proof:
    return table.load("ConsumerCommit", TREE).proofs[0]


def evaluator(proof: table.Proof, scope: Mapping[str, Any]) -> Evaluator:
    syntax = sany.read(proof.module, "ConsumerCommit", TREE)
    return Evaluator(syntax, table.constants_of(proof, scope, "ConsumerCommit", TREE))


def asked(proof: table.Proof, scope: Mapping[str, Any]) -> tuple[ProofAnswer, Evaluator]:
    ev = evaluator(proof, scope)
    question = Question(proof.invariant, proof.implies, proof.two_state)
    return Prover(ev, shapes_of(ev, proof.ranges), question).run(), ev


def test_every_table_names_definitions_and_configurations_that_are_there() -> None:
    modules = [module for module in TREE.modules() if table.has_table(module, TREE)]
    assert {"Truncation", "ConsumerCommit"} <= set(modules)
    for module in modules:
        for proof in table.load(module, TREE).proofs:
            syntax = sany.read(proof.module, module, TREE)
            for name in (*proof.invariant, *proof.implies, *proof.two_state, proof.ranges):
                assert syntax.definition(name)
            assert proof.controls, f"{module}/{proof.name} has nothing that breaks it"
            for scope in (*proof.scopes, *proof.full):
                assert table.constants_of(proof, scope, module, TREE)


@pytest.mark.parametrize(
    "module",
    ["Truncation", "ConsumerCommit", "Transaction", "TransactionCoordinator", "ProducerState"],
)
def test_the_evaluator_takes_the_steps_of_tlcs_graph(module: str) -> None:
    first = table.load(module, TREE).proofs[0]
    result = run(ProofTask(module, first, ProofClaim.FAITHFUL), TREE)
    assert result.as_expected, result.differences
    assert " 0 edges" not in result.said


def test_an_evaluator_that_reads_an_operator_wrongly_is_found(
    proof: table.Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(evaluate.OPERATORS, "\\union", difference)
    ev = evaluator(proof, {})
    graph = load_graph("ConsumerCommit", proof.cfg, TREE)
    found = compare(LiftedGraph.of(ev, shapes_of(ev, proof.ranges), graph), proof.invariant, 40)
    assert found.different
    assert "by the evaluator" in found.different[0]


def test_a_conjunct_that_does_not_hold_is_found_in_the_graph(proof: table.Proof) -> None:
    ev = evaluator(proof, {})
    graph = load_graph("ConsumerCommit", proof.cfg, TREE)
    found = compare(
        LiftedGraph.of(ev, shapes_of(ev, proof.ranges), graph), ["NeverAllCommitted"], 400
    )
    assert not found.different
    assert list(found.broken) == ["NeverAllCommitted"]


def test_an_invariant_that_lacks_a_conjunct_is_not_inductive(proof: table.Proof) -> None:
    rest = tuple(name for name in proof.invariant if name != "SentInGeneration")
    answer, _ = asked(evolve(proof, invariant=rest), TINY)
    assert not answer.inductive
    assert {failure.action for failure in answer.failures} <= {"ReceiveCommit", "Join", "Poll"}


def test_a_promise_that_does_not_follow_is_told(proof: table.Proof) -> None:
    answer, _ = asked(evolve(proof, invariant=("Joined", "TypeOK")), TINY)
    assert f"{PROMISE}: AtLeastOnce" in {failure.name for failure in answer.failures}


def test_a_counterexample_to_induction_is_one(proof: table.Proof) -> None:
    """The state before satisfies the invariant, and the step leads to the state behind."""
    answer, ev = asked(proof, {**TINY, "Fence": False})
    assert answer.failures
    shapes = shapes_of(ev, proof.ranges)
    for failure in answer.failures:
        assert not failure.unknown
        _is_counterexample(failure, ev, shapes, proof)


def _is_counterexample(
    failure: Failure, ev: Evaluator, shapes: Mapping[str, Shape], proof: table.Proof
) -> None:
    before = {name: shapes[name].lift(plain) for name, plain in (failure.before or {}).items()}
    assert all(ev.define(name, before) is True for name in proof.invariant)
    (step,) = [one for one in steps_of_next(ev) if str(one) == failure.step]
    behind = [
        {name: shapes[name].plain(value, None) for name, value in after.items()}
        for condition, after in taken(ev, step, before)
        if condition is True
    ]
    assert failure.after in behind


def test_of_steps_that_a_renaming_makes_the_same_the_first_is_asked(proof: table.Proof) -> None:
    ev = evaluator(proof, {"M": 3, "LogEnd": 2})
    every, first = steps_of_next(ev), steps_of_next(ev, "Members")
    assert {str(step) for step in first} < {str(step) for step in every}
    asked_for = {str(step) for step in first if step.action in ("Join", "ReceiveCommit")}
    assert asked_for == {"Join(1)", "ReceiveCommit(1, 1)", "ReceiveCommit(1, 2)"}
    syntax = sany.read("TruncationProof", "Truncation", TREE)
    (scope, *_) = (proof := table.load("Truncation", TREE).proofs[0]).scopes
    ev = Evaluator(syntax, table.constants_of(proof, scope, "Truncation", TREE))
    pairs = {step.args for step in steps_of_next(ev, "Replicas") if step.action == "Fetch"}
    assert pairs == {(1, 1), (1, 2)}


@pytest.mark.parametrize("changed", [{}, {"Fence": False}, {"Dropped": "once"}])
def test_asking_one_of_like_steps_tells_what_asking_all_does(
    proof: table.Proof, changed: Mapping[str, Any]
) -> None:
    every, ev = asked(proof, {**TINY, **changed})
    question = Question(proof.invariant, proof.implies, proof.two_state, alike="Members")
    one = Prover(ev, shapes_of(ev, proof.ranges), question).run()
    assert {failure.name for failure in one.failures} == {each.name for each in every.failures}
    assert sum(one.steps.values()) < sum(every.steps.values())


def test_where_z3_gives_up_it_is_asked_again_with_another_seed(
    proof: table.Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = induct.solver

    def gives_up_at_first(given: Any, seconds: float) -> Any:
        made = first(given, seconds)
        monkeypatch.setattr(induct, "solver", first)
        made.check = lambda: z3.unknown
        return made

    def unknown(scope: Mapping[str, Any], *seeds: int) -> tuple[list[bool], set[str]]:
        ev = evaluator(proof, scope)
        monkeypatch.setattr(induct, "solver", gives_up_at_first)
        question = Question(proof.invariant, vacuity=False, again=seeds)
        failures = Prover(ev, shapes_of(ev, proof.ranges), question).run().failures
        return [one.unknown for one in failures], {one.name for one in failures}

    said, _ = unknown(TINY)
    assert said
    assert all(said)
    assert unknown(TINY, 1) == ([], set())
    answered, failed = unknown({**TINY, "Fence": False}, 1)
    assert answered
    assert not any(answered)
    assert failed == {one.name for one in asked(proof, {**TINY, "Fence": False})[0].failures}


def test_a_conjunct_reads_what_stands_in_it_and_in_what_it_calls(proof: table.Proof) -> None:
    syntax = sany.read(proof.module, "ConsumerCommit", TREE)

    def reads(name: str) -> set[str]:
        return set(syntax.variables_in(syntax.definition(name).body(syntax)))

    assert reads("OneOwner") == {"joined", "generation", "owner"}
    assert reads("AtLeastOnce") == {"committed", "processed"}
    assert reads("CommittedNeverFalls") == {"committed"}
    assert reads("NeverZombieCommits") == {"requests", "generation"}


def test_a_definition_is_evaluated_once_for_what_it_depends_on(proof: table.Proof) -> None:
    """Other values of the variables that it reads are evaluated, those of others are not."""
    ev = evaluator(proof, {})
    graph = load_graph("ConsumerCommit", proof.cfg, TREE)
    lifted = LiftedGraph.of(ev, shapes_of(ev, proof.ranges), graph)
    first, *others = (lifted.state(number) for number in range(0, 29_000, 1_000))
    ev.define("AtLeastOnce", first)
    known = len(ev.memory.of)
    ev.define("AtLeastOnce", {**first, "joined": others[-1]["joined"]})
    assert len(ev.memory.of) == known > 0
    found = [ev.define("NeverAllCommitted", one) for one in (first, *others)]
    anew = [evaluator(proof, {}).define("NeverAllCommitted", one) for one in (first, *others)]
    assert found == anew
    assert set(found) == {True, False}


def test_true_is_remembered_apart_from_1(tmp_path: Path) -> None:
    defined = "Itself(item) == item\nOfTrue == Itself(TRUE)\nOfOne == Itself(1)\nJoined =="
    specs = _copied(tmp_path, "Joined ==", defined)
    ev = Evaluator(sany.read("ConsumerCommitProof", "ConsumerCommit", specs), {})
    assert ev.define("OfTrue", {}) is True
    assert ev.define("OfOne", {}) is not True


def test_what_is_known_of_a_number_is_known_again() -> None:
    """The facts that came with a value that is remembered are those of another question too."""
    known, memory, log = KnownNumbers(), Memo(), EndlessSequences(SMALL, 0).fresh("log", [])

    def last() -> Any:
        return known.number(offsets(log), lambda number: is_cardinality(offsets(log), number))

    value = memory.recall("last", known, last)
    (fact,) = known.facts
    known.facts.clear()
    assert memory.recall("last", known, last) is value
    assert known.facts == [fact]


SMALL = Numbers(0, 3)
PAIRED: dict[str, Callable[[Any, Any], Any]] = {
    "union": union,
    "intersection": intersection,
    "difference": difference,
    "filter": lambda a, b: filtered(a, lambda item: member(item, b)),
    "if": lambda a, b: if_then_else(z3.Bool("condition"), a, b),
}


def two_forms(name: str, given: list[Any]) -> tuple[EndlessSet, Set]:
    """One unknown set of small numbers: by its predicate, and listed."""
    endless = EndlessSubsets(SMALL).fresh(name, given)
    return endless, Set([(member(item, endless), item) for item in SMALL.constants()])


def is_valid(formula: Any, given: list[Any]) -> bool:
    """True if z3 finds no counterexample."""
    solver = z3.Solver()
    solver.add(*given, negation(formula))
    return solver.check() == z3.unsat


@pytest.mark.parametrize("operation", PAIRED)
def test_a_set_of_any_size_is_operated_on_as_a_listed_one(operation: str) -> None:
    given: list[Any] = []
    (a, listed_a), (b, listed_b) = two_forms("a", given), two_forms("b", given)
    listed = PAIRED[operation](listed_a, listed_b)
    for one, other in ((a, b), (a, listed_b), (listed_a, b)):
        made = PAIRED[operation](one, other)
        same = [same_bool(member(i, made), member(i, listed)) for i in SMALL.constants()]
        assert is_valid(conjunction(*same), given)
    other_way = PAIRED[operation](listed_b, listed_a)
    differ = [same_bool(member(i, other_way), member(i, listed)) for i in SMALL.constants()]
    assert is_valid(conjunction(*differ), given) == (operation not in ("difference", "if"))


def test_sets_of_any_size_are_compared_as_listed_ones() -> None:
    given: list[Any] = []
    (a, listed_a), (b, listed_b) = two_forms("a", given), two_forms("b", given)
    for one, other in ((a, b), (a, listed_b), (listed_a, b)):
        assert is_valid(same_bool(subset(one, other), subset(listed_a, listed_b)), given)
        assert is_valid(same_bool(equal(one, other), equal(listed_a, listed_b)), given)
    assert not is_valid(subset(a, b), given)
    assert not is_valid(equal(a, enumerated(1)), given)


def test_what_leaves_the_range_of_a_set_of_any_size_is_an_obligation() -> None:
    given: list[Any] = []
    shape = EndlessSubsets(SMALL)
    for item, fits in ((3, True), (4, False)):
        obligations: list[Any] = []
        shape.fit(union(shape.fresh("a", given), enumerated(item)), obligations)
        assert is_valid(conjunction(*obligations), given) == fits


ONE = Num(z3.Int("one"), 1, 3)
OTHER = Num(z3.Int("other"), 1, 3)
LIMITS = [z3.And(one.term >= 1, one.term <= 3) for one in (ONE, OTHER)]
#: Of two sequences: what a log is made of, copied to, and cut to.
OF_SEQUENCES: dict[str, Callable[[Any, Any], Any]] = {
    "beginning": lambda a, b: subsequence(a, 1, length(b)),
    "middle": lambda a, b: subsequence(a, ONE, OTHER),
    "concatenation": concatenation,
    "copy": lambda a, b: concatenation(a, subsequence(b, ONE, OTHER)),
    "append": lambda a, b: appended(a, length(b)),
    "except": lambda a, b: updated(a, [ONE], lambda old: length(b)),
    "if": lambda a, b: if_then_else(z3.Bool("condition"), a, b),
    "if empty": lambda a, b: if_then_else(z3.Bool("condition"), a, Seq([], 0)),
}


def sequence_in_two_forms(name: str, given: list[Any]) -> tuple[Endless, Seq]:
    """One unknown sequence of at most three small numbers: of any length, and listed."""
    endless = EndlessSequences(SMALL, 0).fresh(name, given)
    given.append(endless.length.term <= 3)
    return endless, Seq([endless.at(i) for i in (1, 2, 3)], Num(endless.length.term, 0, 3))


@pytest.mark.parametrize("operation", OF_SEQUENCES)
def test_a_sequence_of_any_length_is_operated_on_as_a_listed_one(operation: str) -> None:
    given: list[Any] = [*LIMITS]
    a, listed_a = sequence_in_two_forms("a", given)
    b, listed_b = sequence_in_two_forms("b", given)
    given += [at_most(OTHER, length(a)), at_most(OTHER, length(b))]
    listed = OF_SEQUENCES[operation](listed_a, listed_b)
    made = OF_SEQUENCES[operation](a, b)
    assert isinstance(made, Endless)
    assert is_valid(equal(made, listed), given)
    assert not is_valid(equal(made, OF_SEQUENCES[operation](listed_b, listed_a)), given)


def test_sequences_of_any_length_are_compared_as_listed_ones() -> None:
    given: list[Any] = []
    a, listed_a = sequence_in_two_forms("a", given)
    b, listed_b = sequence_in_two_forms("b", given)
    for one, other in ((a, b), (a, listed_b), (listed_a, b)):
        assert is_valid(same_bool(equal(one, other), equal(listed_a, listed_b)), given)
    assert not is_valid(equal(a, b), given)
    assert not is_valid(negation(equal(a, b)), given)


def test_what_leaves_the_range_of_a_sequence_of_any_length_is_an_obligation() -> None:
    given: list[Any] = []
    shape = EndlessSequences(SMALL, 1)
    fresh = shape.fresh("a", given)
    longer_than_one = at_most(2, fresh.length)
    for value, fits in (
        (appended(fresh, 3), True),
        (appended(fresh, 4), False),
        (subsequence(fresh, 2, fresh.length), False),
        (if_then_else(longer_than_one, subsequence(fresh, 2, fresh.length), fresh), True),
    ):
        obligations: list[Any] = []
        shape.fit(value, obligations)
        assert is_valid(conjunction(*obligations), given) == fits


def test_of_an_interval_that_cannot_be_listed_all_numbers_are_members_and_no_others() -> None:
    end = Num(z3.Int("end"), 0, 10**9)
    given = [end.term >= 0]
    to_end = interval(1, end)
    assert isinstance(to_end, EndlessSet)
    assert is_valid(implication(at_most(2, end), member(2, to_end)), given)
    assert is_valid(negation(member(0, to_end)), given)
    assert is_valid(subset(to_end, union(enumerated(0), to_end)), given)
    assert not is_valid(subset(union(to_end, enumerated(0)), to_end), given)
    assert is_valid(subset(filtered(to_end, lambda i: at_most(2, i)), to_end), given)
    assert not is_valid(subset(to_end, filtered(to_end, lambda i: at_most(2, i))), given)


def test_how_many_offsets_there_are_and_the_last_of_them_are_as_in_a_list() -> None:
    """Only for offsets from the first on: otherwise nothing is known of their number."""
    given: list[Any] = [*LIMITS]
    log, listed = sequence_in_two_forms("log", given)
    here = [listed.cells[i] for i in range(3)]
    below = filtered(offsets(log), lambda i: at_most(apply(log, i), ONE))
    listed_below = filtered(interval(1, listed.length), lambda i: at_most(apply(listed, i), ONE))
    assert isinstance(below, EndlessSet)
    assert isinstance(listed_below, Set)
    known = KnownNumbers()
    size = known.number(below, lambda number: is_cardinality(below, number))
    again = known.number(below, lambda number: is_cardinality(below, number))
    assert again is size
    ascends = [at_most(here[0], here[1]), at_most(here[1], here[2])]
    same_size = equal(size, cardinality(listed_below))
    assert is_valid(same_size, [*given, *known.facts, *ascends])
    assert not is_valid(same_size, [*given, *known.facts])

    last = known.number(below, lambda n: is_chosen(below, lambda i: _no_less(i, below), n))
    listed_last = chosen(listed_below, lambda i: _no_less(i, listed_below))
    same_last = equal(last, listed_last)
    some = negation(equal(listed_below, enumerated()))
    assert is_valid(implication(some, same_last), [*given, *known.facts])
    assert not is_valid(same_last, [*given, *known.facts])


def _no_less(number: Any, of: Any) -> Any:
    return subset(of, filtered(of, lambda other: at_most(other, number)))


def test_a_number_that_is_another_for_each_of_any_number_of_elements_is_refused() -> None:
    known, log = KnownNumbers(), EndlessSequences(SMALL, 0).fresh("log", [])
    with known.for_each(), pytest.raises(InputError, match="need a list"):
        known.number(offsets(log), lambda number: is_cardinality(offsets(log), number))
    assert known.number(offsets(log), lambda number: is_cardinality(offsets(log), number))


def durable(changed: Mapping[str, Any]) -> tuple[table.Proof, Prover]:
    """DurableIsr, whose logs are of any length."""
    proof = table.load("DurableIsr", TREE).proofs[0]
    scope = {**proof.scopes[-1], **changed}
    assert scope["MaxRecords"] == table.ANY
    syntax = sany.read(proof.module, "DurableIsr", TREE)
    ev = Evaluator(syntax, table.constants_of(proof, scope, "DurableIsr", TREE))
    question = Question(proof.invariant, proof.implies, proof.two_state, vacuity=False)
    return proof, Prover(ev, shapes_of(ev, proof.ranges), question)


def test_logs_of_any_length_keep_what_was_acknowledged() -> None:
    _, prover = durable({})
    assert isinstance(prover.state["acked"], Endless)
    assert prover.run().inductive


@pytest.mark.parametrize(
    ("rule", "fails"),
    [
        ({"DetectCrash": False}, {"Restart: EligibleHaveAcked"}),
        ({"LastKnownLeader": True}, {"ElectLastKnown: EligibleHaveAcked"}),
    ],
)
def test_a_rule_that_is_missing_is_found_among_logs_of_any_length(
    rule: Mapping[str, Any], fails: set[str]
) -> None:
    """z3 has a model, and among logs of few records one that is a counterexample in the spec."""
    proof, prover = durable(rule)
    found = prover.run().failures
    assert {one.name for one in found} == fails
    assert not any(one.unknown for one in found)
    few = refute(prover.ev, prover.shapes, prover.question).failures
    assert {one.name for one in few} == fails
    for failure in few:
        _is_counterexample(failure, prover.ev, prover.shapes, proof)


def test_without_a_guard_of_its_text_the_spec_with_logs_of_any_length_fails(tmp_path: Path) -> None:
    shutil.copytree(TREE.root, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "DurableIsr" / "DurableIsr.tla"
    text, guard = spec.read_text(encoding="utf-8"), " /\\ Len(log[f]) >= Len(acked)\n"
    assert guard in text
    spec.write_text(text.replace(guard, "\n", 1), encoding="utf-8")
    specs = SpecTree(tmp_path)
    todo = tasks([(table.load("DurableIsr", specs), {"kip966"})])
    (unbounded,) = [task for task in todo if task.scope.get("MaxCrashes") == table.ANY]
    result = run(unbounded, specs)
    assert result.differences == ["ExpandIsr: EligibleHaveAcked fails"]


def test_a_record_of_two_kinds_is_of_one_of_them() -> None:
    given: list[Any] = []
    shape = Either((Mapped({"asked": SMALL, "by": SMALL}), Mapped({"asked": Numbers(0, 0)})))
    record, condition = shape.fresh("record", given), z3.Bool("condition")
    request, nothing = Fun({"asked": 2, "by": 1}), Fun({"asked": 0})
    assert is_valid(negation(conjunction(equal(record, request), equal(record, nothing))), given)
    assert not is_valid(negation(equal(record, request)), given)
    assert not is_valid(negation(equal(record, nothing)), given)
    chosen = if_then_else(condition, record, nothing)
    is_nothing = disjunction(negation(condition), equal(record, nothing))
    assert is_valid(same_bool(equal(chosen, nothing), is_nothing), given)
    assert is_valid(implication(equal(record, request), equal(apply(record, "by"), 1)), given)
    asked = EndlessSubsets(shape.of[0]).fresh("requests", given)
    assert is_valid(implication(member(record, asked), negation(equal(record, nothing))), given)
    obligations: list[Any] = []
    shape.fit(if_then_else(condition, Fun({"asked": 1}), record), obligations)
    assert not is_valid(conjunction(*obligations), given)
    assert is_valid(disjunction(condition, conjunction(*obligations)), given)
    with pytest.raises(InputError, match="a record of fields other is in no range"):
        shape.fit(Fun({"other": 1}), obligations)


def test_predicates_prove_and_refute_what_listed_sets_do(
    proof: table.Proof, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "LISTED", 0)
    shape = shapes_of(evaluator(proof, TINY), proof.ranges)["requests"]
    assert isinstance(shape, EndlessSubsets)
    todo = tasks([(table.load("ConsumerCommit", TREE), {proof.name})])
    asked_of_z3 = [task for task in todo if task.kind in (ProofClaim.INDUCTIVE, ProofClaim.CONTROL)]
    assert len(asked_of_z3) > 3
    for task in asked_of_z3:
        result = run(task, TREE)
        assert result.as_expected, result.differences


def test_a_scope_without_bounds_can_fail(proof: table.Proof) -> None:
    """And its counterexample shows the elements of a set of any size."""
    scope = {**TINY, "LogEnd": 2, "MaxGeneration": "any", "Fence": False}
    answer, ev = asked(proof, scope)
    by_name = {one.name: one for one in answer.failures}
    failed = by_name["ReceiveCommit: CommittedNeverFalls"]
    assert not failed.unknown
    assert (failed.before or {})["requests"]
    _is_counterexample(failed, ev, shapes_of(ev, proof.ranges), proof)


UNBOUNDED = {"M": 2, "LogEnd": 2, "MaxGeneration": "any", "MaxProcessed": "any"}


def test_what_fails_among_few_elements_is_what_fails(proof: table.Proof) -> None:
    """And its counterexamples are some of the whole scope."""
    whole, ev = asked(proof, {**UNBOUNDED, "Fence": False})
    shapes = shapes_of(ev, proof.ranges)
    question = Question(proof.invariant, proof.implies, proof.two_state, vacuity=False)
    few = refute(ev, shapes, question)
    assert {one.name for one in few.failures} == {one.name for one in whole.failures}
    for failure in few.failures:
        assert not failure.unknown
        _is_counterexample(failure, ev, shapes, proof)


@pytest.mark.parametrize("scope", [TINY, UNBOUNDED])
def test_what_an_invariant_needs_fails_without_it(
    proof: table.Proof, scope: Mapping[str, Any]
) -> None:
    """And what it does not need, as what another conjunct implies, may go."""
    ev = evaluator(proof, scope)
    shapes = shapes_of(ev, proof.ranges)
    invariant = (*proof.invariant, "TypeOK", "Requested")
    found = needs(ev, shapes, Question(invariant, proof.implies, proof.two_state))
    assert not found.doubtful
    assert "OneJoins" in found.needed
    for name in invariant:
        rest = tuple(one for one in invariant if one != name)
        answer = Prover(ev, shapes, Question(rest, proof.implies, proof.two_state)).run()
        failed = {failure.name for failure in answer.failures}
        assert failed == set() if name not in found.needed else found.needed[name] in failed
    assert {"TypeOK", "Requested"}.isdisjoint(found.needed)


def test_a_conjunct_that_may_go_is_a_difference(tmp_path: Path) -> None:
    specs = _copied(tmp_path, "Joined ==", "Joined ==")
    path = tmp_path / "ConsumerCommit" / table.TABLE
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"Joined", ', '"Joined", "TypeOK", ', 1), encoding="utf-8")
    todo = tasks([(table.load("ConsumerCommit", specs), {"process_then_commit"})], necessary=True)
    (necessity,) = [task for task in todo if task.kind is ProofClaim.NECESSARY]
    result = run(necessity, specs)
    assert result.differences == ["TypeOK is not needed: it may go"]
    assert result.as_json()["needed"]["OneJoins"] == result.needed["OneJoins"]
    largest = "M=3 LogEnd=3 MaxGeneration=any MaxProcessed=any"
    assert result.needed["OneJoins"].endswith(f", at {largest}")


def test_a_step_that_leaves_the_ranges_is_found(proof: table.Proof, tmp_path: Path) -> None:
    specs = _copied(tmp_path, "0..MaxProcessed", "0..1")
    result = run(_inductive(specs), specs)
    assert any("ranges fails" in difference for difference in result.differences)


def test_a_variable_without_a_range_is_refused(tmp_path: Path) -> None:
    specs = _copied(tmp_path, "    /\\ owner \\in 0..M\n", "")
    with pytest.raises(InputError, match="InRange says nothing of owner"):
        run(_inductive(specs), specs)


def test_a_module_that_does_not_parse_is_refused_in_sanys_words(tmp_path: Path) -> None:
    specs = _copied(tmp_path, "Joined ==", "Joined = =")
    with pytest.raises(InputError, match="SANY does not parse it"):
        run(_inductive(specs), specs)


def _inductive(specs: SpecTree) -> ProofTask:
    todo = tasks([(table.load("ConsumerCommit", specs), {"process_then_commit"})])
    first = next(task for task in todo if task.kind is ProofClaim.INDUCTIVE)
    return evolve(first, scope=TINY)


def _copied(folder: Path, old: str, new: str) -> SpecTree:
    """The specs of the repository, with one text of ConsumerCommitProof replaced."""
    for file in _files(TREE.root):
        target = folder / file.relative_to(TREE.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    module = folder / "ConsumerCommit" / "ConsumerCommitProof.tla"
    text = module.read_text(encoding="utf-8")
    assert old in text
    module.write_text(text.replace(old, new), encoding="utf-8")
    return SpecTree(folder)


def _files(root: Path) -> Iterator[Path]:
    yield from (root / "lib").glob("*")
    yield from (file for file in (root / "ConsumerCommit").rglob("*") if file.is_file())
    yield from (root / "AbsLog").glob("*.tla")


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ('OwnerIsAhead"]', 'Nowhere"]', 1, "Nowhere was expected to fail, and does not"),
        ("two_state", "to_state", 2, 'unknown field "to_state"'),
        ('cfg = "ok_process_then_commit"\n', "", 2, "these fields are missing: cfg"),
        ('"OneOwner", "AtLeastOnce"', '"OneOwnr"', 2, "the module defines no 'OneOwnr'"),
        ("Fence = false", "Fenec = false", 2, "has no constant 'Fenec'"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_table(
    tmp_path: Path, old: str, new: str, code: int, said: str
) -> None:
    _copied(tmp_path, "Joined ==", "Joined ==")
    path = tmp_path / "ConsumerCommit" / table.TABLE
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    command = ["ConsumerCommit/process_then_commit", "--specs", str(tmp_path)]
    done = CliRunner().invoke(prove, command)
    assert done.exit_code == code, done.output
    assert said in done.output.replace("\n", " ")


def test_select_seq_leaves_what_is_not_asked_for_and_keeps_the_order() -> None:
    given: list[Any] = []
    log = Sequences(SMALL, 3).fresh("log", given)
    few = selected(log, lambda item: at_most(item, 1))
    first, second, third = (apply(log, i) for i in (1, 2, 3))
    only_second = conjunction(at_most(2, first), at_most(second, 1), at_most(2, third))
    chosen_one = conjunction(equal(length(few), 1), equal(apply(few, 1), second))
    long_enough = at_most(2, length(log))
    assert is_valid(implication(conjunction(long_enough, only_second), chosen_one), given)
    both = conjunction(at_most(first, 1), at_most(second, 1), equal(length(log), 2))
    assert is_valid(implication(both, equal(few, log)), given)
    assert not is_valid(equal(few, log), given)
    assert not is_valid(implication(only_second, chosen_one), given)
    with pytest.raises(InputError, match="SelectSeq of a sequence of any length"):
        selected(EndlessSequences(SMALL, 0).fresh("endless", []), lambda item: True)


def test_words_and_flags_in_a_sequence_of_any_length_are_of_their_shapes() -> None:
    given: list[Any] = []
    shape = EndlessSequences(Mapped({"state": Words(("open", "ended")), "last": Flags()}), 1)
    log = shape.fresh("log", given)
    last = apply(log, log.length)
    state, flag = apply(last, "state"), apply(last, "last")
    assert is_valid(disjunction(equal(state, "open"), equal(state, "ended")), given)
    assert not is_valid(equal(state, "open"), given)
    assert not is_valid(flag, given)
    assert not is_valid(negation(flag), given)
    longer = appended(log, Fun({"state": "open", "last": True}))
    assert is_valid(equal(apply(apply(longer, length(longer)), "state"), "open"), given)
    assert is_valid(equal(apply(apply(longer, log.length), "state"), state), given)


def test_a_disjunct_of_next_may_hold_several_actions() -> None:
    proof = table.load("Transaction", TREE).proofs[0]
    syntax = sany.read(proof.module, "Transaction", TREE)
    constants = table.constants_of(proof, proof.scopes[0], "Transaction", TREE)
    ev = Evaluator(syntax, constants)
    steps = [str(step) for step in steps_of_next(ev)]
    assert len(steps) == len(set(steps)) == 16
    assert {"Begin(1)", "Begin(2)", "Tell(1)", "Write(2, 1)", "End(1, 2)"} <= {*steps}


def test_a_transaction_decided_once_ends_alike_everywhere() -> None:
    todo = tasks([(table.load("Transaction", TREE), set[str]())])
    assert len([task for task in todo if task.kind is ProofClaim.CONTROL]) == 5
    for task in todo:
        result = run(task, TREE)
        assert result.as_expected, (task.name, result.differences)


def coordinator(changed: Mapping[str, Any], specs: SpecTree = TREE) -> Prover:
    """TransactionCoordinator, with any number of epochs and a log of any length."""
    proof = table.load("TransactionCoordinator", specs).proofs[0]
    scope = {**proof.control_scope, **changed}
    assert scope["MaxEpoch"] == table.ANY
    syntax = sany.read(proof.module, "TransactionCoordinator", specs)
    constants = table.constants_of(proof, scope, "TransactionCoordinator", specs)
    ev = Evaluator(syntax, constants)
    question = Question(proof.invariant, proof.implies, proof.two_state, vacuity=False, apart=True)
    return Prover(ev, shapes_of(ev, proof.ranges), question)


def test_transactions_end_alike_and_as_told_in_any_number_of_epochs() -> None:
    prover = coordinator({})
    assert isinstance(prover.state["log"], Endless)
    answer = prover.run()
    assert answer.inductive, [failure.name for failure in answer.failures]


@pytest.mark.parametrize(
    ("old", "new", "action", "fails"),
    [
        ('    /\\ Dropped # "complete" => owed = {}\n', "", "Complete", "OpenIsKnown"),
        (
            "    /\\ client[i].as = memory.at\n    /\\ p",
            "    /\\ p",
            "AddPartition",
            "NewestFollows",
        ),
        (
            "pending # NothingPending /\\ highWatermark = Len(log)\n",
            "pending # NothingPending\n",
            "Apply",
            "LogIsRead",
        ),
    ],
)
def test_without_a_guard_of_its_text_the_coordinator_fails(
    old: str, new: str, action: str, fails: str, tmp_path: Path
) -> None:
    shutil.copytree(TREE.root, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "TransactionCoordinator" / "TransactionCoordinator.tla"
    text = spec.read_text(encoding="utf-8")
    start = text.index(f"\n{action}")
    assert old in text[start:]
    spec.write_text(text[:start] + text[start:].replace(old, new, 1), encoding="utf-8")
    prover = coordinator({}, SpecTree(tmp_path))
    steps = [step for step in steps_of_next(prover.ev) if step.action == action]
    prover.solver.add(*prover.invariant.values())
    goals = [
        conjunction(branch.given, branch.within, negation(branch.goals[fails]))
        for branch in prover.branches(steps[0])
    ]
    assert [prover.solver.check(goal) for goal in goals] == [z3.sat] * len(goals)


def test_five_batches_in_flight_need_a_window_of_five() -> None:
    """Whatever connections break; and a window of four refuses a batch that was written."""
    todo = tasks([(table.load("ProducerState", TREE), set[str]())])
    for task in todo:
        smaller = task.control is not None and "Window" in task.control.constants
        if smaller or task.kind is ProofClaim.INDUCTIVE:
            result = run(task, TREE)
            assert result.as_expected, (task.name, result.differences)
            assert smaller == bool(result.failures)
