"""The state graph: complete, with arguments, as many states as TLC finds, and kept."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from properties.tla import (
    Graph,
    InputError,
    Label,
    Rec,
    SpecTree,
    Tlc,
    Value,
    load_graph,
    spec_actions,
    spec_variables,
)
from properties.tla import graph as graph_module
from properties.tla.checker import Outcome
from properties.tla.guards import load_false_guards
from tests.properties.tla.scratch import Scratch


@pytest.fixture(scope="module")
def unordered(tree: SpecTree) -> Graph:
    return load_graph("Mailbox", "bug_unordered", tree)


State = tuple[Value, Value, Value]


def steps_of_mailbox(state: State, ordered: bool) -> Iterator[tuple[str, Value, State]]:
    """The rules of Mailbox with two clerks and two letters, written down once more."""
    posted, bag, shelf = state
    count = len(bag) + len(shelf)
    for clerk in ("first", "second"):
        if count < 2:
            letter = Rec.of(**{"from": clerk, "number": count + 1})
            after = posted.replace(**{clerk: posted[clerk] + 1})
            yield "Post", clerk, (after, bag | {letter}, shelf)
    for letter in bag:
        if not ordered or all(letter["number"] <= other["number"] for other in bag):
            yield "Deliver", letter, (posted, bag - {letter}, (*shelf, letter["number"]))


@pytest.mark.parametrize(("cfg", "ordered"), [("ok_ordered", True), ("bug_unordered", False)])
def test_the_graph_is_all_that_the_rules_allow_and_no_more(
    tree: SpecTree, cfg: str, ordered: bool
) -> None:
    """Also where a promise breaks on the way: TLC alone would stop there."""
    graph = load_graph("Mailbox", cfg, tree)
    initial: State = (Rec.of(first=0, second=0), frozenset[Value](), ())
    reached, waiting, expected = {initial}, [initial], set[Value]()
    for state in waiting:
        for name, argument, successor in steps_of_mailbox(state, ordered):
            expected.add((state, name, argument, successor))
            if successor not in reached:
                reached.add(successor)
                waiting.append(successor)
    found = {
        (
            tuple(graph.state(source).values()),
            graph.actions[label].name,
            *graph.actions[label].params.values(),
            tuple(graph.state(target).values()),
        )
        for source, label, target in graph.edges()
    }
    assert found == expected
    assert graph.edge_count == len(expected)
    assert len(graph.states) == len(reached)


RANGES = """\
---- MODULE Ranges ----
EXTENDS Naturals
VARIABLES n, seen
Init == n = 0 /\\ seen = {}
Grow == n' = n + 1 /\\ seen' = {n + 1} \\cup seen
Same == seen' = 1..n /\\ UNCHANGED n
Next == Grow \\/ Same
Small == n < 4
====
"""


def test_equal_values_are_one_value_however_the_spec_arrives_at_them(tmp_path: Path) -> None:
    """TLC prints 1..3 and {1, 2, 3} differently. A constraint bounds this model."""
    (tmp_path / "Ranges/cfg").mkdir(parents=True)
    (tmp_path / "Ranges/Ranges.tla").write_text(RANGES)
    (tmp_path / "Ranges/cfg/ok.cfg").write_text("INIT Init\nNEXT Next\nCONSTRAINT Small\n")
    graph = load_graph("Ranges", "ok", SpecTree(tmp_path))
    assert graph.values == [[0, 1, 2, 3], [frozenset(range(1, n + 1)) for n in range(4)]]
    assert len(graph.states) == 4
    assert all(s in graph.out[s][1] for s in range(4))


def test_a_graph_has_as_many_states_as_tlc_finds(tree: SpecTree) -> None:
    outcome = Tlc(tree).check("Mailbox", "ok_ordered", 60)
    assert len(load_graph("Mailbox", "ok_ordered", tree).states) == outcome.distinct


def test_labels_have_the_arguments_even_of_sets_that_depend_on_the_state(unordered: Graph) -> None:
    assert {str(label) for label in unordered.actions} == {
        'Post("first")',
        'Post("second")',
        'Deliver([from |-> "first", number |-> 1])',
        'Deliver([from |-> "first", number |-> 2])',
        'Deliver([from |-> "second", number |-> 1])',
        'Deliver([from |-> "second", number |-> 2])',
        "Drop()",
    }
    assert unordered.actions[0] == Label("Post", {"c": "first"})


def test_states_and_values_can_be_found_again(unordered: Graph) -> None:
    assert unordered.variables == ("posted", "bag", "shelf")
    for number, ids in enumerate(unordered.states):
        state = unordered.state(number)
        assert (
            tuple(unordered.intern[i][state[name]] for i, name in enumerate(unordered.variables))
            == ids
        )
        assert unordered.state_ids[ids] == number
    assert unordered.initial == [0]


def test_a_shortest_path_leads_there_step_by_step(unordered: Graph) -> None:
    depths: list[int] = []
    for target in range(len(unordered.states)):
        here, path = unordered.initial[0], unordered.shortest_path(target)
        for label, reached in path:
            assert reached in unordered.out[here][label]
            here = reached
        assert here == target
        depths.append(len(path))
    assert depths == sorted(depths)
    assert max(depths) == 4


def test_a_graph_comes_from_the_cache_until_a_module_it_stands_on_changes(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    dumped: list[str] = []
    dump = graph_module.dump

    def counting(module: str, *rest: Any) -> None:
        dumped.append(module)
        dump(module, *rest)

    monkeypatch.setattr(graph_module, "dump", counting)
    load_graph("Pile", "ok", scratch.tree)
    load_graph("Pile", "ok", scratch.tree)
    assert dumped == ["Pile"]
    scratch.replace("lib/Sequencing.tla", "to show", "to show again")
    load_graph("Pile", "ok", scratch.tree)
    assert dumped == ["Pile"]
    scratch.replace("Pile/Pile.tla", "at most", "at least")
    load_graph("Pile", "ok", scratch.tree)
    assert dumped == ["Pile", "Pile"]
    assert len(list((cache / "graphs").glob("Pile-ok-*.graph"))) == 1


def test_a_graph_with_another_number_of_states_than_tlcs_is_refused(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch.replace("Pile/Pile.tla", "at most", "perhaps")
    read_ints = graph_module.read_ints

    def short(file: Path, arrays: int) -> Any:
        text, ids, steps = read_ints(file, arrays)
        return text, ids[:-1], steps  # of one variable

    monkeypatch.setattr(graph_module, "read_ints", short)
    with pytest.raises(AssertionError, match="has 3 states, TLC finds 4"):
        load_graph("Pile", "ok", scratch.tree)


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("distinct = 4", "distinct = 4", 0),
        ("distinct = 4", "distinct = 5", 1),
        ('kind = "ok"\nexpect = "pass"', 'kind = "bug"\nexpect = "violates"\nproperty = "Low"', 1),
    ],
)
def test_tlc_counts_states_where_the_table_of_verdicts_does_not_say_the_same(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, old: str, new: str, asked: int
) -> None:
    """The pinned counts of a whole exploration are checked by `highwater spec` alone."""
    scratch.replace("Pile/verdicts.toml", old, new)
    scratch.replace("Pile/Pile.tla", "at most", f"at most, for once {asked} {len(new)},")
    checks: list[str] = []
    check_file = Tlc.check_file

    def counting(self: Tlc, module: str, cfg: Path, limit_s: float) -> Outcome:
        checks.append(module)
        return check_file(self, module, cfg, limit_s)

    monkeypatch.setattr(Tlc, "check_file", counting)
    assert len(load_graph("Pile", "ok", scratch.tree).states) == 4
    assert checks == ["Pile"] * asked


@pytest.mark.parametrize(
    ("scopes", "most", "at_once"),
    [
        ("", 70_000, False),
        ('[scopes]\nconform = ["ok"]\n', 3, True),
        ('[scopes]\nconform = ["ok"]\n', 2, False),
        ('[scopes]\nmutants = ["ok"]\n', 2, True),
    ],
)
def test_false_guards_come_with_the_graph_where_refusals_are_compared(
    scratch: Scratch, monkeypatch: pytest.MonkeyPatch, scopes: str, most: int, at_once: bool
) -> None:
    monkeypatch.setattr(graph_module, "NAMED_STEPS", most)
    scratch.replace(
        "Pile/verdicts.toml", '[[verdict]]\ncfg = "ok"', f'{scopes}[[verdict]]\ncfg = "ok"'
    )
    scratch.replace("Pile/Pile.tla", "at most", f"guarded, {most} {len(scopes)}, at most")
    graph = load_graph("Pile", "ok", scratch.tree)
    file = graph_module.graph_file("Pile", scratch.file("Pile/cfg/ok.cfg"), scratch.tree)
    assert (graph.edge_count, file.with_suffix(".guards").is_file()) == (3, at_once)
    guards = load_false_guards("Pile", "ok", scratch.tree)
    assert [guards.of(state, 0) for state in range(4)] == [(), (), (), ("Len(items) < Height",)]
    assert file.with_suffix(".guards").is_file()


def test_a_guard_is_evaluated_anew_for_what_its_definition_was_told(scratch: Scratch) -> None:
    never = "Never == Fits(Len(items)) /\\ Len(items) > Height /\\ items' = items"
    scratch.replace("Pile/Pile.tla", "Next == Put", f"{never}\nNext == Put \\/ Never")
    scratch.replace("Pile/Pile.tla", "Init ==", "Fits(n) == n < Height\nInit ==")
    guards = load_false_guards("Pile", "ok", scratch.tree)
    high = ("Len(items) > Height",)
    assert [guards.of(state, 1) for state in range(3)] == [high] * 3
    assert {*guards.of(3, 1)} == {"n < Height", *high}


ROOM = """---- MODULE Room ----
EXTENDS Naturals
CONSTANT Most
VARIABLE held
Leave(n) == held > Most /\\ n < held /\\ held' = held
====
"""


def test_a_guard_in_an_instance_reads_what_its_variable_stands_for(scratch: Scratch) -> None:
    scratch.file("lib/Room.tla").write_text(ROOM)
    never = "Never == Inner!Leave(1) /\\ items' = items"
    scratch.replace("Pile/Pile.tla", "Next == Put", f"{never}\nNext == Put \\/ Never")
    inner = "Inner == INSTANCE Room WITH Most <- Height, held <- Len(items)"
    scratch.replace("Pile/Pile.tla", "Init ==", f"{inner}\nInit ==")
    guards = load_false_guards("Pile", "ok", scratch.tree)
    assert [{*guards.of(state, 1)} for state in range(4)] == [
        *([{"held > Most", "n < held"}] * 2),
        *([{"held > Most"}] * 2),
    ]


def test_graphs_from_one_jvm_are_those_from_one_each(tree: SpecTree, tmp_path: Path) -> None:
    cfgs = [tree.model("Mailbox", name) for name in ("ok_ordered", "bug_unordered")]
    together, alone = ([_wanted(cfg, tmp_path / how) for cfg in cfgs] for how in ("both", "each"))
    graph_module.dump("Mailbox", together, tree)
    for one, other in zip(alone, together, strict=True):
        graph_module.dump("Mailbox", [one], tree)
        assert one.out.read_bytes() == other.out.read_bytes()
        assert one.guards.read_bytes() == other.guards.read_bytes()


def _wanted(cfg: Path, folder: Path) -> graph_module.WantedGraph:
    folder.mkdir(exist_ok=True)
    return graph_module.WantedGraph(cfg, folder / f"{cfg.stem}.graph", graph_module.ALL_STEPS)


def test_a_model_that_does_not_start_has_no_graph_and_says_why(scratch: Scratch) -> None:
    scratch.replace("Pile/cfg/ok.cfg", "Height = 3", "Height = -")
    with pytest.raises(InputError, match=r"ok\.cfg: no graph of Pile:\n"):
        load_graph("Pile", "ok", scratch.tree)


def test_names_come_from_the_spec_itself(tree: SpecTree) -> None:
    assert spec_variables("Mailbox", tree) == ("posted", "bag", "shelf")
    assert spec_actions("Mailbox", tree) == {"Post": ("c",), "Deliver": ("letter",), "Drop": ()}


def test_the_graph_uses_no_other_names_than_the_spec_declares(
    unordered: Graph, tree: SpecTree
) -> None:
    declared = spec_actions("Mailbox", tree)
    assert {label.name: tuple(label.params) for label in unordered.actions} == declared


def test_a_renamed_action_is_noticed_at_once(scratch: Scratch) -> None:
    assert spec_actions("Pile", scratch.tree) == {"Put": ()}
    scratch.replace("Pile/Pile.tla", "Put", "Heap")
    assert spec_actions("Pile", scratch.tree) == {"Heap": ()}


def test_a_module_that_cannot_be_parsed_is_shown_with_sanys_words(scratch: Scratch) -> None:
    scratch.replace("Pile/Pile.tla", "Next == Put", "Next == Puut")
    with pytest.raises(InputError, match=r"Pile\.tla cannot be read:[^$]*Unknown operator: `Puut'"):
        spec_actions("Pile", scratch.tree)


def test_a_module_stands_on_all_it_mentions_outside_comments_and_so_on(tmp_path: Path) -> None:
    for path, text in {
        "A/A": r"EXTENDS B  (* unlike D *) \* and unlike E",
        "B/B": "EXTENDS C",
        "lib/C": "",
        "D/D": "EXTENDS A",
        "E/E": "",
    }.items():
        file = tmp_path / f"{path}.tla"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    closure = SpecTree(tmp_path).closure("A")
    assert [file.stem for file in closure] == ["A", "B", "C"]
