"""Random runs in trace format v1: exactly the broken promises are violated, and both agree."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.traces.fuzz.native import trace
from tests.traces.fuzz.operations import corrupt, run
from tests.traces.judging import SEEDED, judged_lines, said
from tests.traces.search import broken_somewhere
from tests.traces.test_second_checker import disagreements
from traces.second_checker import from_lines

COVERED = {
    *(f"L{n}" for n in (1, 2, 3, 4, 5, 6, 8, 9, 10, 15)),
    *("P1", "T1", "T2", "T3", "T4", "T5", "C1", "C2"),
}


@given(seed=st.integers(0, 10**9))
@example(824681)  # a record that nobody sent, read by who asks for uncommitted ones as well
@example(7376)  # of a record sent three times, one answer tells where the kept one lies
@example(276214)  # two sends of one record acknowledged at one offset, and one of them aborted
@settings(max_examples=max(150, settings().max_examples), phases=SEEDED)
def test_a_random_run_is_violated_where_the_formulas_are_broken(seed: int) -> None:
    random = Random(seed)
    operations = run(random, transactions=0.3, aborts=0.4)
    corrupt(random, operations, again=True)
    lines, meta = trace(random, operations)
    history = from_lines(lines, meta)
    broken = {id for id in COVERED if broken_somewhere(history, id)}
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    assert one.error is None
    unknown = said(one, "not checked") | said(one, "allowed")
    # What is not checked or allowed is neither violated nor said to hold.
    assert said(one, "violated") & COVERED == broken - unknown
    assert said(one, "holds") & broken == set()
    assert disagreements(one, history) == []
