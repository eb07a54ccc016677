"""Two checkers that share no code agree about every witness; and the second one can say no."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st

from tests.traces.damage import damage
from tests.traces.judging import judged, judged_lines, said
from tests.traces.mutations import MUTATIONS, Mutation, NotHere, told
from tests.traces.world import World, world
from traces import rejudge as rejudge_package
from traces.checks.catalogue import CHECKS
from traces.ingest.history import Reading
from traces.rejudge import Confirmed, Refuted, from_lines, places_of, read, rejudge
from traces.rejudge.base import PREDICATES
from traces.rejudge.history import History
from traces.rejudge.rows import Row
from traces.report import Judged

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(path for path in (DATA / "recordings").iterdir() if path.is_dir())
SEEDS = st.integers(0, 10**9)
# A seed has no smaller one that tells more: looking for it takes minutes and finds nothing.
SEEDED = (Phase.explicit, Phase.reuse, Phase.generate)
NOTHING = Mutation(lambda world, lines: None, frozenset())


def witnesses(one: Judged) -> list[tuple[str, dict[str, Any]]]:
    """What was shown as broken, whether or not it is allowed."""
    whole = one.as_json()["checks"]
    broken = said(one, "violated") | said(one, "allowed")
    return [(id, witness) for id in sorted(broken) for witness in whole[id]["witnesses"]]


def disagreements(one: Judged, history: History) -> list[tuple[str, str, Any]]:
    """Witnesses that the second checker does not confirm."""
    opinions = [(id, rejudge(history, id, w), w) for id, w in witnesses(one)]
    return [(id, str(said), w["events"]) for id, said, w in opinions if said != Confirmed()]


def lied(w: World, mutation: Mutation) -> Any:
    try:
        return told(w, mutation)
    except NotHere:
        assume(False)


@pytest.mark.parametrize("name", MUTATIONS)
@given(seed=SEEDS)
@settings(max_examples=2, phases=SEEDED)
def test_every_witness_of_a_lie_is_confirmed(name: str, seed: int) -> None:
    lines, meta = lied(world(seed, steps=20), MUTATIONS[name])
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
        found = witnesses(one)
        assert found
        assert disagreements(one, read(Path(folder), places_of(found))) == []
    assert disagreements(one, from_lines(lines, meta)) == []


@given(seed=SEEDS, name=st.sampled_from([None, *MUTATIONS]))
@example(seed=4030, name="set_the_clock_back")
@settings(max_examples=60, phases=SEEDED)
def test_of_a_damaged_trace_both_say_the_same(seed: int, name: str | None) -> None:
    random = Random(seed)
    steps = random.choice([8, 15, 25])
    lines, meta = lied(world(seed, steps), MUTATIONS[name] if name else NOTHING)
    damage(random, lines, meta)
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    assert disagreements(one, from_lines(lines, meta)) == []


@pytest.mark.parametrize("path", sorted((DATA / "histories").glob("*.edn")), ids=lambda p: p.stem)
@pytest.mark.parametrize("subscribed", [False, True])
def test_every_witness_in_a_history_is_confirmed(path: Path, subscribed: bool) -> None:
    one = judged(path, reading=Reading(subscribed=subscribed))
    assert disagreements(one, read(path, places_of(witnesses(one)))) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_every_witness_in_a_recording_is_confirmed(path: Path) -> None:
    one = judged(path)
    assert disagreements(one, read(path, places_of(witnesses(one)))) == []


def test_every_check_has_a_second() -> None:
    implemented = set(CHECKS)
    assert set(PREDICATES) == implemented


# What the witness of a check consists of, for the search without any check.
SHAPES = {
    "L1": "S|P S|P",
    "L2": "S|P S|P",
    "L3": "send",
    "L4": "send",
    "L5": "P",
    "L6": "send P",
    "L8": "send P P",
    "L9": "send send",
    "L10": "P send",
    "L12": "scan|dump|marker scan|dump|marker",
    "L15": "send P P",
    "L20": "earliest|latest earliest|latest",
    "P1": "send send",
    "P3": "init_producer|send send",
    "P4": "init_producer init_producer",
    "T1": "send",
    "T2": "P send",
    "T3": "send P",
    "T4": "P send",
    "T8": "txn_commit txn_begin txn_commit",
    "C1": "P P",
    "C2": "P P",
    "C3": "seek|assign P",
    "C4": "revoked|lost|pause P",
    "G1": "assigned assigned",
    "G4": "assigned commit",
    "G5": "commit commit",
    "G6": "commit",
    "G8": "P commit|committed",
    "G9": "poll poll",
    "G10": "commit|committed|assigned poll",
    "L7": "send|poll|scan|dump poll|scan|dump",
    "L11": "mark mark",
    "L13": "log_start log_start|poll|scan",
    "L14": "dump|marker dump|marker|dump_end",
    "L16": "list_offsets",
    "L17": "poll|scan|dump poll|scan|dump",
    "L18": "send",
    "L19": "send send|scan|poll",
    "P6": "send",
    "T5": "poll send",
    "T6": "send poll|scan",
    "T7": "send marker|poll|scan",
    "T9": "txn_offsets committed",
    "T10": "poll poll",
    "T11": "send last_stable",
    "C5": "poll mark|poll",
    "C7": "mark send",
    "G7": "commit committed",
    "G11": "assigned assigned commit",
    "S1": "acquire acquire",
    "S2": "acknowledge acquire",
    "S4": "scan",
    "A2": "delete_records log_start|earliest|poll|scan",
}
# Not searched for: witnesses of several shapes, of four rows, or of several partitions.
UNSEARCHED = {"P2", "P5", "C6", "G2", "G3", "S3", "S5", "A1"}
ALIKE = {"L8", "L15"}  # three rows about one record or one offset


def test_all_other_checks_are_searched_for() -> None:
    assert SHAPES.keys() == CHECKS.keys() - UNSEARCHED


def candidates(history: History, id: str) -> Iterator[list[Row]]:
    """Every choice of rows that could be a witness by its shape."""
    words = SHAPES[id].replace("S", "send").replace("P", "poll|scan").split()
    for place, rows in sorted(rows_by_place(history).items()):
        choices = [[row for row in rows if row.op in word.split("|")] for word in words]
        if id in ALIKE:
            near: dict[Any, list[Row]] = {}
            for row in choices[1]:
                near.setdefault(row.id, []).append(row)
            at: dict[Any, list[Row]] = {}
            for row in choices[1]:
                at.setdefault(row.offset, []).append(row)
            for sent in choices[0]:
                for pair in product(near.get(sent.id, ()), at.get(sent.offset, ())):
                    yield [sent, *pair]
        elif place or id in ("P3", "P4", "T8"):
            yield from (list(chosen) for chosen in product(*choices))


def rows_by_place(history: History) -> dict[str, list[Row]]:
    """Rows of each partition, and under no name those of calls that concern none."""
    calls = [
        Row(line, {}, line["op"], "", n, 0)
        for mine in history.by_process.values()
        for n, line in mine
        if line["op"] in ("init_producer", "txn_begin", "txn_commit", "send")
    ]
    return {**history.by_place, "": calls}


def broken_somewhere(history: History, id: str) -> list[Row] | None:
    """Search all choices for one that breaks the promise, as the formula has it."""
    from traces.rejudge.base import NotBroken

    for rows in candidates(history, id):
        try:
            PREDICATES[id](history, rows)
        except NotBroken:
            continue
        return rows
    return None


@pytest.mark.parametrize("id", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=2, phases=SEEDED)
def test_in_a_world_that_keeps_its_promises_nothing_is_confirmed(id: str, seed: int) -> None:
    """Whatever a broken check might show as a witness there, the second checker refutes it."""
    w = world(seed, steps=8)
    assert broken_somewhere(from_lines(w.lines, w.meta), id) is None


@pytest.mark.parametrize("name", MUTATIONS)
@given(seed=SEEDS)
@settings(max_examples=1, phases=SEEDED)
def test_a_search_without_checks_finds_what_the_checks_find(name: str, seed: int) -> None:
    """All that the checks say is broken, and of the rest nothing in a sample."""
    lines, meta = lied(world(seed, steps=8), MUTATIONS[name])
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    history = from_lines(lines, meta)
    broken = (said(one, "violated") | said(one, "allowed")) & SHAPES.keys()
    others = Random(seed).sample(sorted(SHAPES.keys() - broken), 5)
    found = {id for id in [*broken, *others] if broken_somewhere(history, id) is not None}
    assert found == broken


def test_an_event_that_is_not_in_the_trace_is_refuted() -> None:
    w = world(1)
    lines, meta = told(w, MUTATIONS["phantom"])
    history = from_lines(lines, meta)
    with TemporaryDirectory() as folder:
        ((_, witness),) = witnesses(judged_lines(Path(folder), lines, meta))
    assert rejudge(history, "L5", witness) == Confirmed()
    witness["events"][0]["offset"] += 1
    assert isinstance(rejudge(history, "L5", witness), Refuted)
    witness["events"][0]["seq"] = 10_000
    assert isinstance(rejudge(history, "L5", witness), Refuted)


def imported(path: Path) -> set[str]:
    """Every module that a file imports, also inside of functions."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        "." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)
    }


def test_the_second_checker_imports_nothing_of_the_first() -> None:
    """Wherever the import stands: a hash that both share is wrong in both."""
    folder = Path(rejudge_package.__file__ or "").parent
    names = {name for path in folder.glob("*.py") for name in imported(path)}
    assert "traces.rejudge.keys" in names  # so that the search is known to see anything
    ours = {"traces", "refimpl", "chaos", "properties", "tests", ""}
    shared = {n for n in names if n.partition(".")[0] in ours}
    assert {name for name in shared if not name.startswith("traces.rejudge")} == set()
    allowed = {*sys.stdlib_module_names, "attrs", "orjson", "pyarrow", "traces"}
    assert {name.partition(".")[0] for name in names} <= allowed


def test_the_second_checker_stands_on_its_own() -> None:
    """Neither the first one nor the libraries that it counts with are loaded."""
    source = (
        "import sys, traces.rejudge\n"
        "print([m for m in sys.modules if m.startswith(('numpy', 'pyarrow', 'pandas', 'pyspark',"
        " 'traces.checks', 'traces.kernel', 'traces.context', 'traces.local'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
