"""`highwater check --junit`: read back by another library, as a CI system would."""

import errno
import os
import stat
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Tree

import junitparser as somebody_elses
import pytest

from tests.traces.fixture import fixture
from tests.traces.judging import judged, judged_lines, said
from traces.checks.catalogue import CHECKS
from traces.generate.small import IN_CALLS, injected
from traces.model.output import writable, write_whole
from traces.model.problems import BadInput, Problem
from traces.verdicts.judged import Judged
from traces.verdicts.junit import junit
from traces.verdicts.verdict import Verdict

DATA = Path(__file__).parent / "data"
RECORDING = DATA / "recordings" / "auto-commit"
# Half of its functions have no types.
junitparser: Any = somebody_elses


def suites(*runs: Judged) -> list[Any]:
    return list(junitparser.JUnitXml.fromstring(junit(runs)))


def results(one: Judged) -> dict[str, Any]:
    """The result of each case, by the id of the promise."""
    (suite,) = suites(one)
    return {case.name.partition(" ")[0]: case.result for case in suite}


def test_every_promise_is_a_case_and_says_what_was_found() -> None:
    one = judged(RECORDING)
    (suite,) = suites(one)
    cases = list(suite)
    assert [case.name.partition(" ")[0] for case in cases] == list(CHECKS)
    assert {case.classname for case in cases} == {"auto-commit"}
    answers = {verdict.check: verdict for verdict in one.verdicts}
    skipped = {id: found[0] for id, found in results(one).items() if found}
    assert {said_of(skip) for skip in skipped.values()} == {"skipped"}
    assert set(skipped) == said(one, "not checked")
    assert all(skip.message == answers[id].reason for id, skip in skipped.items())
    properties = {one.name: one.value for one in suite.properties()}
    assert properties == {
        "verdict": "allowed",
        "violated": "",
        "allowed": " ".join(allowed_here(one)),
    }
    assert (suite.tests, suite.failures, suite.errors) == (len(CHECKS), 0, 0)
    assert suite.skipped == len(skipped)
    allowed = next(case for case in cases if case.name.startswith("G8 "))
    assert not allowed.is_failure
    assert allowed.system_out.startswith("440 records below the committed offset were")
    assert "allowed because consumers of group g: commit_order = auto" in allowed.system_out
    assert "witness 1 of 440" in allowed.system_out


def allowed_here(one: Judged) -> list[str]:
    return [verdict.check for verdict in one.verdicts if verdict.verdict == "allowed"]


def said_of(result: Any) -> str:
    return type(result).__name__.lower()


def test_a_violation_is_a_failure_with_its_witness_and_its_clause(tmp_path: Path) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    one = judged_lines(tmp_path / "lossy", lines, meta)
    (suite,) = suites(one)
    assert suite.failures == len(said(one, "violated")) > 0
    (failure,) = results(one)["L4"]
    check = CHECKS["L4"]
    assert said_of(failure) == "failure"
    assert failure.message.startswith("1 acknowledged record is missing from the log at the end: ")
    assert check.unless_text in failure.message
    assert failure.text.startswith(f"{failure.message}\n{check.formula}\n")
    assert "send ok partition=t:" in failure.text


def test_an_input_that_cannot_be_judged_is_an_error() -> None:
    problem = Problem("p0#0.ndjson", 3, "outcome", "expected one of ok, fail, info")
    bad = Judged(Path("broken"), error=BadInput([problem], 1))
    (suite,) = suites(bad)
    assert (suite.tests, suite.errors) == (1, 1)
    ((error,),) = (case.result for case in suite)
    assert error.message == "p0#0.ndjson:3: outcome: expected one of ok, fail, info"


def test_several_runs_are_several_suites_and_their_sums() -> None:
    runs = [judged(DATA / "histories" / name) for name in ("G0.edn", "basic.edn")]
    whole = Tree.fromstring(junit(runs))
    assert [suite.get("name") for suite in whole] == [str(run.path) for run in runs]
    for count in ("tests", "failures", "errors"):
        assert whole.get(count) == str(sum(int(suite.get(count, "")) for suite in whole))
    assert whole.get("tests") == str(2 * len(CHECKS))


# What Jenkins' schema, junit-10.xsd, lets an element have; the first of them it must have.
ATTRIBUTES = {
    "testsuites": ("", "name tests failures errors"),
    "testsuite": ("name tests failures errors", "skipped"),
    "properties": ("", ""),
    "property": ("name value", ""),
    "testcase": ("name", "classname"),
    "failure": ("", "type message"),
    "error": ("", "type message"),
    "skipped": ("", "type message"),
    "system-out": ("", ""),
}


def test_no_element_has_what_the_schema_of_a_ci_system_does_not_know(tmp_path: Path) -> None:
    lines, meta = injected(fixture(2), IN_CALLS["lost"])
    bad = Judged(Path("broken"), error=BadInput([Problem("a", 1, "b", "c")], 1))
    runs = [bad, judged_lines(tmp_path / "run", lines, meta), judged(RECORDING)]
    elements = list(Tree.fromstring(junit(runs)).iter())
    assert {element.tag for element in elements} == set(ATTRIBUTES)
    for element in elements:
        must, may = (set(names.split()) for names in ATTRIBUTES[element.tag])
        assert must <= set(element.attrib) <= must | may


HOSTILE = "a<b>&\"' ]]> \x00\x1b[31m\ud800 é 漢 \U0001f4a5"


def test_odd_characters_come_through_or_are_spelt_out() -> None:
    one = Judged(Path("x"), verdicts=[Verdict("L1", HOSTILE, "not checked", HOSTILE)])
    ((case,),) = suites(one)
    spelt = "a<b>&\"' ]]> \\x00\\x1b[31m\\xd800 é 漢 \U0001f4a5"
    assert case.name == f"L1 {spelt}"
    ((skipped),) = case.result
    assert skipped.message == spelt
    assert writable(spelt) == spelt


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.xml"
    write_whole(path, b"one")
    assert path.read_bytes() == b"one"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask()
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="no space"):
            write_whole(path, b"two")
    assert path.read_bytes() == b"one"
    assert list(tmp_path.iterdir()) == [path]


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left")


def umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    write_whole(link, b"through")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"through")
    ours, theirs = os.pipe()
    write_whole(Path(f"/dev/fd/{theirs}"), b"to a pipe")
    assert os.read(ours, 100) == b"to a pipe"
    os.close(ours)
    os.close(theirs)
