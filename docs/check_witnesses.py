"""A witness of each check, as lines and as a drawing that stands alone.

It is that of the small trace which `traces/generate/small` makes for the check, found by the check
itself when the page is built; the drawing is the one of the HTML report.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

import traces.html
from tests.traces.fixture import fixture
from tests.traces.judging import judged_lines
from tests.traces.small import trace
from tests.traces.stories import story
from traces.generate.small import IN_CALLS, NotHere, injected
from traces.html.sequence import draw, instants
from traces.html.svg import alone
from traces.verdicts.judged import Judged, event, event_line
from traces.verdicts.verdict import NOT_CHECKED, Verdict

_CSS = Path(traces.html.__file__).with_name("templates") / "page.css"
_LANE_MOST = 240
_FONT = "text { font-family: system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif }"


@frozen
class Found:
    """A check's finding: the events of its first witness."""

    check: str
    lines: list[str]
    svg: str


def witnesses() -> Iterator[Found]:
    """For each check a witness, of the first injected fault that it finds."""
    style, found = _style(), set[str]()
    for name, anomaly in IN_CALLS.items():
        wanted = (anomaly.must | anomaly.allowed | anomaly.may) - found
        for verdict, one in _with_fault(name) if wanted else ():
            if verdict.check in wanted and verdict.witnesses and verdict.verdict != NOT_CHECKED:
                found.add(verdict.check)
                yield _found(verdict, one, style)
    for verdict, one in _of_a_topic_made_again():
        if verdict.check == "A1":
            yield _found(verdict, one, style)


def _with_fault(name: str) -> Iterator[tuple[Verdict, Judged]]:
    for seed in range(100):
        try:
            lines, meta = injected(fixture(seed, steps=6), IN_CALLS[name])
        except NotHere:
            continue
        with TemporaryDirectory() as folder:
            one = judged_lines(Path(folder), lines, meta)
        yield from ((verdict, one) for verdict in one.verdicts)
        return


def _of_a_topic_made_again() -> Iterator[tuple[Verdict, Judged]]:
    """No small fixture deletes a topic."""
    lives = {"OLD": 'topic_ids={"t":"old"}', "NEW": 'topic_ids={"t":"new"}'}
    calls = story("p0 send 1@0 OLD; p0 send 2@0 NEW; scan 2@0 1@1 end=2 NEW", **lives)
    lines, meta = trace(*calls)
    with TemporaryDirectory() as folder:
        one = judged_lines(Path(folder), lines, meta)
    yield from ((verdict, one) for verdict in one.verdicts)


def _found(verdict: Verdict, one: Judged, style: str) -> Found:
    assert one.run is not None
    _, rows = verdict.witnesses[0]
    events = [event(one.run, row) for row in rows]
    order = dict.fromkeys(instants(events), "")  # the times are made up, their order is not
    label = f"A violation of {verdict.check} as a sequence diagram"
    svg = alone(draw(events, order, verdict.check, label, lane_most=_LANE_MOST), label, style)
    return Found(verdict.check, [event_line(one) for one in events], svg)


def _style() -> str:
    """The rules of the report for a diagram, in its light colours.

    A page that shows the drawing gives it neither variables nor a background.
    """
    css = _CSS.read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", css[: css.index("@media")]))
    rules = css[css.index(".life {") : css.index("\nfooter {")].split("\n")
    kept = "\n".join([_FONT, *filter(None, rules)])
    return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], kept)
