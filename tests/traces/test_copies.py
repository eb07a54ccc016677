"""One record sent by several calls: what is known of one copy is not known of the other."""

from pathlib import Path

import pytest

from tests.traces.judging import judged_lines
from tests.traces.search import broken_somewhere
from tests.traces.small import trace
from tests.traces.stories import stories
from traces.second_checker import from_lines

CASES = stories("copies")


@pytest.mark.parametrize("case", CASES)
def test_both_say_the_same_of_a_record_that_was_sent_again(tmp_path: Path, case: str) -> None:
    id, *more = CASES[case].words
    lines, meta = trace(*CASES[case].calls)
    (verdict,) = (v for v in judged_lines(tmp_path, lines, meta).verdicts if v.check == id)
    broken = "broken" in more
    assert (verdict.verdict == "violated") == broken
    assert (broken_somewhere(from_lines(lines, meta), id) is not None) == broken
