"""Known bugs go in, are found, and come out again."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from shutil import copytree
from unittest.mock import Mock

import pytest
from attrs import evolve
from click.testing import CliRunner

from properties.conformance.scope import ConformanceScope
from properties.modules.descriptor import module, modules
from properties.mutants import auto, automatic, forked, guards, matrix, methods
from properties.mutants.catalogue import (
    FOLDER,
    Edit,
    Mutant,
    applied,
    catalogue,
    read,
    stale,
)
from properties.mutants.command import mutants
from properties.mutants.forked import GateAnswer, Kept, MutantResult, Trial
from properties.mutants.generated import generated
from properties.mutants.guards import Guard, killer
from properties.mutants.matrix import (
    METHODS,
    PAGE,
    Matrix,
    all_guards,
    differences,
    equivalent_guards,
    kills,
    page,
)
from properties.mutants.suite import CollectedTests, closure
from properties.tla import InputError, SpecTree
from properties.tla.specs import CHECKOUT
from properties.tla.verdicts import load, pin_mutants
from refimpl.machines.log import Log, Record
from refimpl.storage.disk.crashing import CrashDisk

pytestmark = pytest.mark.java


def test_a_mutant_comes_out_again_even_when_the_check_fails() -> None:
    original = Log.truncate_to
    with pytest.raises(TypeError), applied(catalogue()["epoch_cache_not_truncated"]):
        Log().truncate_to("no number")  # pyright: ignore[reportArgumentType]
    assert Log.truncate_to is original


def test_a_mutant_has_the_bug_that_its_name_says() -> None:
    log = Log([Record(1, "a"), Record(2, "b")])
    with applied(catalogue()["epoch_cache_not_truncated"]):
        log.truncate_to(1)
    assert log.end == 1
    assert log.latest_epoch == 2


def edit(function: str, old: str, new: str) -> Mutant:
    return Mutant("scratch", "only for this test", (Edit(function, old, new),), ("Truncation",))


def test_a_property_stays_a_property() -> None:
    with applied(edit("refimpl.machines.log:Log.latest_epoch", "UNDEFINED_EPOCH", "7")):
        assert Log().latest_epoch == 7
    assert Log().latest_epoch == -1


def test_layout_and_quotes_of_an_edit_do_not_matter() -> None:
    snippet = "del  self.records[ end - self.start : ]\n"
    snippet += "while (self._starts and self._starts[-1] >= end):\n"
    snippet += "  self._starts.pop(); self._epochs.pop()"
    with applied(edit("refimpl.machines.log:Log.truncate_to", snippet, "")):
        log = Log([Record(1, "a")])
        log.truncate_to(0)
    assert log.records == [Record(1, "a")]


@pytest.mark.parametrize(
    ("function", "old", "told"),
    [
        ("Log.truncate_to", "self._starts[-1] >= start", "is there no more"),
        ("Log.append", "epoch", "is there twice or more"),
        ("Log.append", "a b", "is no Python"),
        ("Log.cut", "0", "refimpl.machines.log does not define Log.cut"),
    ],
)
def test_an_edit_that_no_longer_applies_is_an_error(function: str, old: str, told: str) -> None:
    original = Log.append
    with (
        pytest.raises(InputError, match="scratch no longer applies") as wrong,
        applied(edit(f"refimpl.machines.log:{function}", old, "0")),
    ):
        pass
    assert told in str(wrong.value)
    assert Log.append is original


def test_an_expression_is_replaced_by_an_expression_only() -> None:
    with (
        pytest.raises(InputError, match="is an expression"),
        applied(edit("refimpl.machines.log:Log.append", "offset", "x = 1")),
    ):
        pass


def test_every_edit_of_the_catalogue_applies() -> None:
    assert stale(catalogue().values()) == []


def test_every_file_of_the_catalogue_belongs_to_a_machine_that_a_descriptor_names() -> None:
    named = {machine for module in modules().values() for machine in module.machines}
    assert {file.stem for file in FOLDER.glob("*.toml")} <= named


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mutant = 1 2", "not a list of"),
        ('[[mutant]]\nname = "a"', "a: missing field edit, modules, why"),
        ('[[mutant]]\nname = "a"\nwhy = "b"\nmodules = []\ncolour = 1', "unknown field colour"),
        ('[[mutant]]\nname = "a"\nwhy = "b"\nmodules = ["Raft"]\nedit = []', "no module 'Raft'"),
        (
            '[[mutant]]\nname = "a"\nwhy = "b"\nmodules = []\nedit = [{in = "log.Log.end"}]',
            "an edit has",
        ),
    ],
)
def test_a_wrong_file_of_the_catalogue_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "log.toml"
    file.write_text(text)
    with pytest.raises(InputError) as wrong:
        list(read(file))
    assert told in str(wrong.value)
    assert str(file) in str(wrong.value)


def test_every_mutant_says_why_and_concerns_a_spec() -> None:
    assert len(catalogue()) >= 20
    for mutant in catalogue().values():
        assert len(mutant.why) > 20, mutant.name
        assert set(mutant.modules) <= set(modules()), mutant.name


@pytest.mark.parametrize(
    "name",
    [
        "truncates_to_the_leaders_offset",
        "counts_an_earlier_incarnation",
        "crash_goes_undetected",
        "zombies_commit",
    ],
)
def test_the_exhaustive_check_finds_what_kafka_once_had(name: str) -> None:
    assert kills(methods.by_exhaustion, catalogue()[name])


@pytest.mark.parametrize("name", ["one_table_for_two", "old_answers_count_in_the_new_generation"])
def test_what_loading_hides_the_walk_finds(name: str) -> None:
    one_scope = partial(methods.by_exhaustion, most=1)
    assert not kills(one_scope, catalogue()[name])
    assert kills(methods.by_walk, catalogue()[name])


# ------------------------------------------------------------------------------ guards


def test_guards_are_read_from_the_actions_and_nothing_else() -> None:
    texts = [guard.name for guard in guards.guards("Truncation")]
    assert "Truncation.ExpandIsr: CheckEpochStart => ends[l][f] >= EpochStart(l)" in texts
    assert "Truncation.Follows: f # l" in texts
    assert "Truncation.LateFetch: m.incarnation >= seen[l][f]" in texts
    assert not [text for text in texts if "'" in text or "UNCHANGED" in text or "THEN" in text]
    assert not [text for text in texts if "TypeOK" in text or "Init" in text]


def test_an_operator_below_let_is_cut_into_its_conjuncts_and_no_premise_is() -> None:
    known = {guard.place: guard for guard in guards.guards("TransactionCoordinator")}
    takes = [place for place in known if place.startswith("Takes: ")]
    assert takes == [
        "Takes: FenceCoordinator => m.coordinator >= seen.coordinator",
        "Takes: m.at.epoch >= seen.epoch",
        r"Takes: Version = 2 /\ StrictMarkers => m.at.epoch > seen.epoch \/ again",
    ]
    assert "IsRetry: EndedAs(client[i].as)" in known
    assert "IsRetry: " not in known
    parts = guards.leaves(known["Arrives: Takes(m)"], SpecTree())
    assert parts == {place.removeprefix("Takes: ") for place in takes}


def test_every_bound_is_a_guard_of_some_spec() -> None:
    for name, one in modules().items():
        assert {guard.text for guard in guards.guards(name)} >= {*one.table().guards.bounds}


def test_every_equivalent_guard_is_there_and_has_a_reason() -> None:
    known = {guard.name for guard in all_guards()}
    for name, reason in equivalent_guards().items():
        assert name in known
        assert len(reason) > 30


def test_no_guard_is_missed_by_a_count_alone() -> None:
    told = {why.rpartition(": ")[2] for why in Matrix.read().guards.values() if why}
    assert told == {"verdict", "conformance"}


def test_a_guard_that_alone_forbids_a_step_is_missed_by_the_machines() -> None:
    known = {guard.place: guard for guard in guards.guards("DurableIsr")}
    alone = guards.by_conformance(known["Write: leader = l"])
    assert alone == "ok_kip966_1_crash: conformance"
    prefix = guards.leaves(known["ExpandIsr: IsPrefix(log[f], log[l])"], SpecTree())
    assert prefix == {"Len(a) <= Len(b)", "Take(b, Len(a)) = a"}
    heartbeat = Guard("ConsumerGroup", "Heartbeat", "Welcome(m)", 0, 0)  # IsWelcome(m, .., F(m))
    (welcome,) = guards.leaves(heartbeat, SpecTree())
    assert welcome == r"claimed = member[m].epoch \/ MissedAnswer(m, claimed, reported)"
    never = evolve(known["Restart: r \\notin up"], text="r = r")
    assert guards.by_conformance(never) is None


def test_a_guard_that_is_one_expression_is_known_by_its_text() -> None:
    """TLC's evaluator does not name an operator, but what its definition says."""
    waits = Guard("ProducerState", "Ask", "Waits(i, c)", 0, 0)
    (text,) = guards.leaves(waits, SpecTree())
    assert text.startswith('IF c = "new" THEN client[i].phase = "in" /\\ client[i].arrived < ')
    assert guards.by_conformance(waits) == "ok_v1_next: conformance"


def test_a_dropped_guard_changes_a_verdict() -> None:
    guard = next(g for g in guards.guards("AbsLog") if g.text == "LossAllowed")
    assert killer(guard) == "ok: verdict"


def test_what_misses_a_guard_is_asked_once_for_each_state_of_its_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tree = SpecTree(tmp_path / "tla")
    copytree(SpecTree().root, tree.root)
    guard = next(g for g in guards.guards("AbsLog") if g.text == "LossAllowed")
    asked: list[str] = []

    def answers(one: Guard, _: SpecTree) -> str | None:
        asked.append(one.place)
        return ["ok: verdict", None][len(asked) - 1]

    monkeypatch.setattr(guards, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(guards, "killer", answers)
    assert [guards.remembered(guard, tree) for _ in range(2)] == ["ok: verdict"] * 2
    assert len(asked) == 1
    spec = tree.folder("AbsLog") / "AbsLog.tla"
    spec.write_text(spec.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    assert [guards.remembered(guard, tree) for _ in range(2)] == [None] * 2
    assert len(asked) == 2


def test_dropping_a_guard_leaves_the_spec_alone() -> None:
    file = SpecTree().folder("AbsLog") / "AbsLog.tla"
    before = file.read_bytes()
    killer(Guard("AbsLog", "Lose", "LossAllowed", 0, 0))
    assert file.read_bytes() == before


# ------------------------------------------------------------------------------ the matrix


def test_the_matrix_knows_every_mutant_and_every_guard() -> None:
    matrix = Matrix.read()
    assert list(matrix.machines) == list(catalogue())
    assert set(matrix.guards) == {guard.name for guard in all_guards()}


def test_nearly_everything_is_killed_and_the_rest_has_a_reason() -> None:
    matrix = Matrix.read()
    killed = sum(any(row.values()) for row in matrix.machines.values())
    assert killed >= 0.95 * len(matrix.machines)
    caught = sum(why is not None for why in matrix.guards.values())
    assert caught >= 0.95 * (len(matrix.guards) - len(equivalent_guards()))
    assert matrix.survivors() == []
    assert matrix.revived() == []


def test_the_page_is_the_matrix() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(Matrix.read())


def test_a_changed_cell_is_a_difference_either_way() -> None:
    matrix = Matrix.read()
    name = "zombies_commit"
    row = dict(matrix.machines[name])
    found = Matrix({name: {**row, "exhaustive": not row["exhaustive"]}})
    assert differences(matrix, found) == [f"{name}: no longer killed by exhaustive"]
    old = Matrix({name: {**row, "exhaustive": False}})
    later = Matrix({name: row})
    assert differences(old, later) == [f"{name}: killed by exhaustive, which used to miss it"]


def test_what_is_found_is_pinned_and_nothing_else_changes(tmp_path: Path) -> None:
    tree = SpecTree(tmp_path / "tla")
    copytree(SpecTree().root, tree.root)
    before = load("AbsLog", tree)
    changed = {**before.mutants, "commits_in_front": ("walk",)}
    pin_mutants(before, changed, before.guards.missed)
    after = load("AbsLog", tree)
    assert after.mutants == changed
    assert evolve(after, mutants=before.mutants) == before


def test_an_unknown_mutant_is_the_users_mistake() -> None:
    done = CliRunner().invoke(mutants, ["no_such_bug"])
    assert done.exit_code == 2
    assert "no mutant 'no_such_bug'" in done.output


# ------------------------------------------------------------------------------ generated ones


def test_every_kind_of_mutant_is_made_and_bears_a_name_of_its_own() -> None:
    made = generated("refimpl.machines.group")
    kinds = {mutant.kind for mutant in made}
    assert kinds >= {"comparison", "boundary", "guard", "assignment", "branch"}
    assert len({mutant.name for mutant in made}) == len(made)
    names = {mutant.name.partition("machines.group:")[2] for mutant in made}
    assert "CommittingMember.join: generation <= self.last -> generation < self.last" in names
    assert "CommittingMember.join: if generation <= self.last -> if False" in names
    assert "CommitCoordinator.rebalance: self.owner = owner -> pass" in names


def test_a_generated_mutant_is_in_the_machine_and_comes_out_again() -> None:
    name = "refimpl.machines.log:Log.append: self.records.append(Record(epoch, batch)) -> pass"
    mutant = next(one for one in generated("refimpl.machines.log") if one.name == name)
    assert mutant.place.startswith("refimpl/machines/log.py:")
    changed, log = Log(), Log()
    with mutant.applied():
        changed.append(1, "a")
    log.append(1, "a")
    assert changed.records == []
    assert log.records == [Record(1, "a")]


def test_a_method_that_calls_its_parent_is_changed_too() -> None:
    """Also where the call of the parent goes, and with it what needs the method's class."""
    broken = {one.change: one for one in generated("refimpl.storage.disk.crashing")}
    disk = CrashDisk()
    with broken["super().append(path, kept) -> pass"].applied():
        disk.append("a", b"lost")
    with broken["self.inodes[path].changes.append(Change(kept)) -> pass"].applied():
        disk.append("b", b"kept")
    assert {path: bytes(data) for path, data in disk.files.items()} == {"b": b"kept"}
    assert (len(disk.inodes["a"].changes), disk.inodes["b"].changes) == (1, [])


def test_every_explained_survivor_is_still_a_mutant() -> None:
    assert auto.stale_explanations(job.mutant.name for job in auto.jobs()) == []
    assert all(len(why) > 30 for why in auto.explained().values())


def test_a_sample_takes_so_many_of_each_file_and_its_seed_tells_which() -> None:
    todo = auto.jobs(["machines.group:", "machines.classic_member:"])
    one, again, other = (auto.sampled(todo, 5, seed) for seed in (1, 1, 2))
    assert [job.mutant.name for job in one] == [job.mutant.name for job in again]
    assert [job.mutant.name for job in one] != [job.mutant.name for job in other]
    assert Counter(job.mutant.file.rpartition("/")[2] for job in one) == {
        "group.py": 5,
        "classic_member.py": 5,
    }
    assert len(auto.sampled(todo, 10_000, 1)) == len(todo) > 10


def test_gates_find_a_sample_of_generated_mutants_and_a_second_run_asks_nobody(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    todo = auto.jobs(["AbstractLog.observe"])[:3]
    first = list(auto.run(todo, at_once=2))
    assert {result.killers for result in first} == {("first states",)}
    monkeypatch.setattr(forked, "_forked", pytest.fail)
    assert {result.name for result in auto.run(todo, at_once=2)} == {r.name for r in first}
    tally = auto.tally(todo, first)
    assert (sum(tally.killed.values()), tally.survivors, tally.rate) == (3, (), 1.0)
    assert tally.files == {"refimpl/machines/abstract_log.py": (3, 0)}


def test_a_mutant_that_never_ends_or_crashes_its_process_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def misses(_: object) -> bool:
        return False

    def never_ends(_: object) -> bool:
        while True:
            pass

    def crashes(_: object) -> bool:
        os._exit(7)

    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)

    def proves(*_: object) -> None: ...

    monkeypatch.setattr(forked, "_prove_the_gates", proves)
    monkeypatch.setattr(forked, "LIMIT_S", 1)
    (job, *_) = auto.jobs(["AbstractLog.observe"])
    for gate in (never_ends, crashes):
        (result,) = auto.run([evolve(job, gates={"misses": misses, gate.__name__: gate})], 1)
        assert (result.killers, result.asked) == ((gate.__name__,), ("misses", gate.__name__))
        next(tmp_path.glob("mutants/*.jsonl")).unlink()


def test_a_mutant_that_cannot_be_put_in_is_an_error_and_no_survivor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its process ends by itself: it must not tidy up what the parent still needs."""

    @contextmanager
    def refused(why: str) -> Generator[None]:
        if why:
            raise ValueError(why)
        yield

    def misses(_: object) -> bool:
        return False

    put_in = partial(refused, "requires a code object with 1 free vars")
    trial = Trial("broken", put_in, (), {"misses": misses})
    with pytest.raises(InputError, match="broken: its process ended before it asked anything"):
        list(forked.run([trial], Kept({"misses": tmp_path / "kept"}), 1))
    assert "1 free vars" in capfd.readouterr().err


def test_whatever_a_mutant_is_asked_in_is_read_before_its_process_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In that process memory is bounded, and TLC, which makes a graph, does not start."""
    read: set[str] = set()

    def machines(scope: ConformanceScope, _: str) -> Mock:
        read.add(scope.cfg)
        return Mock()

    monkeypatch.setattr(methods, "Machines", machines)
    monkeypatch.setattr(methods, "refusals_of", id)
    methods.prepare(Trial("any", nullcontext, ("Truncation",), {}))
    scopes = module("Truncation").table().scopes
    assert read == {*scopes.mutants, *scopes.tour}
    assert not set(scopes.tour) <= set(scopes.mutants)


def test_no_mutant_is_left_out_for_its_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    packages = {
        job.mutant.function.partition(":")[0].rpartition(".")[0]: job for job in auto.jobs()
    }
    assert {*packages} == auto.TESTS.keys() - auto.BY_NAME.keys()
    todo = [evolve(job, modules=(), gates={"misses": bool}) for job in packages.values()]
    assert {result.name for result in auto.run(todo, 1)} == {job.mutant.name for job in todo}


def test_answers_depend_on_what_is_imported_directly_or_not() -> None:
    tests = CHECKOUT / "tests" / "refimpl" / "machines"
    names = {str(file.relative_to(CHECKOUT)) for file in closure([tests / "test_group.py"])}
    assert {"refimpl/machines/group.py", "refimpl/errors.py", "tests/conftest.py"} <= names
    assert "refimpl/machines/replica.py" not in names
    assert not [name for name in names if name.startswith("refimpl/broker")]


def without_tests(
    folders: Sequence[str], body: Callable[[CollectedTests], auto.GateTally]
) -> auto.GateTally:
    return body(CollectedTests({}, {}))


def test_the_tests_that_run_a_function_find_its_mutants(own_cache: Path) -> None:
    """In a process of its own: pytest runs here already."""
    command = [
        sys.executable,
        "-m",
        "refimpl",
        "mutants",
        "--auto",
        "CommittingMember.join: generation",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("tests")]
    assert row[:3] == ["tests", "2", "2"]


def test_tests_that_bear_a_mark_of_xdist_are_collected_without_it(tmp_path: Path) -> None:
    """In a process of its own: pytest runs here already."""
    marked = tmp_path / "test_marked.py"
    mark = '@pytest.mark.xdist_group("one")'
    marked.write_text(f"import pytest\n\n\n{mark}\ndef test_nothing() -> None: ...\n")
    collect = (
        "from properties.mutants import suite;"
        "suite._runners = lambda items: {};"  # nobody asks which functions they call
        f"assert suite.with_suite([{str(marked)!r}], lambda tests: len(tests.items)) == 1"
    )
    command = [sys.executable, "-c", collect]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_survivor_is_told_by_file_and_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    monkeypatch.setitem(auto.GATES, auto.MACHINES, {"nobody": lambda _: False})
    monkeypatch.setattr(automatic, "with_suite", without_tests)
    function = "CommitCoordinator.rebalance"
    name = f"{function}: self.owner"
    done = CliRunner().invoke(mutants, ["--auto", name])
    assert done.exit_code == 1
    assert "refimpl/machines/group.py:" in done.output
    assert f"lives: assignment: refimpl.machines.group:{name} = owner -> pass" in done.output
    why = f'["refimpl.machines.group:{function}"]\n"self.owner = owner -> pass" = "known"'
    (tmp_path / "survivors.toml").write_text(why)
    monkeypatch.setattr(auto, "SURVIVORS", tmp_path / "survivors.toml")
    done = CliRunner().invoke(mutants, ["--auto", name])
    assert done.exit_code == 0, done.output
    assert "1 equivalent, 0 alive" in done.output


def test_a_gate_is_proved_for_each_module_and_that_of_the_node_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[str] = []

    def of_modules(names: Sequence[str]) -> bool:
        return False

    @forked.of_the_node
    def of_the_node(names: Sequence[str]) -> bool:
        return False

    def noted(todo: Sequence[tuple[Trial, MutantResult]], *_: object) -> Iterator[MutantResult]:
        for one, _before in todo:
            asked.extend(f"{gate}: {one.name}" for gate in one.gates)
            yield MutantResult(one.name, {gate: GateAnswer(False, 1.0) for gate in one.gates})

    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(forked, "_forked", noted)
    gates: dict[str, forked.Gate] = {"exhaustive": of_modules, "chaos": of_the_node}
    kept = Kept.of("gate", dict.fromkeys(gates, ()))
    modules = ("AbsLog",), ("AbsLog", "Truncation")
    todo = [Trial(", ".join(of), nullcontext, of, gates) for of in modules]
    assert [result.name for result in forked.run(todo, kept, 1)] == ["AbsLog", "AbsLog, Truncation"]
    assert [one for one in asked if "no mutant" in one] == [
        "exhaustive: no mutant, AbsLog",
        "chaos: no mutant, the node",
        "exhaustive: no mutant, Truncation",
    ]


def test_gates_that_conformance_asks_are_not_proved_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scopes = modules()["AbsLog"].table().scopes
    shown = {(f"AbsLog/{cfg}", method) for cfg in scopes.mutants for method in METHODS}
    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    proved: list[Mapping[str, MutantResult]] = []
    monkeypatch.setattr(forked, "run", lambda _, kept, *rest: proved.append(kept.read()) or [])  # pyright: ignore
    known = [mutant for mutant in catalogue().values() if mutant.modules == ("AbsLog",)]
    for missing in (set[tuple[str, str]](), {(f"AbsLog/{scopes.mutants[-1]}", "exhaustive")}):
        monkeypatch.setattr(matrix, "conformed", partial(shown.difference, missing))
        for file in tmp_path.glob("mutants/*"):
            file.unlink()
        assert not list(matrix.first_killers(known, Matrix.read()))
    assert [of["no mutant, AbsLog"].asked for of in proved] == [("exhaustive", "tour"), ("tour",)]


def test_a_gate_that_fails_without_a_mutant_is_no_gate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forked, "cache_folder", lambda: tmp_path)
    monkeypatch.setitem(auto.GATES, auto.MACHINES, {"grumbler": lambda _: True})
    monkeypatch.setattr(automatic, "with_suite", without_tests)
    done = CliRunner().invoke(mutants, ["--auto", "AbstractLog.observe"])
    assert done.exit_code == 2
    assert "grumbler fails without any mutant" in done.output
