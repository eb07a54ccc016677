"""The start of a group without commits: by its reset policy, or unknown."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.judging import judged_lines
from tests.traces.small import Lines, trace
from tests.traces.stories import story
from traces.second_checker import Confirmed, Refuted, from_lines, opinion_on
from traces.verdicts.verdict import HOLDS, NOT_CHECKED, VIOLATED

#: A group that had committed nothing is given the second record, and commits what is behind it.
CALLS = """
    p0 send 1@0; p0 send 2@1; c0 committed OF offsets={}; c0 poll 2@1 OF isolation=-
    c0 process 2@1 OF; c0 commit OF offsets=2; scan 1@0 2@1 end=2
"""


def _with(policy: str) -> tuple[Lines, dict[str, Any]]:
    lines, meta = trace(*story(CALLS, OF="group=g generation=1"))
    meta["consumers"]["c0"]["auto_offset_reset"] = policy
    return lines, meta


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [
        ("earliest", VIOLATED),
        ("latest", HOLDS),
        ("by_duration:PT1H", NOT_CHECKED),
        ("none", NOT_CHECKED),
    ],
)
def test_a_group_without_offsets_begins_where_its_reset_policy_says(
    policy: str, verdict: str, tmp_path: Path
) -> None:
    """KIP-1106 lets a group begin an hour ago, and one without a policy begins where it seeks."""
    lines, meta = _with(policy)
    said = {v.check: v for v in judged_lines(tmp_path, lines, meta).verdicts}["G8"]
    assert said.verdict == verdict, said.reason


@pytest.mark.parametrize("policy", ["latest", "by_duration:PT1H", "none"])
def test_the_second_checker_knows_the_reset_policy(policy: str, tmp_path: Path) -> None:
    one = judged_lines(tmp_path, *_with("earliest"))
    (found,) = (v for v in one.verdicts if v.check == "G8")
    witness = one.witness(found.witnesses[0])
    assert opinion_on(from_lines(*_with("earliest")), "G8", witness) == Confirmed()
    assert isinstance(opinion_on(from_lines(*_with(policy)), "G8", witness), Refuted)
