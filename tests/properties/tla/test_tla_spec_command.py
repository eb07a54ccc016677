"""`highwater spec` as its users meet it: exit codes, stories, drawings, pinning."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import orjson
import pytest

from properties.tla.spec_command import spec
from tests.properties.tla.scratch import SPECS, Run, Scratch

STORY = """\
Mailbox/bug_unordered violates InOrder in 5 states (MAIL-1)
the second letter overtakes the first

1  Init
       posted = [first |-> 0, second |-> 0]
       bag = {}
       shelf = <<>>
2  Post(c="first")
       posted.first: 0 → 1
       bag + [from |-> "first", number |-> 1]
3  Post(c="first")
       posted.first: 1 → 2
       bag + [from |-> "first", number |-> 2]
4  Deliver(letter=[from |-> "first", number |-> 2])
       bag − [from |-> "first", number |-> 2]
       shelf: <<>> → <<2>>
5  Deliver(letter=[from |-> "first", number |-> 1])
       bag − [from |-> "first", number |-> 1]
       shelf: <<2>> → <<2, 1>>

InOrder does not hold.
"""


def test_everything_as_expected_exits_with_0(run: Run) -> None:
    result = run(spec, ["--specs", SPECS])
    assert result.exit_code == 0, result.output
    assert "Mailbox/bug_drop: violates NothingLost" in result.output
    assert result.output.splitlines()[-1].startswith(
        "8 verdicts, 5 of them violations, all as expected"
    )


def test_a_violation_is_told_as_a_story_and_written_as_json_and_drawn(
    run: Run, tmp_path: Path
) -> None:
    json, svg = tmp_path / "found.json", tmp_path / "drawn.svg"
    arguments = ["Mailbox/bug_unordered", "--story", "--json", json, "--svg", svg]
    result = run(spec, ["--specs", SPECS, *arguments])
    assert result.exit_code == 0, result.output
    assert STORY in result.output
    (found,) = orjson.loads(json.read_bytes())
    assert (found["verdict"], found["property"], found["length"]) == ("violates", "InOrder", 5)
    assert found["counterexample"][3] == {
        "action": "Deliver",
        "params": {"letter": {"from": "first", "number": 2}},
        "state": {
            "posted": {"first": 2, "second": 0},
            "bag": {"set": [{"from": "first", "number": 1}]},
            "shelf": [2],
        },
    }
    texts = [text.text for text in ElementTree.parse(svg).iter() if text.text]
    assert {"clerk first", "postman", 'Post(c="first")', "shelf: <<>> → <<2>>"} <= set(texts)


def test_any_difference_exits_with_1_and_says_how_to_see_it_again(
    run: Run, scratch: Scratch
) -> None:
    scratch.replace("Pile/verdicts.toml", "distinct = 4", "distinct = 5")
    result = run(spec, ["--specs", scratch.tree.root, "Pile"])
    assert result.exit_code == 1
    assert (
        "  distinct: expected 5, found 4\n  see it again: highwater spec Pile/ok" in result.output
    )
    assert "1 differ: Pile/ok" in result.output.splitlines()[-1]


def test_a_broken_rule_in_the_spec_is_found_and_told(run: Run, scratch: Scratch) -> None:
    scratch.replace("Mailbox/Mailbox.tla", "/\\ Ordered => Oldest(letter)\n", "")
    result = run(spec, ["--specs", scratch.tree.root, "Mailbox/ok_ordered", "--story"])
    assert result.exit_code == 1
    assert "verdict: expected passes, found violates InOrder" in result.output
    assert 'Deliver(letter=[from |-> "first", number |-> 2])' in result.output


def test_a_large_configuration_is_run_where_it_is_named_or_all_are_wanted(
    run: Run, scratch: Scratch
) -> None:
    scratch.replace("Pile/verdicts.toml", "distinct = 4", "distinct = 4\nfull = true")

    def said(*arguments: str) -> str:
        result = run(spec, ["--specs", scratch.tree.root, *arguments])
        assert result.exit_code == 0, result.output
        return result.output.splitlines()[-1]

    assert said("Pile").startswith("0 verdicts, 0 of them violations, all as expected")
    assert said("Pile").endswith("; left to --full: 1")
    for arguments in (["Pile/ok"], ["Pile", "--full"]):
        line = said(*arguments)
        assert line.startswith("1 verdicts, 0 of them")
        assert "--full" not in line


def test_pinning_says_what_changed_and_is_satisfied(run: Run, scratch: Scratch) -> None:
    scratch.replace("Pile/verdicts.toml", "distinct = 4", "distinct = 5")
    update = ["--specs", scratch.tree.root, "Pile", "--update"]
    result = run(spec, [*update, "--because", "one state less"])
    assert result.exit_code == 0, result.output
    assert "pinned Pile/ok: distinct was 5, is now 4" in result.output
    after = scratch.file("Pile/verdicts.toml").read_text()
    assert "distinct = 4" in after
    assert 'because = "one state less"' in after
    assert run(spec, update).exit_code == 0


def test_a_pinned_figure_changes_only_for_a_reason(run: Run, scratch: Scratch) -> None:
    scratch.replace("Pile/verdicts.toml", "distinct = 4", "distinct = 5")
    result = run(spec, ["--specs", scratch.tree.root, "Pile", "--update"])
    assert result.exit_code == 2
    assert "change only with --because REASON" in result.output
    assert "Pile/ok: distinct is pinned as 5, and found is 4" in result.output
    assert "distinct = 5" in scratch.file("Pile/verdicts.toml").read_text()


def test_pinning_never_makes_a_wrong_verdict_the_expected_one(run: Run, scratch: Scratch) -> None:
    scratch.replace("Mailbox/verdicts.toml", '"NothingLost"', '"SomethingElse"')
    before = scratch.file("Mailbox/verdicts.toml").read_text()
    result = run(spec, ["--specs", scratch.tree.root, "Mailbox/bug_drop", "--update"])
    assert result.exit_code == 1
    assert "property: expected SomethingElse, found NothingLost" in result.output
    assert scratch.file("Mailbox/verdicts.toml").read_text() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Nope"], "no module 'Nope'"),
        (["Mailbox/nope"], "no verdict for 'nope'"),
        (["Pile", "--svg", "never.svg"], "--svg draws one counterexample, and there are 0"),
    ],
)
def test_bad_input_exits_with_2_and_one_message(run: Run, arguments: list[str], said: str) -> None:
    result = run(spec, ["--specs", SPECS, *arguments])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("Letters = 2", "Letters = 2\n  Orderly = TRUE", "Mailbox declares no constant Orderly"),
        ("Letters = 2", "", "no value for the constant Letters"),
    ],
)
def test_a_misspelt_or_missing_constant_is_found_before_anything_runs(
    run: Run, scratch: Scratch, old: str, new: str, said: str
) -> None:
    scratch.replace("Mailbox/cfg/ok_ordered.cfg", old, new)
    result = run(spec, ["--specs", scratch.tree.root, "Mailbox"])
    assert result.exit_code == 2
    assert f"ok_ordered.cfg: {said}" in result.output


def test_a_folder_without_specs_exits_with_2(run: Run, tmp_path: Path) -> None:
    result = run(spec, ["--specs", tmp_path / "none"])
    assert result.exit_code == 2
    assert "there is no folder of specs" in result.output
