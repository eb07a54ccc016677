"""Stories and diagrams: only what changed, and who did it to whom."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

import pytest

from properties.tla import CounterexampleStep, Outcome, Rec, Status, Value, parse
from properties.tla.diagram import draw, lanes, parties, rows
from properties.tla.story import changed, ending, tell
from properties.tla.verdicts import Diagram

HINTS = Diagram({"f": "replica", "l": "replica", "r": "replica"}, "controller", ("Elect",))


def outcome(*steps: CounterexampleStep, back_to: int | None = None) -> Outcome:
    return Outcome(Status.VIOLATED, violated="Safe", steps=steps, back_to=back_to)


def step(action: str | None, hw: Value, **params: Value) -> CounterexampleStep:
    return CounterexampleStep(action, {"hw": hw}, params)


TALE = outcome(
    step(None, (0, 0)),
    step("Fetch", (0, 1), f=2, l=1),
    step("Elect", (0, 1), r=1),
    step("Tick", (1, 1)),
)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("<<0, 0>>", "<<0, 1>>", ["x[2]: 0 → 1"]),
        ("<<1>>", "<<1, 2>>", ["x: <<1>> → <<1, 2>>"]),
        ("<<{}, {1}>>", "<<{}, {}>>", ["x[2]: {1} → {}"]),
        ("<<[a |-> 1]>>", "<<[a |-> 1], [a |-> 2]>>", ["x[2] = [a |-> 2]"]),
        ("<<[a |-> 1], [a |-> 2]>>", "<<[a |-> 1]>>", ["x[2] is gone: [a |-> 2]"]),
        ("[a |-> 1, b |-> {}]", "[a |-> 2, b |-> {}]", ["x.a: 1 → 2"]),
        ('("a b" :> 1)', '("a b" :> 2)', ['x["a b"]: 1 → 2']),
        ("(m1 :> 1 @@ m2 :> 1)", "(m1 :> 1 @@ m2 :> 2)", ["x[m2]: 1 → 2"]),
        ("{1, 2}", "{2, 3}", ["x: {1, 2} → {2, 3}"]),
        ("{[a |-> 1]}", "{[a |-> 2]}", ["x − [a |-> 1]", "x + [a |-> 2]"]),
        ("<<<<0, 0>>, <<0, 0>>>>", "<<<<0, 0>>, <<3, 0>>>>", ["x[2][1]: 0 → 3"]),
        ('"none"', "[a |-> 1]", ['x: "none" → [a |-> 1]']),
        ("7", "7", []),
    ],
)
def test_only_the_entries_that_changed_are_told(before: str, after: str, said: list[str]) -> None:
    found = changed({"x": parse(before)}, {"x": parse(after)})
    assert [str(change) for change in found] == said


def test_a_story_numbers_its_steps_and_ends_with_what_is_wrong() -> None:
    assert "\n".join(tell("A tale", TALE)) == (
        "A tale\n\n"
        "1  Init\n"
        "       hw = <<0, 0>>\n"
        "2  Fetch(f=2, l=1)\n"
        "       hw[2]: 0 → 1\n"
        "3  Elect(r=1)\n"
        "       (nothing changes)\n"
        "4  Tick\n"
        "       hw[1]: 0 → 1\n\n"
        "Safe does not hold."
    )


def test_a_lasso_says_where_it_goes_round() -> None:
    steps = TALE.steps
    assert "back to step 2, and so for ever" in ending(outcome(*steps, back_to=2))
    assert "nothing need ever happen" in ending(outcome(*steps, back_to=4))


def test_the_arguments_name_who_takes_part_and_the_center_does_the_rest() -> None:
    who = [[party.title for party in parties(one, HINTS)] for one in TALE.steps]
    assert who == [
        ["controller"],
        ["replica 2", "replica 1"],
        ["controller", "replica 1"],
        ["controller"],
    ]
    titles = [who.title for who in lanes(rows(TALE, HINTS), HINTS)]
    assert titles == ["controller", "replica 1", "replica 2"]


def _texts(svg: str) -> Mapping[str, tuple[float, float]]:
    return {
        text.text or "": (float(text.attrib["x"]), float(text.attrib["y"]))
        for text in ElementTree.fromstring(svg).iter()
        if text.tag.endswith("text")
    }


def test_a_diagram_has_a_row_for_each_step_and_an_arrow_between_two_parties() -> None:
    svg = draw("A tale", TALE, HINTS)
    at = _texts(svg)
    numbers = [at[str(number)][1] for number in (1, 2, 3, 4)]
    assert numbers == sorted(numbers)
    # An arrow's label stands between its two lifelines, a lone step on its own.
    assert at["Fetch(f=2, l=1)"][0] == (at["replica 1"][0] + at["replica 2"][0]) / 2
    assert at["Tick"][0] == at["controller"][0]
    assert at["hw[2]: 0 → 1"][0] > at["replica 2"][0]
    assert "Safe does not hold." in at
    assert draw("A tale", TALE, HINTS) == svg


def test_a_diagram_needs_no_hints() -> None:
    assert "Fetch(f=2, l=1)" in _texts(draw("A tale", TALE, Diagram()))


def test_long_notes_are_wrapped_and_indented() -> None:
    value = Rec.of(**{f"field{i}": i for i in range(20)})
    svg = draw("Long", outcome(step(None, 0), step("Tick", value)), HINTS)
    notes = [text for text in _texts(svg) if "field" in text]
    assert len(notes) > 3
    assert max(map(len, notes)) <= 76
