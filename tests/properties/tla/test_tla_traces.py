"""Recorded steps against the spec: what is allowed is accepted, what is not is named."""

import gzip
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from properties.tla import Graph, InputError, Rec, SpecTree, load_graph, to_json
from properties.tla.tracecheck import TraceVerdict, coverage, validate_all
from properties.tla.tracefile import read_traces
from properties.tla.validate_command import validate
from tests.properties.tla.scratch import SPECS, Run

Line = dict[str, Any]
CONSTANTS = {"Clerks": {"set": ["first", "second"]}, "Letters": 1000, "Ordered": True}
LETTERS = [{"from": "first", "number": 1}, {"from": "second", "number": 2}]
POSTED = {"first": 1, "second": 1}


def header(run: str = "1", **changed: Any) -> Line:
    return {"run": run, "spec": "Mailbox", "subject": "box", "constants": CONSTANTS, **changed}


def event(seq: int, action: str, params: Line, after: Line | None = None, run: str = "1") -> Line:
    where = {"run": run, "seq": seq, "at_ms": 10 * seq, "spec": "Mailbox", "subject": "box"}
    return {**where, "action": action, "params": params, "after": after or {}}


def good() -> list[Line]:
    """The two clerks post a letter each, and the postman delivers them in order."""
    one, two = LETTERS
    return [
        header(),
        event(1, "Post", {"c": "first"}, {"bag": {"set": [one]}}),
        event(2, "Post", {"c": "second"}, {"bag": {"set": [two, one]}, "posted": POSTED}),
        event(3, "Deliver", {"letter": one}, {"shelf": [1]}),
        event(4, "Deliver", {"letter": two}, {"shelf": [1, 2], "bag": {"set": []}}),
    ]


def write(path: Path, lines: list[Line]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def judge(tmp_path: Path, tree: SpecTree, *runs: list[Line]) -> list[TraceVerdict]:
    """The verdicts on these runs, which get numbers in order."""
    lines = [{**line, "run": str(i)} for i, run in enumerate(runs, start=1) for line in run]
    return validate_all(read_traces([write(tmp_path / "run.events.ndjson", lines)]), tree)


def with_changed(number: int, **changed: Any) -> list[Line]:
    lines = good()
    lines[number] = {**lines[number], **changed}
    return lines


def test_a_behaviour_of_the_spec_is_accepted_far_beyond_what_can_be_explored(
    tmp_path: Path, tree: SpecTree
) -> None:
    (verdict,) = judge(tmp_path, tree, good())
    assert verdict.accepted
    assert coverage([verdict]) == {"Post": 2, "Deliver": 2}


def test_each_rejected_trace_names_the_event_and_the_fault(tmp_path: Path, tree: SpecTree) -> None:
    _, two = LETTERS
    wrong_value, wrong_kind, guard, unknown, fine, whole_action = judge(
        tmp_path,
        tree,
        with_changed(3, after={"shelf": [2], "posted": POSTED}),
        with_changed(3, after={"shelf": "none"}),
        with_changed(3, params={"letter": two}),
        with_changed(3, action="Burn"),
        good(),
        with_changed(3, action="Drop", params={}),
    )
    assert (wrong_value.accepted, wrong_value.event) == (False, 3)
    assert wrong_value.why == "shelf: the spec has <<1>>, the event <<2>>"
    (mismatch,) = wrong_value.mismatches
    assert (mismatch.variable, mismatch.spec, mismatch.logged) == ("shelf", (1,), (2,))
    assert wrong_kind.why == 'shelf: the spec has <<1>>, the event "none"'
    assert guard.event == 3
    assert guard.why == (
        "the guard of Deliver is false: `Ordered => Oldest(letter)` (Mailbox.tla, line 38)"
    )
    assert guard.before == {
        "posted": Rec.of(first=1, second=1),
        "bag": frozenset(Rec.of(**letter) for letter in LETTERS),
        "shelf": (),
    }
    assert [event.action for event in guard.taken] == ["Post", "Post"]
    assert (unknown.event, unknown.why) == (3, "Mailbox has no action Burn")
    assert fine.accepted
    assert whole_action.why.startswith("the guard of Drop is false: `Len(shelf) = Letters`")


def test_a_definition_that_is_no_action_of_next_is_unknown(tmp_path: Path, tree: SpecTree) -> None:
    (verdict,) = judge(tmp_path, tree, with_changed(3, action="InOrder", params={}))
    assert verdict.why == "Mailbox has no action InOrder"


def test_an_argument_that_the_action_cannot_take_is_a_rejection(
    tmp_path: Path, tree: SpecTree
) -> None:
    lines = with_changed(3, params={"letter": {"number": 1}})
    lines[0]["constants"] = {**CONSTANTS, "Ordered": False}
    misfit, nobody = judge(tmp_path, tree, lines, with_changed(1, params={"c": "zoe"}))
    assert (misfit.accepted, misfit.event) == (False, 3)
    assert (nobody.accepted, nobody.event) == (False, 1)


def test_where_several_states_are_possible_all_are_followed(tmp_path: Path, tree: SpecTree) -> None:
    """Drop keeps none, one or two of three letters; only what is posted next tells how many."""
    letters = [{"from": "first", "number": number} for number in (1, 2, 3)]
    lines = [header(constants={**CONSTANTS, "Letters": 3})]
    lines += [event(seq, "Post", {"c": "first"}) for seq in (1, 2, 3)]
    lines += [event(seq + 4, "Deliver", {"letter": letters[seq]}) for seq in (0, 1, 2)]
    lines += [event(7, "Drop", {})]

    def then_posted(number: int) -> Line:
        bag = {"set": [{"from": "second", "number": number}]}
        return event(8, "Post", {"c": "second"}, {"bag": bag})

    kept, lost = judge(tmp_path, tree, [*lines, then_posted(2)], [*lines, then_posted(4)])
    assert kept.accepted
    assert lost.event == 8
    assert lost.why.startswith("bag: the spec has ")


def test_a_first_event_init_may_say_where_the_trace_begins(tmp_path: Path, tree: SpecTree) -> None:
    begun, elsewhere = good(), good()
    begun.insert(1, event(0, "Init", {}, {"shelf": []}))
    elsewhere.insert(1, event(0, "Init", {}, {"shelf": [7]}))
    again = [*begun, event(9, "Init", {})]
    accepted, rejected, twice = judge(tmp_path, tree, begun, elsewhere, again)
    assert accepted.accepted
    assert (rejected.event, rejected.why) == (1, "shelf: the spec has <<>>, the event <<7>>")
    assert (twice.event, twice.why) == (6, "Mailbox has no action Init")


def walk(graph: Graph, run: str, length: int, constants: Mapping[str, Any]) -> list[Line]:
    """A random walk over the graph, as a run that logs everything."""
    dice = random.Random(run)
    lines: list[Line] = [header(run, constants=constants)]
    here = graph.initial[0]
    for seq in range(length):
        if not graph.out[here]:
            break
        label = dice.choice(list(graph.out[here]))
        here = dice.choice(graph.out[here][label])
        action = graph.actions[label]
        params = {name: to_json(value) for name, value in action.params.items()}
        after = {name: to_json(value) for name, value in graph.state(here).items()}
        lines.append(event(seq, action.name, params, after, run))
    return lines


def test_every_walk_over_the_graph_is_accepted(tmp_path: Path, tree: SpecTree) -> None:
    """Two ways from TLC to Python, which must meet: the graph, and the judgement of traces."""
    constants = {**CONSTANTS, "Letters": 2, "Ordered": False}
    graph = load_graph("Mailbox", "bug_unordered", tree)
    lines = [line for run in range(50) for line in walk(graph, str(run), 8, constants)]
    verdicts = validate_all(read_traces([write(tmp_path / "events.ndjson", lines)]), tree)
    assert len(verdicts) == 50
    assert [verdict.why for verdict in verdicts if not verdict.accepted] == []
    assert coverage(verdicts)["Deliver"] > 50


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("number", "line", "said"),
    [
        (2, b"{", ":3: not JSON"),
        (2, b"[]", ":3: expected a JSON object"),
        (2, {**good()[2], "seq": "2"}, ":3: \"seq\" is '2', expected an integer"),
        (2, {**good()[2], "seq": True}, ':3: "seq" is True, expected an integer'),
        (2, {**good()[2], "seq": 1}, ':3: "seq" is 1 after 1, expected a larger one'),
        (2, {k: v for k, v in good()[2].items() if k != "action"}, ':3: "action" is missing'),
        (2, {**good()[2], "params": []}, ':3: "params" is \\[\\], expected an object'),
        (2, {**good()[2], "params": {"x": 1}}, r":3: Post takes \(c\), the event has \(x\)"),
        (2, {**good()[2], "after": {"bags": 1}}, ":3: Mailbox has no variable bags"),
        (2, {**good()[2], "after": {"bag": 1.5}}, r":3: bag: 1\.5 is no TLA\+ value"),
        (2, {**good()[2], "params": {"c": 2**31}}, ":3: c: 2147483648 does not fit into"),
        (2, header(constants={}), ":3: a second header, with other constants"),
        (0, b"", ":2: no header for run 1, Mailbox of box"),
        (0, header(constants={"Letters": 3}), "no value for Clerks; no value for Ordered"),
        (0, header(constants={**CONSTANTS, "Speed": 3}), "Mailbox has no constant Speed"),
        (0, header(constants={**CONSTANTS, "Letters": 0}), "break an assumption: `Letters > 0`"),
        (0, header(constants={**CONSTANTS, "Letters": None}), "a constant in the header: None"),
    ],
)
def test_a_malformed_line_is_reported_by_file_and_line(
    tmp_path: Path, tree: SpecTree, number: int, line: Line | bytes, said: str
) -> None:
    lines = [orjson.dumps(one) for one in good()]
    lines[number] = line if isinstance(line, bytes) else orjson.dumps(line)
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=said):
        validate_all(read_traces([file]), tree)


def test_all_bad_lines_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_bytes(b"{\n" * 3)
    with pytest.raises(InputError) as few:
        read_traces([file])
    assert len(str(few.value).splitlines()) == 3
    file.write_bytes(b"{\n" * 100)
    with pytest.raises(InputError, match="further problems are not listed"):
        read_traces([file])


def test_folders_and_compressed_files_are_read_and_others_are_not_taken_for_events(
    tmp_path: Path,
) -> None:
    inner = tmp_path / "seed-7"
    inner.mkdir()
    plain = write(inner / "7.events.ndjson", good())
    (inner / "7.events.ndjson.gz").write_bytes(gzip.compress(plain.read_bytes()))
    write(inner / "consumer-1.ndjson", [{"a": "client history"}])
    assert len(read_traces([tmp_path])) == 2
    with pytest.raises(InputError, match="no such file or folder"):
        read_traces([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no files \*events\*\.ndjson"):
        read_traces([tmp_path / "empty"])
    plain.with_suffix(".gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        read_traces([plain.with_suffix(".gz")])


def test_a_file_without_a_single_step_is_not_accepted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no protocol events"):
        read_traces([write(tmp_path / "events.ndjson", [header()])])


# ------------------------------------------------------------------ the verb


def test_the_verb_exits_with_0_when_all_is_allowed_and_tells_what_was_covered(
    run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path / "events.ndjson", good())
    result = run(validate, [file, "--specs", SPECS, "--thin", 2])
    assert result.exit_code == 0, result.output
    assert "Mailbox: never taken: Drop" in result.output
    assert "thin" not in result.output
    assert result.output.splitlines()[-1] == "1 traces, 4 steps allowed by the spec, 0 rejected"


def test_the_verb_names_thin_traces(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "events.ndjson", good()[:2])
    result = run(validate, [file, "--specs", SPECS])
    assert result.exit_code == 0
    assert "thin, fewer than 3 different actions: run 1, Mailbox of box" in result.output


def test_the_verb_exits_with_1_and_tells_the_last_good_step_and_the_bad_one(
    run: Run, tmp_path: Path
) -> None:
    json = tmp_path / "verdicts.json"
    file = write(tmp_path / "events.ndjson", with_changed(3, after={"shelf": [2]}))
    result = run(validate, [file, "--specs", SPECS, "--json", json])
    assert result.exit_code == 1
    assert (
        f"run 1, Mailbox of box: rejected at event 3 ({file}:4)\n"
        '  last accepted  Post(c="second")\n'
        '  rejected       Deliver(letter=[from |-> "first", number |-> 1])\n'
        "  because        shelf: the spec has <<1>>, the event <<2>>\n"
        "  the spec's state before:\n"
        "    posted = [first |-> 1, second |-> 1]\n"
    ) in result.output
    (found,) = orjson.loads(json.read_bytes())
    assert (found["accepted"], found["event"], found["line"]) == (False, 3, 4)
    assert found["differs"] == {"shelf": {"spec": [1], "event": [2]}}


def test_the_verb_exits_with_2_on_bad_input(run: Run, tmp_path: Path) -> None:
    file = write(
        tmp_path / "events.ndjson", [{**good()[0], "spec": "Nope"}, {**good()[1], "spec": "Nope"}]
    )
    result = run(validate, [file, "--specs", SPECS])
    assert result.exit_code == 2
    assert "no module 'Nope'" in result.output


MOVES = """\
---- MODULE Moves ----
EXTENDS Naturals
VARIABLE at
Init == at = 0
Move(from, to) == at = from /\\ from < to /\\ at' = to
Next == \\E from, to \\in 0..9 : Move(from, to)
====
"""


def test_arguments_go_by_name_and_not_by_the_order_in_the_event(tmp_path: Path) -> None:
    (tmp_path / "Moves").mkdir()
    (tmp_path / "Moves/Moves.tla").write_text(MOVES)
    where = {"spec": "Moves"}
    lines = [
        header(constants={}, **where),
        event(1, "Move", {"to": 4, "from": 0}) | where,
        event(2, "Move", {"from": 4, "to": 9}, {"at": 9}) | where,
    ]
    tree = SpecTree(tmp_path)
    (verdict,) = validate_all(read_traces([write(tmp_path / "events.ndjson", lines)]), tree)
    assert verdict.accepted, verdict.why
