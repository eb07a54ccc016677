"""The table of expected verdicts: mistakes in it are named by file, row and field."""

import re

import pytest

from properties.tla import InputError, Outcome, SpecTree, Status
from properties.tla.specs import ModelConfig
from properties.tla.verdicts import Purpose, compare, load, pin, repinned
from tests.properties.tla.scratch import Scratch

TABLE = "Mailbox/verdicts.toml"
FIRST = 'cfg = "ok_ordered"\nkind = "ok"\nexpect = "pass"'


def test_a_table_is_read_with_everything_it_says(scratch: Scratch) -> None:
    table = load("Mailbox", scratch.tree)
    row = table.row("bug_unordered")
    assert (row.kind, row.expect, row.property) == (Purpose.BUG, Status.VIOLATED, "InOrder")
    assert (row.length, row.distinct, row.depth, row.jira) == (5, 19, 5, "MAIL-1")
    assert row.seconds == 60
    assert table.diagram.lifelines == {"c": "clerk"}
    assert table.diagram.center == "postman"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[verdict]]", "[[verdict", "not TOML"),
        (FIRST, 'kind = "ok"\nexpect = "pass"', r'row 1 \(no cfg\): "cfg" is missing'),
        (FIRST, FIRST.replace('"ok"', '"fine"'), '"kind" is "fine", expected one of: ok, bug'),
        (FIRST, FIRST.replace('"pass"', '"good"'), '"expect" is "good", expected one of: pass, v'),
        (FIRST, FIRST.replace('"pass"', '"violates"'), '"ok" does not go with'),
        (FIRST, FIRST + "\ndepht = 3", r'row 1 \(ok_ordered\): unknown field "depht"'),
        (FIRST, FIRST + '\nseconds = "long"', "\"seconds\" is 'long', expected int or float"),
        (FIRST, FIRST + "\nlength = true", '"length" is True, expected int'),
        (FIRST, FIRST + "\nlength = 3", "belong to a violation"),
        (FIRST, FIRST + "\nfull = false", '"full" is False: write true, or nothing'),
        (FIRST, FIRST + '\nproperty = "InOrder"', "belong to a violation"),
        (FIRST, FIRST + "\napalache = [{inv = 1}]", 'apalache: "inv" is 1, expected str'),
        (FIRST, FIRST + '\napalache = ["type"]', "'type' is neither \"types\" nor a table"),
        (FIRST, FIRST + '\napalache = [{inv = "I"}]', 'apalache: "length" is missing'),
        ('property = "InOrder"', "", '"property" is missing'),
        ('"ok_ordered"', '"ok_fair"', "2 rows for 'ok_fair'"),
        ('"ok_ordered"', '"ok_disordered"', "'ok_disordered' has no file cfg/ok_disordered.cfg"),
        ('center = "postman"', 'centre = "postman"', r'\[diagram\]: unknown field "centre"'),
        ('lifelines = {c = "clerk"}', "lifelines = 3", '"lifelines" is 3, expected dict'),
        (
            f"[[verdict]]\n{FIRST}",
            f'[scopes]\nmutants = ["ok_ordered"]\n[[verdict]]\n{FIRST}\nfull = true',
            "\"mutants\" names 'ok_ordered', which is run with --full only",
        ),
    ],
)
def test_a_mistake_is_named_by_file_row_and_field(
    scratch: Scratch, old: str, new: str, said: str
) -> None:
    text = scratch.file(TABLE).read_text()
    scratch.file(TABLE).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=f"verdicts.toml: .*{said}"):
        load("Mailbox", scratch.tree)


def test_a_configuration_without_a_row_is_an_error(scratch: Scratch) -> None:
    scratch.file("Mailbox/cfg/forgotten.cfg").write_text("SPECIFICATION Spec\n")
    with pytest.raises(InputError, match=r"cfg/forgotten\.cfg has no row"):
        load("Mailbox", scratch.tree)


def test_a_module_without_a_table_is_an_error(scratch: Scratch) -> None:
    scratch.file(TABLE).unlink()
    with pytest.raises(InputError, match=r"Mailbox has no table of verdicts: expected .*\.toml"):
        load("Mailbox", scratch.tree)


def test_a_row_that_nobody_wrote_is_an_error(scratch: Scratch) -> None:
    with pytest.raises(InputError, match="no verdict for 'bug_unknown'"):
        load("Mailbox", scratch.tree).row("bug_unknown")


def test_every_figure_is_compared(scratch: Scratch) -> None:
    row = load("Mailbox", scratch.tree).row("bug_drop")
    found = Outcome(Status.VIOLATED, violated="InOrder", distinct=44, depth=9)
    assert [str(difference) for difference in compare(row, found)] == [
        "property: expected NothingLost, found InOrder",
        "length: expected 8, found none",
        "distinct: expected 43, found 44",
        "depth: expected 8, found 9",
    ]


def test_a_wrong_verdict_is_one_difference_with_its_reason(scratch: Scratch) -> None:
    row = load("Mailbox", scratch.tree).row("ok_ordered")
    late = Outcome(Status.TIMED_OUT, reason="not finished in 60 s")
    assert [str(difference) for difference in compare(row, late)] == [
        "verdict: expected passes, found not finished (not finished in 60 s)"
    ]


def test_pinning_changes_the_figures_and_nothing_else(scratch: Scratch) -> None:
    table = load("Mailbox", scratch.tree)
    before = table.path.read_text()
    found = Outcome(Status.VIOLATED, violated="AllArrive", distinct=17, depth=6)
    assert pin(table, {"bug_unfair": found}) == [
        "Mailbox/bug_unfair: length was 4, is now None",
        "Mailbox/bug_unfair: distinct was 16, is now 17",
        "Mailbox/bug_unfair: depth was not pinned, is now 6",
    ]
    after = table.path.read_text()
    changed = set(before.splitlines()) ^ set(after.splitlines())
    assert changed == {"distinct = 17", "depth = 6"} | (changed & {"length = 4", "depth = 6"})
    assert "# A comment that `--update` must leave alone." in after
    assert 'jira = "MAIL-1" # where it was seen' in after
    row = load("Mailbox", scratch.tree).row("bug_unfair")
    assert (row.length, row.distinct, row.depth) == (None, 17, 6)


def test_the_reason_is_kept_beside_a_figure_that_was_pinned(scratch: Scratch) -> None:
    table = load("Mailbox", scratch.tree)
    found = Outcome(Status.VIOLATED, violated="AllArrive", distinct=17, depth=6)
    assert repinned(table, {"bug_unfair": found}) == [
        "Mailbox/bug_unfair: length is pinned as 4, and found is None",
        "Mailbox/bug_unfair: distinct is pinned as 16, and found is 17",
    ]
    pin(table, {"bug_unfair": found}, "a letter more")
    assert load("Mailbox", scratch.tree).row("bug_unfair").because == "a letter more"


def test_pinning_what_is_pinned_already_does_not_touch_the_file(scratch: Scratch) -> None:
    table = load("Pile", scratch.tree)
    written = table.path.stat().st_mtime_ns
    assert pin(table, {"ok": Outcome(Status.PASSED, distinct=4, depth=4)}) == []
    assert table.path.stat().st_mtime_ns == written


def test_every_configuration_gives_every_constant_a_value() -> None:
    """A constant that a module gets must be given to those that extend it, too."""
    tree = SpecTree()
    for module in tree.modules():
        declared = _constants(module, tree)
        for model in tree.models(module):
            config = ModelConfig.read(model)
            lacking = declared.difference(config.constants(), config.replaced())
            assert not lacking, f"{model}: no value for {', '.join(sorted(lacking))}"


def _constants(module: str, tree: SpecTree) -> set[str]:
    """The constants of a module and of those that it extends."""
    files = {file.stem: file for folder in tree.library() for file in folder.glob("*.tla")}
    text = re.sub(r"\(\*.*?\*\)|\\\*[^\n]*", "", files[module].read_text(), flags=re.DOTALL)
    extended = re.findall(r"^EXTENDS ([\w, ]+)", text, re.MULTILINE)
    found = {name for part in extended for name in re.findall(r"\w+", part) if name in files}
    declared = re.findall(r"^CONSTANTS?\b(.*?)(?=^\S)", text, re.MULTILINE | re.DOTALL)
    own = {name for part in declared for name in re.findall(r"\w+", part)}
    return own.union(*(_constants(name, tree) for name in found))
