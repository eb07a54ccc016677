"""Two checkers that share no code agree about every witness; and the second one can say no."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from tests.traces.anomalous import NAMES, anomalous
from tests.traces.damage import damage
from tests.traces.fixture import Fixture, fixture, write
from tests.traces.judging import SEEDED, examples, judged, judged_lines, own, said
from tests.traces.search import broken_somewhere
from tests.traces.test_log_checks import two_lives
from traces import second_checker as package
from traces.checks.catalogue import CHECKS
from traces.generate.small import IN_CALLS, InCalls, NotHere, injected
from traces.ingest.history import Reading
from traces.model.context import Clause
from traces.second_checker import Confirmed, Refuted, from_lines, opinion_on, partitions_of, read
from traces.second_checker.base import PREDICATES, SHAPES
from traces.second_checker.history import History
from traces.verdicts.judged import Judged
from traces.verdicts.verdict import clause_of

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(path for path in (DATA / "recordings").iterdir() if path.is_dir())
SEEDS = st.integers(0, 10**9)
NOTHING = InCalls(lambda fixture, lines: None, frozenset())


def witnesses(one: Judged) -> list[tuple[str, dict[str, Any]]]:
    """The witnesses of breaches, allowed or not, but not of undecided findings."""
    broken = [v for v in one.verdicts if v.verdict in ("violated", "allowed")]
    return [
        (v.check, one.witness(w))
        for v in broken
        for w in v.witnesses
        if clause_of(w[0])[0] != Clause.UNKNOWN
    ]


def disagreements(one: Judged, history: History) -> list[tuple[str, str, Any]]:
    """Witnesses that the second checker does not confirm."""
    opinions = [(id, opinion_on(history, id, w), w) for id, w in witnesses(one)]
    return [(id, str(said), w["events"]) for id, said, w in opinions if said != Confirmed()]


def with_anomaly(w: Fixture, mutation: InCalls) -> Any:
    try:
        return injected(w, mutation)
    except NotHere:
        assume(False)


@pytest.mark.parametrize("name", NAMES)
@given(seed=SEEDS)
@settings(max_examples=examples(1), phases=SEEDED)
def test_every_witness_of_an_anomaly_is_confirmed(name: str, seed: int) -> None:
    try:
        made = anomalous(name, seed)
    except NotHere:
        assume(False)
        return
    found = witnesses(made.judged)
    assert found or not IN_CALLS[name].must | IN_CALLS[name].allowed
    with TemporaryDirectory() as folder:
        history = read(write(Path(folder), made.lines, made.meta), partitions_of(found))
        assert disagreements(made.judged, history) == []
    assert disagreements(made.judged, from_lines(made.lines, made.meta)) == []


@given(seed=SEEDS, name=st.sampled_from([None, *IN_CALLS]))
@example(seed=4030, name="stamped_back")
@settings(max_examples=examples(60), phases=SEEDED)
def test_of_a_damaged_trace_both_say_the_same(seed: int, name: str | None) -> None:
    random = Random(seed)
    steps = random.choice([8, 15, 25])
    lines, meta = with_anomaly(fixture(seed, steps), IN_CALLS[name] if name else NOTHING)
    damage(random, lines, meta)
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    assert disagreements(one, from_lines(lines, meta)) == []


@pytest.mark.parametrize("path", sorted((DATA / "histories").glob("*.edn")), ids=lambda p: p.stem)
@pytest.mark.parametrize("subscribed", [False, True])
def test_every_witness_in_a_history_is_confirmed(path: Path, subscribed: bool) -> None:
    one = judged(path, reading=Reading(subscribed=subscribed))
    assert disagreements(one, read(path, partitions_of(witnesses(one)))) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_every_witness_in_a_recording_is_confirmed(path: Path) -> None:
    one = judged(path)
    assert disagreements(one, read(path, partitions_of(witnesses(one)))) == []


def test_every_check_has_a_second() -> None:
    implemented = set(CHECKS)
    assert set(PREDICATES) == implemented


def test_every_check_is_searched_for() -> None:
    assert SHAPES.keys() == CHECKS.keys()


@pytest.mark.parametrize("id", SHAPES)
@given(seed=SEEDS)
@settings(max_examples=examples(2), phases=SEEDED)
def test_in_a_fixture_that_keeps_its_promises_nothing_is_confirmed(id: str, seed: int) -> None:
    """Whatever a broken check might show as a witness there, the second checker refutes it."""
    w = fixture(seed, steps=8)
    assert broken_somewhere(from_lines(w.lines, w.meta), id) is None


@pytest.mark.parametrize("name", IN_CALLS)
@given(seed=SEEDS)
@settings(max_examples=examples(1), phases=SEEDED)
def test_a_search_without_checks_finds_what_the_checks_find(name: str, seed: int) -> None:
    """All that the checks say is broken, and of the rest nothing in a sample."""
    seed = own(seed, name)
    lines, meta = with_anomaly(fixture(seed, steps=8), IN_CALLS[name])
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    history = from_lines(lines, meta)
    broken = (said(one, "violated") | said(one, "allowed")) & SHAPES.keys()
    others = Random(seed).sample(sorted(SHAPES.keys() - broken), 5)
    asked = broken | set(others)
    assert {id for id in asked if broken_somewhere(history, id) is not None} == broken


def test_a_search_without_checks_finds_records_of_a_deleted_topic() -> None:
    """Its two lives are told apart in no fixture, so A1 is searched for here."""
    lines, meta = two_lives()
    assert broken_somewhere(from_lines(lines, meta), "A1") is None
    scan = lines["scan#0"][0]
    scan["records"].append({"topic": "t", "partition": 0, "offset": 2, "id": 2})
    assert broken_somewhere(from_lines(lines, meta), "A1") is not None


def test_a_gap_below_a_refused_send_is_none_where_another_stored_its_record() -> None:
    """The second opinion took the other's record for one that the session itself had stored."""
    w = fixture(1, steps=8)
    refused = next(x for x in w.lines["n0#0"] if x["outcome"] == "fail")
    lost = next(x for x in w.lines["n0#0"] if x["records"][0]["partition"] == 0)
    assert lost["seq"] < refused["seq"]
    lines, meta = json.loads(json.dumps([w.lines, w.meta]))
    lines["n0#0"][lost["seq"]]["records"][0]["id"] = 10_000  # which nobody read
    for later in lines["n0#0"][lost["seq"] + 1 : refused["seq"]]:
        later["producer_epoch"] = 1
    assert broken_somewhere(from_lines(lines, meta), "P2") is None


def test_an_event_that_is_not_in_the_trace_is_refuted() -> None:
    w = fixture(1)
    lines, meta = injected(w, IN_CALLS["phantom"])
    history = from_lines(lines, meta)
    with TemporaryDirectory() as folder:
        ((_, witness),) = witnesses(judged_lines(Path(folder), lines, meta))
    assert opinion_on(history, "L5", witness) == Confirmed()
    witness["events"][0]["offset"] += 1
    assert isinstance(opinion_on(history, "L5", witness), Refuted)
    witness["events"][0]["seq"] = 10_000
    assert isinstance(opinion_on(history, "L5", witness), Refuted)


def imported(path: Path) -> set[str]:
    """Every module that a file imports, also inside of functions."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {
        "." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)
    }


def test_the_second_checker_imports_nothing_of_the_first() -> None:
    """Wherever the import stands: a hash that both share is wrong in both."""
    folder = Path(package.__file__ or "").parent
    names = {name for path in folder.glob("*.py") for name in imported(path)}
    assert "traces.second_checker.keys" in names  # so that the search is known to see anything
    ours = {"traces", "refimpl", "chaos", "properties", "tests", ""}
    shared = {n for n in names if n.partition(".")[0] in ours}
    assert {name for name in shared if not name.startswith("traces.second_checker")} == set()
    allowed = {*sys.stdlib_module_names, "attrs", "orjson", "pyarrow", "traces"}
    assert {name.partition(".")[0] for name in names} <= allowed


def test_the_second_checker_stands_on_its_own() -> None:
    """Neither the first one nor the libraries that it counts with are loaded."""
    source = (
        "import sys, traces.second_checker\n"
        "print([m for m in sys.modules if m.startswith(('numpy', 'pyarrow', 'pandas', 'pyspark',"
        " 'traces.checks', 'traces.engines', 'traces.model'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
