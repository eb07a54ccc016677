"""A record's offset as evidence about one call, if another call may have sent the record."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces.evidence import Trace
from tests.traces.judging import judged_lines, verdicts
from tests.traces.small import trace
from tests.traces.stories import stories, story
from traces.verdicts.second import ask_again

CASES = stories("senders")


@pytest.mark.parametrize("case", CASES)
def test_a_place_tells_about_a_call_only_if_no_other_can_have_put_it_there(
    case: str, tmp_path: Path
) -> None:
    (id, expected), calls = CASES[case].words, CASES[case].calls
    one = judged_lines(tmp_path, *trace(*calls))
    said = {v.check: v for v in one.verdicts}[id]
    assert said.verdict == expected, said.reason
    ask_again(one, always=True)
    assert not one.contradictions


def test_a_producer_without_its_file_may_have_sent_what_is_stored(tmp_path: Path) -> None:
    """One record twice is a duplicate only if nobody else may have sent it, too."""
    lines, meta = trace(*story("p0 send 1@0; p1 send 2@2; scan 1@0 1@1 end=3"))
    assert _said("L2", tmp_path / "whole", (lines, meta)) == "violated"
    del lines["p1#0"]
    assert _said("L2", tmp_path / "one is missing", (lines, meta)) == "not checked"


@pytest.mark.parametrize("unknown", ["p0", "p1"])
def test_of_two_that_are_gone_neither_may_be_one_that_had_to_stay(
    unknown: str, tmp_path: Path
) -> None:
    """Two records at one offset, both gone: L1 is allowed only if each of them could be lost."""
    lines, meta = trace(*story("p0 send 1@0; p1 send 2@0; p0 send 3@1; scan 3@1 end=2; STARTS"))
    one = meta["producers"]["p0"]
    weak: dict[str, Any] = {name: one | {"acks": "1"} for name in ("p0", "p1")}
    meta["producers"] = weak
    assert _said("L1", tmp_path / "weak", (lines, meta)) == "allowed"
    meta["producers"] = weak | {unknown: one | {"acks": None}}
    assert _said("L1", tmp_path / "unknown", (lines, meta)) == "not checked"


def _said(id: str, folder: Path, trace: Trace) -> str:
    return verdicts(judged_lines(folder, *trace))[id]
