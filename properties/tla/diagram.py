"""Draw a counterexample as a sequence diagram: time runs down, a row for each step."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import drawsvg  # pyright: ignore[reportMissingTypeStubs]
from attrs import frozen

from properties.tla.checker import CounterexampleStep, Outcome
from properties.tla.story import EntryChange, ending, heading, scenes
from properties.tla.values import ModelValue, Value, order
from properties.tla.verdicts import Diagram

_MARGIN = 24
_HEAD = 92
_NUMBER = 30
_LANE_LEAST = 190
_LETTER = 7
_NOTES = 580
_NOTE_CHARACTERS = 76
_CONTINUED = 18
_LINE = 16
_ROW_LEAST = 46
_SANS = "Helvetica, Arial, sans-serif"
_MONO = "Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_INK, _QUIET, _LIGHT, _ACCENT, _WRONG = "#1f2933", "#66727f", "#d5dbe1", "#1d5fa8", "#b3261e"


@frozen
class Lifeline:
    """A participant: `replica 2`, or the one in the center."""

    kind: str
    value: Value = None

    @property
    def title(self) -> str:
        if self.value is None:
            return self.kind
        name = self.value.name if isinstance(self.value, ModelValue) else str(self.value)
        return f"{self.kind} {name}"


@frozen
class DiagramStep:
    """One step: its participants, in order, and its changes."""

    step: CounterexampleStep
    parties: tuple[Lifeline, ...]
    notes: tuple[tuple[int, str], ...]
    """Lines of text, each with its indent."""

    @property
    def height(self) -> int:
        return max(_ROW_LEAST, _LINE * len(self.notes) + 18)


def rows(outcome: Outcome, hints: Diagram) -> list[DiagramStep]:
    return [
        DiagramStep(step, parties(step, hints), tuple(_wrapped(changes)))
        for step, changes in scenes(outcome)
    ]


def parties(step: CounterexampleStep, hints: Diagram) -> tuple[Lifeline, ...]:
    """The parties of a step: those of its arguments, after the center if the action is its own."""
    named = [
        Lifeline(hints.lifelines[name], value)
        for name, value in (step.params or {}).items()
        if name in hints.lifelines
    ]
    if hints.center and (not named or step.action in hints.center_actions):
        named.insert(0, Lifeline(hints.center))
    return tuple(dict.fromkeys(named))


def lanes(drawn: Sequence[DiagramStep], hints: Diagram) -> list[Lifeline]:
    """The lifelines from left to right, the center first."""
    seen = {party for row in drawn for party in row.parties}
    return sorted(seen, key=lambda who: (who.kind != hints.center, who.kind, order(who.value or 0)))


def draw(title: str, outcome: Outcome, hints: Diagram) -> str:
    """The diagram as SVG text; the same counterexample gives the same bytes."""
    drawn = rows(outcome, hints)
    columns = lanes(drawn, hints)
    lane = max([_LANE_LEAST, *(_LETTER * len(heading(row.step)) + 30 for row in drawn)])
    at = {who: _MARGIN + _NUMBER + lane // 2 + i * lane for i, who in enumerate(columns)}
    notes_x = _MARGIN + _NUMBER + len(columns) * lane + 16
    foot = _HEAD + sum(row.height for row in drawn)
    canvas = drawsvg.Drawing(notes_x + _NOTES + _MARGIN, foot + 64, id_prefix="d")
    _put(canvas, drawsvg.Rectangle(0, 0, "100%", "100%", fill="white"))
    _text(canvas, title, _MARGIN, 32, 17, weight="bold")
    for who, x in at.items():
        _lifeline(canvas, who, x, foot)
    y = _HEAD
    for number, row in enumerate(drawn, start=1):
        _draw_row(canvas, number, row, y, at, notes_x)
        y += row.height
    _text(canvas, ending(outcome), _MARGIN, foot + 40, 15, colour=_WRONG, weight="bold")
    return canvas.as_svg() or ""  # pyright: ignore[reportUnknownMemberType]


def _lifeline(canvas: drawsvg.Drawing, who: Lifeline, x: int, foot: int) -> None:
    _put(canvas, drawsvg.Line(x, _HEAD - 8, x, foot + 10, stroke=_LIGHT, stroke_width=2))
    box = drawsvg.Rectangle(x - 62, _HEAD - 40, 124, 28, rx=5, fill="#eef3f8", stroke=_ACCENT)
    _put(canvas, box)
    _text(canvas, who.title, x, _HEAD - 21, 13, anchor="middle", weight="bold")


def _draw_row(
    canvas: drawsvg.Drawing,
    number: int,
    row: DiagramStep,
    y: int,
    at: dict[Lifeline, int],
    notes_x: int,
) -> None:
    if number % 2 == 0:
        band = drawsvg.Rectangle(0, y, "100%", row.height, fill="#7b8794", fill_opacity=0.06)
        _put(canvas, band)
    middle = y + 26
    _text(canvas, str(number), _MARGIN + 14, middle + 5, 13, colour=_QUIET, anchor="end")
    label = heading(row.step)
    if len(row.parties) > 1:
        _arrows(canvas, label, [at[who] for who in row.parties], middle)
    else:
        x = at[row.parties[0]] if row.parties else _MARGIN + _NUMBER + 80
        _box(canvas, label, x, middle)
    for i, (indent, note) in enumerate(row.notes):
        _text(canvas, note, notes_x + indent, y + 22 + _LINE * i, 12, font=_MONO)


def _box(canvas: drawsvg.Drawing, label: str, x: int, y: int) -> None:
    width = max(70, _LETTER * len(label) + 18)
    box = drawsvg.Rectangle(
        x - width / 2, y - 13, width, 26, rx=13, fill="white", stroke=_INK, stroke_width=1
    )
    _put(canvas, box)
    _text(canvas, label, x, y + 4, 12, anchor="middle")


def _arrows(canvas: drawsvg.Drawing, label: str, stations: Sequence[int], y: int) -> None:
    """An arrow from the first to each other, labelled above the first stretch."""
    start, *ends = stations
    for end in ends:
        direction = 1 if end > start else -1
        _put(
            canvas,
            drawsvg.Line(
                start, y + 6, end - 7 * direction, y + 6, stroke=_ACCENT, stroke_width=1.6
            ),
        )
        head = (end, y + 6, end - 9 * direction, y + 1, end - 9 * direction, y + 11)
        _put(canvas, drawsvg.Lines(*head, close=True, fill=_ACCENT))
    _put(canvas, drawsvg.Circle(start, y + 6, 3.5, fill=_ACCENT))
    middle = (min(stations) + max(stations)) / 2
    _text(canvas, label, middle, y - 2, 12, anchor="middle", halo=True)


def _put(canvas: drawsvg.Drawing, element: drawsvg.DrawingElement) -> None:
    """drawsvg's `append`, whose optional argument has no type."""
    canvas.append(element)  # pyright: ignore[reportUnknownMemberType]


def _text(
    canvas: drawsvg.Drawing,
    text: str,
    x: float,
    y: float,
    size: int,
    *,
    colour: str = _INK,
    anchor: str = "start",
    weight: str = "normal",
    font: str = _SANS,
    halo: bool = False,
) -> None:
    style: dict[str, Any] = {"font_family": font, "font_weight": weight, "text_anchor": anchor}
    if halo:
        outline = {"stroke": "white", "stroke_width": 4, "stroke_linejoin": "round"}
        _put(canvas, drawsvg.Text(text, size, x, y, fill="white", **outline, **style))
    _put(canvas, drawsvg.Text(text, size, x, y, fill=colour, **style))


def _wrapped(changes: Sequence[EntryChange]) -> Iterator[tuple[int, str]]:
    for change in changes or [EntryChange("", "(nothing changes)")]:
        first, *more = textwrap.wrap(str(change), _NOTE_CHARACTERS, break_on_hyphens=False)
        yield 0, first
        yield from ((_CONTINUED, line) for line in more)
