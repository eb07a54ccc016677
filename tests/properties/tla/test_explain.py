"""`highwater explain`: what is known of a property, from the files that say it."""

from properties.explain.command import explain
from tests.properties.tla.scratch import SPECS, Run, Scratch


def test_a_property_is_explained_from_its_formula_to_its_known_bugs(run: Run) -> None:
    result = run(explain, ["Truncation.CommittedInIsr", "--no-story"])
    assert result.exit_code == 0, result.output
    shown = result.output
    assert "CommittedInIsr == \\A r \\in Decided.isr : IsPrefix(committed, log[r])" in shown
    assert "promise: Whoever may lead has everything that is committed" in shown
    assert "ok_kip320_3, all " in shown
    assert "bug_kip101_2, 10 states (KIP-279 KAFKA-6361)\n      Rule = " in shown
    assert "Truncation.Agrees: Replica.diverging, refimpl/machines/replica.py:" in shown
    assert "    Kafka: Partition.readRecords, LeaderEpochFileCache.endOffsetFor (same" in shown
    assert "bug offsets_are_enough: Logs are compared by length alone" in shown
    assert "AlterPartition.CommittedInIsr" not in shown


def test_the_shortest_counterexample_is_told_with_the_command_that_shows_it_again(
    run: Run, scratch: Scratch
) -> None:
    result = run(explain, ["InOrder", "--specs", scratch.tree.root])
    assert result.exit_code == 0, result.output
    assert "Mailbox/bug_unordered violates InOrder in 5 states" in result.output
    assert 'Deliver(letter=[from |-> "first", number |-> 2])' in result.output
    again = (
        f"see it again: highwater spec Mailbox/bug_unordered --specs {scratch.tree.root} --story"
    )
    assert again in result.output


def test_an_unknown_property_names_the_nearest(run: Run) -> None:
    result = run(explain, ["CommitedInIsr", "--no-story"])
    assert result.exit_code == 2
    assert "no configuration checks a property 'CommitedInIsr': did you mean CommittedInIsr" in (
        result.output
    )


def test_a_configuration_that_breaks_something_else_is_refused(run: Run) -> None:
    result = run(explain, ["--specs", SPECS, "InOrder", "bug_drop"])
    assert result.exit_code == 2
    assert (
        "InOrder is not violated in 'bug_drop' (it is in: Mailbox/bug_unordered)" in result.output
    )


def test_a_configuration_is_named_with_its_module_or_without(run: Run, scratch: Scratch) -> None:
    told = [
        run(explain, ["InOrder", cfg, "--specs", scratch.tree.root]).output
        for cfg in ("bug_unordered", "Mailbox/bug_unordered")
    ]
    assert told[0] == told[1]
    assert "Mailbox/bug_unordered violates InOrder in 5 states" in told[0]


def test_an_unknown_configuration_names_the_nearest(run: Run) -> None:
    for asked in ("AlterPartition/bug_any_anwser_2", "bug_any_anwser_2"):
        result = run(explain, ["CommittedInIsr", asked, "--no-story"])
        assert result.exit_code == 2
        assert "did you mean AlterPartition/bug_any_answer_2" in result.output.replace("\n", " ")
