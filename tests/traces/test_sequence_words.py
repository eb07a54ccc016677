"""The words of a sequence diagram stand between its lines and cross none."""

from typing import Any
from xml.etree import ElementTree as Tree

import pytest

from traces.html.sequence import draw, instants

_LETTER = 6.6


def call(process: str, seq: int, op: str, at: int, **more: Any) -> dict[str, Any]:
    times = {"invoked_ns": at, "returned_ns": at + 5}
    return {"process": process, "seq": seq, "op": op, "outcome": "ok", **times, **more}


LONG = "an-id-of-an-application-that-is-longer-than-anybody-can-read-in-a-drawing"
SEVERAL = [
    [call(f"c{n}#0", n, "poll", 10 * n, partition="t:0", offset=n, id=LONG) for n in range(3)],
    [
        call("p0#0", 0, "send", 0, partition="orders:0", offset=1, id=1093093443397222401),
        call("c0#0", 1, "process", 10, partition="orders:0", offset=1, id=LONG),
        call("c1#0", 2, "assigned", 20, group="billing", partition="orders:0", generation=3),
        {**call("p0#0", 3, "send", 30, partition="orders:1", id=2), "outcome": "info"},
    ],
]


@pytest.mark.parametrize("events", SEVERAL)
def test_words_cross_no_line(events: list[dict[str, Any]]) -> None:
    drawn = Tree.fromstring(draw(events, {ns: f"{ns} s" for ns in instants(events)}, "p", "label"))
    every = list(drawn.iter())
    lines = {float(e.get("d", "").split()[0][1:].split(",")[0]) for e in of(every, "life")}
    assert len(lines) >= 3
    words = of(every, "word")
    assert len(words) >= 6
    for word in words:
        middle, half = float(word.get("x", "")), _LETTER * len(word.text or "") / 2
        assert not [x for x in lines if middle - half < x < middle + half], word.text


def of(elements: list[Tree.Element], kind: str) -> list[Tree.Element]:
    return [element for element in elements if element.get("class") == kind]
