"""The search for what checks read and do not ask for finds a need that is taken out of one."""

import pytest

from tests.traces.dense import dense_trace
from tests.traces.evidence import Removal
from tests.traces.needs import looked, without
from tests.traces.undeclared_search import changed
from traces.checks.catalogue import CHECKS

FORGOTTEN = [
    ("T9", "sent_offsets.inv", 102419966, Removal("invoked_ns", "p1#0"), "more"),
    ("L16", "acked.offset", 624909244, Removal("records.offset", "p1#0 0"), "more"),
    # on any call a process may tell that it is static
    ("G1", "static.instance", 139411222, Removal("instance", "c1#0 2"), "more"),
    ("T7", "ended.offset", 806670115, Removal("records.offset", "p1#0"), "less"),
    ("T7", "sequenced.pid", 402598447, Removal("producer_id", "broker-2 0"), "less"),
]

SETTLED = [
    # whichever of two records gave way, both were allowed to
    ("L1", 824421083, Removal("meta", "producers/p0/acks")),
    # a reader that is cut off may have read another where this one was acknowledged
    ("L2", 824421083, Removal("tail", "c0#0 0")),
    # what lies at an answer contradicts it
    ("L16", 898098678, Removal("invoked_ns", "list_offsets")),
    ("L16", 170887553, Removal("returned_ns", "p1#0")),
]


@pytest.mark.parametrize(("check", "seed", "removal"), SETTLED, ids=str)
def test_less_is_not_more(check: str, seed: int, removal: Removal) -> None:
    trace = dense_trace(seed)
    before, after = looked(trace), looked(removal(trace))
    assert changed(CHECKS[check], before, after, removal) == ""


@pytest.mark.parametrize(("check", "need", "seed", "removal", "word"), FORGOTTEN)
def test_a_need_that_was_forgotten_shows_in_what_is_found(
    check: str, need: str, seed: int, removal: Removal, word: str
) -> None:
    trace = dense_trace(seed)
    before, after = looked(trace), looked(removal(trace))
    forgetful = without(CHECKS[check], need)
    assert changed(CHECKS[check], before, after, removal) == ""
    assert changed(forgetful, before, after, removal) == word
