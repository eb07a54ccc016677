"""The law of evidence in small random traces of all kinds of calls, of which fixtures have none."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.dense import dense_trace
from tests.traces.dense_search import searched
from tests.traces.needs import looked
from tests.traces.test_evidence import SEEDED
from traces.checks.catalogue import CHECKS
from traces.verdict import VIOLATED

FEW = 8  # removals of a trace; the search takes more


@given(seed=st.integers(0, 10**9))
@settings(max_examples=max(1, settings().max_examples // 10), phases=SEEDED)
def test_less_evidence_turns_no_verdict_round_where_findings_meet(seed: int) -> None:
    assert not [str(find) for find in searched(seed, FEW).finds]


def test_many_promises_are_broken_there() -> None:
    runs = [looked(dense_trace(seed)) for seed in range(40)]
    broken = {id for id, c in CHECKS.items() for one in runs if one.verdict(c).verdict == VIOLATED}
    assert len(broken) >= 30
