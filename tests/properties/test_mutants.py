"""Known bugs go in, are found, and come out again."""

from pathlib import Path
from shutil import copytree

import pytest
from attrs import evolve
from click.testing import CliRunner

from properties.modules.descriptor import modules
from properties.mutants import guards, methods
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
from properties.mutants.guards import Guard, killer
from properties.mutants.matrix import (
    PAGE,
    Matrix,
    all_guards,
    differences,
    equivalent_guards,
    page,
)
from properties.tla import InputError, SpecTree
from properties.tla.verdicts import load, pin_mutants
from refimpl.machines.log import Log, Record

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
    assert log.last_epoch == 2


def edit(function: str, old: str, new: str) -> Mutant:
    return Mutant("scratch", "only for this test", (Edit(function, old, new),), ("Truncation",))


def test_a_property_stays_a_property() -> None:
    with applied(edit("refimpl.machines.log:Log.last_epoch", "0", "7")):
        assert Log().last_epoch == 7
    assert Log().last_epoch == 0


def test_layout_and_quotes_of_an_edit_do_not_matter() -> None:
    snippet = "del  self.records[ end : ]\nwhile (self._starts and self._starts[-1] >= end):\n"
    snippet += "  self._starts.pop(); self._epochs.pop()"
    with applied(edit("refimpl.machines.log:Log.truncate_to", snippet, "")):
        log = Log([Record(1, "a")])
        log.truncate_to(0)
    assert log.end == 1


@pytest.mark.parametrize(
    ("function", "old", "told"),
    [
        ("Log.truncate_to", "self._starts[-1] >= start", "is there no more"),
        ("Log.append", "self._epochs", "is there twice or more"),
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
        applied(edit("refimpl.machines.log:Log.append", "self._starts", "x = 1")),
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
    assert methods.by_exhaustion(catalogue()[name])


@pytest.mark.parametrize("name", ["one_table_for_two", "old_answers_count_in_the_new_generation"])
def test_what_loading_hides_the_walk_finds(name: str) -> None:
    assert not methods.by_exhaustion(catalogue()[name])
    assert methods.by_walk(catalogue()[name])


# ------------------------------------------------------------------------------ guards


def test_guards_are_read_from_the_actions_and_nothing_else() -> None:
    texts = [guard.name for guard in guards.guards("Truncation")]
    assert "Truncation.ExpandIsr: CheckEpochStart => ends[l][f] >= EpochStart(l)" in texts
    assert "Truncation.Follows: f # l" in texts
    assert "Truncation.LateFetch: m.incarnation >= seen[l][f]" in texts
    assert not [text for text in texts if "'" in text or "UNCHANGED" in text or "THEN" in text]
    assert not [text for text in texts if "TypeOK" in text or "Init" in text]


def test_every_bound_is_a_guard_of_some_spec() -> None:
    for name, one in modules().items():
        assert {guard.text for guard in guards.guards(name)} >= {*one.table().guards.bounds}


def test_every_equivalent_guard_is_there_and_has_a_reason() -> None:
    known = {guard.name for guard in all_guards()}
    for name, reason in equivalent_guards().items():
        assert name in known
        assert len(reason) > 30


def test_a_dropped_guard_changes_a_verdict() -> None:
    guard = next(g for g in guards.guards("AbsLog") if g.text == "LossAllowed")
    assert killer(guard) == "ok: verdict"


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
