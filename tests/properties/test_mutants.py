"""Known bugs go in, are found, and come out again."""

import pytest
from click.testing import CliRunner

from properties.modules.descriptor import modules
from properties.mutants import guards, methods
from properties.mutants.command import mutants
from properties.mutants.guards import Guard, killer
from properties.mutants.matrix import (
    FILE,
    PAGE,
    Matrix,
    all_guards,
    differences,
    equivalent_guards,
    page,
)
from properties.mutants.shelf import Mutant, applied, breaks, shelf
from properties.tla import SpecTree
from refimpl.machines.log import Log, Record

pytestmark = pytest.mark.java


def test_a_mutant_comes_out_again_even_when_the_check_fails() -> None:
    original = Log.truncate_to
    with pytest.raises(TypeError), applied(shelf()["epoch_cache_not_truncated"]):
        Log().truncate_to("no number")  # pyright: ignore[reportArgumentType]
    assert Log.truncate_to is original


def test_a_mutant_has_the_bug_that_its_name_says() -> None:
    log = Log([Record(1, "a"), Record(2, "b")])
    with applied(shelf()["epoch_cache_not_truncated"]):
        log.truncate_to(1)
    assert log.end == 1
    assert log.last_epoch == 2


def test_a_property_is_patched_by_a_property() -> None:
    @breaks(Log, "last_epoch", ("Truncation",))
    def last_epoch_is_seven(self: Log) -> int:
        """Only for this test."""
        return 7

    mutant = shelf_entry("last_epoch_is_seven")
    with applied(mutant):
        assert Log().last_epoch == 7
    assert Log().last_epoch == 0


def shelf_entry(name: str) -> Mutant:
    """Take a mutant off the shelf for good."""
    from properties.mutants import shelf as module

    return module._shelf.pop(name)  # pyright: ignore[reportPrivateUsage]


def test_every_mutant_says_why_and_concerns_a_spec() -> None:
    assert len(shelf()) >= 20
    for mutant in shelf().values():
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
    assert methods.by_exhaustion(shelf()[name])


@pytest.mark.parametrize("name", ["one_table_for_two", "old_answers_count_in_the_new_generation"])
def test_what_loading_hides_the_walk_finds(name: str) -> None:
    assert not methods.by_exhaustion(shelf()[name])
    assert methods.by_walk(shelf()[name])


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
    assert list(matrix.machines) == list(shelf())
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


def test_the_matrix_is_kept_beside_its_code() -> None:
    assert FILE.is_file()


def test_an_unknown_mutant_is_the_users_mistake() -> None:
    done = CliRunner().invoke(mutants, ["no_such_bug"])
    assert done.exit_code == 2
    assert "no mutant 'no_such_bug'" in done.output
