"""The verdicts as JUnit's XML, which every CI system shows: a suite per run, a case per promise."""

from collections.abc import Sequence
from itertools import islice
from xml.etree import ElementTree as Tree

from traces.checks.catalogue import CHECKS
from traces.model.output import writable
from traces.verdicts.judged import BAD_INPUT, Judged, event, event_line
from traces.verdicts.sentences import counted
from traces.verdicts.verdict import ALLOWED, NOT_CHECKED, VIOLATED, Verdict

_WITNESSES = 3
_LISTED = (VIOLATED, ALLOWED)
_COUNTED = {"failures": "failure", "errors": "error"}


def junit(judged: Sequence[Judged]) -> bytes:
    """All runs as one document."""
    whole = Tree.Element("testsuites", name="highwater check")
    for one in judged:
        suite = Tree.SubElement(whole, "testsuite", name=writable(str(one.path)))
        _properties(suite, one)
        _cases(suite, one)
        _count(suite)
        suite.set("skipped", str(sum(1 for _ in suite.iter("skipped"))))
    _count(whole)  # Jenkins' schema knows no `skipped` up here
    Tree.indent(whole)
    return Tree.tostring(whole, encoding="utf-8", xml_declaration=True) + b"\n"


def _properties(suite: Tree.Element, one: Judged) -> None:
    """The run's verdict and which promises were broken: what is allowed fails no case."""
    several = Tree.SubElement(suite, "properties")
    said = {word: [v.check for v in one.verdicts if v.verdict == word] for word in _LISTED}
    for name, value in (("verdict", one.verdict), *((w, " ".join(said[w])) for w in _LISTED)):
        Tree.SubElement(several, "property", name=name, value=writable(value))


def _cases(suite: Tree.Element, one: Judged) -> None:
    if one.error is not None:
        case = _case(suite, one, "input")
        first = next(iter(one.error.problems), None)
        _say(case, "error", str(one.error), type=BAD_INPUT, message=str(first or one.error))
    for verdict in one.verdicts:
        case = _case(suite, one, f"{verdict.check} {verdict.title}")
        if verdict.verdict == VIOLATED:
            _say(case, "failure", _found(one, verdict), type=VIOLATED, message=counted(verdict))
        elif verdict.verdict == NOT_CHECKED:
            _say(case, "skipped", message=verdict.reason)
        elif verdict.verdict == ALLOWED:
            _say(case, "system-out", _found(one, verdict))
        else:
            _say(case, "system-out", f"{verdict.verdict}: {verdict.reason}")


def _case(suite: Tree.Element, one: Judged, name: str) -> Tree.Element:
    return Tree.SubElement(
        suite, "testcase", classname=writable(one.path.name), name=writable(name)
    )


def _say(case: Tree.Element, kind: str, text: str = "", **attributes: str) -> None:
    said = {name: writable(value) for name, value in attributes.items()}
    Tree.SubElement(case, kind, said).text = writable(text) or None


def _found(one: Judged, verdict: Verdict) -> str:
    """The text of a failure: the count, the promise, and the first few witnesses against it."""
    lines = [counted(verdict), CHECKS[verdict.check].formula]
    assert one.run is not None
    for number, (_, events) in enumerate(islice(verdict.witnesses, _WITNESSES), 1):
        lines += ["", f"witness {number} of {verdict.count}"]
        lines += [f"  {event_line(event(one.run, row))}" for row in events]
    return "\n".join(lines)


def _count(suite: Tree.Element) -> None:
    """Write how many cases there are of each kind, whether below a suite or below all of them."""
    suite.set("tests", str(sum(1 for _ in suite.iter("testcase"))))
    for plural, kind in _COUNTED.items():
        suite.set(plural, str(sum(1 for _ in suite.iter(kind))))
