"""Every need that a check declares: what does not tell it leaves the check *not checked*."""

from pathlib import Path

from tests.traces.evidence import Removal
from tests.traces.needs import false_verdicts, kept, looked, needed, trace_of, turned, with_all
from traces.checks.catalogue import CHECKS
from traces.verdicts.verdict import NOT_CHECKED

SEED = 5
#: As few removals as make every need missing that a removal can make missing in this trace.
REMOVALS = (Path(__file__).parent / "data" / "removals.txt").read_text().splitlines()
# No field that is taken away: what a run must not have (two clocks, sends after the final scan, a
# topic made again), or what only lines show that are no fixture's.
ELSEWHERE = {
    *("one_clock", "final", "emptied", "lives", "proof", "marker.detail", "any_read"),
    *("compacted_dump.key", "compacted_dump.tombstone"),
    *(f"open_commit.{name}" for name in ("topic", "partition", "offset", "group", "inv")),
    *(f"open_offsets.{name}" for name in ("topic", "partition", "offset", "group", "txn", "inv")),
}


def test_who_lacks_what_it_needs_is_not_checked_and_all_others_say_the_same() -> None:
    trace, shown = trace_of(SEED, None), set[str]()
    before = looked(trace)
    for words in REMOVALS:
        after = looked(Removal.parse(words)(trace))
        for check in CHECKS.values():
            verdict, lacking = after.verdict(check), after.lacks(check)
            shown |= lacking
            assert not lacking or verdict.verdict == NOT_CHECKED, (words, check.id, lacking)
            assert not turned(before.verdict(check), verdict), (words, check.id)
    needed = {need for check in CHECKS.values() for need in (*check.needs, *check.closed)}
    assert needed - shown == ELSEWHERE


def test_who_did_not_declare_a_need_would_turn_its_answer_round() -> None:
    for one, needs in kept().items():
        before = with_all(one.seed, one.anomaly)
        after = looked(one.removal(trace_of(one.seed, one.anomaly)))
        assert false_verdicts(before, after) == [], one
        assert set(needs) <= set(needed(before, after)), one
