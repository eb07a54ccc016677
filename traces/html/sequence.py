"""Draw a witness as a sequence diagram: time runs down, a row for each call and each return."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import drawsvg  # pyright: ignore[reportMissingTypeStubs]
from attrs import define, field, frozen

from traces.html.svg import inline
from traces.model.output import writable

_MARGIN, _HEAD, _ROW = 8, 58, 38
_LANE_LEAST, _LANE_MOST, _LETTER = 84, 300, 6.6
_LEGIBLE = 0.7  # of its size, a drawing can be read; a telephone shows less of a wider one
_NAME_LONGEST = 34
_ARROW_END = 18  # the bar of a call, and the head of an arrow
_BESIDE = 14  # from a client's line to words about what it does alone
_UNANSWERED = "no answer: nobody knows"

# What a call asks and what its answer says; `{}` are fields of the event.
_WORDS: Mapping[str, tuple[str, str]] = {
    "send": ("send id {id}", "offset {offset}"),
    "poll": ("poll", "offset {offset}: id {id}"),
    "scan": ("read everything", "offset {offset}: id {id}"),
    "scan_end": ("read everything", "end of the log: {offset}"),
    "commit": ("commit {offset}", "committed"),
    "committed": ("committed offset?", "{offset}"),
    "earliest": ("earliest offset?", "{offset}"),
    "latest": ("latest offset?", "{offset}"),
    "list_offsets": ("offset by time?", "{offset}"),
    "mark": ("poll", "high watermark {offset}"),
    "log_start": ("poll", "log start {offset}"),
    "last_stable": ("poll", "last stable offset {offset}"),
    "acquire": ("acquire", "offset {offset}: id {id}"),
    "waited": ("acquire", "nothing"),
    "acknowledge": ("acknowledge offset {offset}", "acknowledged"),
    "delete_records": ("delete records below {offset}", "deleted"),
    "dump": ("read a replica's log", "offset {offset}: id {id}"),
    "marker": ("read a replica's log", "marker at offset {offset}"),
    "dump_end": ("read a replica's log", "end of the log: {offset}"),
    "reset": ("move to offset {offset}", ""),
    "seek": ("seek offset {offset}", ""),
    "assign": ("assign {partition}", ""),
    "assigned": ("", "assigned {partition}, generation {generation}"),
    "revoked": ("", "revoked {partition}, generation {generation}"),
    "lost": ("", "lost {partition}, generation {generation}"),
    "process": ("process offset {offset}: id {id}", "done"),
    "txn_begin": ("begin transaction", "begun"),
    "txn_offsets": ("add offsets to transaction", "added"),
    "txn_commit": ("commit transaction", "committed"),
    "txn_abort": ("abort transaction", "aborted"),
    "init_producer": ("init producer", "ready"),
}
_LOG = {
    *("send", "poll", "scan", "scan_end", "earliest", "latest", "list_offsets", "mark"),
    *("log_start", "last_stable", "acquire", "waited", "acknowledge", "delete_records"),
    *("dump", "marker", "dump_end"),
}
_GROUP = {"commit", "committed", "assigned", "revoked", "lost"}
_COORDINATOR = {"init_producer", "txn_begin", "txn_offsets", "txn_commit", "txn_abort"}


class _Blanks(dict[str, Any]):
    """Fields of an event; one that is not known is shown as such."""

    def __missing__(self, key: str) -> str:
        return "?"


@define
class DrawnCall:
    """One call of a client, with all events of the witness that belong to it."""

    client: str
    target: str
    begun: int | None
    ended: int | None
    outcome: str
    asks: list[str] = field(factory=list[str])
    answers: list[str] = field(factory=list[str])


@frozen
class Moment:
    """One row of the diagram: a call is made, or returns."""

    call: DrawnCall
    at: int | None
    returns: bool


def calls(events: Sequence[Mapping[str, Any]]) -> list[DrawnCall]:
    """The calls behind the events; two records of one poll are one call."""
    found: dict[tuple[Any, ...], DrawnCall] = {}
    for event in events:
        key = event["process"], event["seq"], target(event)
        call = found.get(key)
        if call is None:
            call = found[key] = DrawnCall(
                client=event["process"],
                target=target(event),
                begun=event.get("invoked_ns"),
                ended=event.get("returned_ns"),
                outcome=event["outcome"],
            )
        asks, answer = _WORDS.get(event["op"], (event["op"].replace("_", " "), ""))
        for words, to in ((asks, call.asks), (answer, call.answers)):
            said = words.format_map(_Blanks(event))
            if said and said not in to:
                to.append(said)
    return list(found.values())


def target(event: Mapping[str, Any]) -> str:
    """Whom a call talks to: a partition, a group, a coordinator, or nobody."""
    if event["op"] in _GROUP:
        return f"group {event['group']}" if "group" in event else "group"
    if event["op"] in _COORDINATOR:
        return "transactions"
    if event["op"] in _LOG and "partition" in event:
        return event["partition"]
    return ""


def moments(made: Sequence[DrawnCall], *, comparable: bool) -> list[Moment]:
    """Calls and returns in the order of time, or as recorded if times do not compare."""
    rows: list[Moment] = []
    for call in made:
        if call.asks or call.begun is None or call.ended is None:
            rows.append(Moment(call, call.begun, returns=False))
        if call.ended is not None or (call.outcome != "info" and call.begun is None):
            rows.append(Moment(call, call.ended, returns=True))
    if comparable and all(row.at is not None for row in rows):
        rows.sort(key=lambda row: row.at or 0)
    return rows


@define
class _Diagram:
    """The layout of a sequence diagram."""

    rows: list[Moment]
    at: dict[str, float]
    clients: set[str]
    times: list[str]
    left: float
    width: float
    step: float
    drawing: drawsvg.Drawing

    @property
    def foot(self) -> float:
        return _HEAD + _ROW * len(self.rows) + 20

    def while_open(self, call: DrawnCall) -> tuple[int, int]:
        """The rows from a call to its return, or to beyond the last one if there was none."""
        mine = [n for n, row in enumerate(self.rows) if row.call is call]
        returned = self.rows[mine[-1]].returns or call.outcome != "info"
        return mine[0], mine[-1] if returned else len(self.rows)

    def y(self, row: int) -> float:
        return _HEAD + _ROW * row + 26

    def put(self, element: drawsvg.DrawingElement) -> None:
        """drawsvg's `append`, whose optional argument has no type."""
        self.drawing.append(element)  # pyright: ignore[reportUnknownMemberType]

    def text(self, words: str, x: float, y: float, kind: str, anchor: str = "middle") -> None:
        self.put(drawsvg.Text(words, 12, x, y, class_=kind, text_anchor=anchor))

    def label(self, words: str, x: float, y: float, kind: str = "word") -> None:
        """Words around x, across what is drawn there, and never beyond the drawing."""
        half = _width(words) / 2
        x = max(min(x, self.width - _MARGIN - half), self.left + half)
        for layer in (f"{kind} halo", kind):
            self.text(words, x, y, layer)


def draw(
    events: Sequence[Mapping[str, Any]],
    times: Mapping[int, str],
    prefix: str,
    label: str,
    *,
    lane_most: float = _LANE_MOST,
    width_most: float | None = None,
) -> str:
    """Draw the witness as SVG; `times` are the words for the times that compare.

    Lanes are up to `lane_most` apart if the words between them are wide. Words are between two
    lines and cross none, and longer ones are cut short. The table of the events has them whole.
    With `width_most` the lanes are closer, and words are cut shorter, to keep the drawing narrow.
    """
    made = calls(events)
    rows = moments(made, comparable=bool(times))
    lanes = list(dict.fromkeys(row.call.client for row in rows))
    clients = set(lanes)
    lanes += sorted({call.target for call in made if call.target} - clients)
    words = [times.get(row.at, "") if row.at is not None else "" for row in rows]
    left = _MARGIN + max((_width(word) for word in words), default=0) + 4
    step = max([_LANE_LEAST, *(2 * _half(_named(lane, clients)) + 8 for lane in lanes)])
    if width_most is not None:
        lane_most = min(lane_most, (width_most - left - _MARGIN) / len(lanes))
    step = max(step, min(lane_most, max(map(_needed, rows), default=0)))
    at = {lane: left + step * (n + 0.5) for n, lane in enumerate(lanes)}
    beside = [at[row.call.client] + _needed(row) for row in rows if not row.call.target]
    right = max(left + max(step * len(lanes), _width(_UNANSWERED)), *beside, 0)
    if width_most is not None:
        right = max(left + step * len(lanes), min(right, width_most - _MARGIN))
    width, height = right + _MARGIN, _HEAD + _ROW * len(rows) + 34
    drawing = drawsvg.Drawing(width, height, id_prefix="q")
    diagram = _Diagram(rows, at, clients, words, left, width, step, drawing)
    for lane in lanes:
        _lifeline(diagram, lane)
    for n, call in enumerate(made):
        _activation(diagram, call, made[:n])
    for n in range(len(rows)):
        _row(diagram, n)
    text = drawing.as_svg() or ""  # pyright: ignore[reportUnknownMemberType]
    style = f"max-width:{width:.0f}px;min-width:{width * _LEGIBLE:.0f}px"
    return inline(text, prefix, label, style=style)


def _needed(row: Moment) -> float:
    """The distance between two lanes at which the words of a row fit between them."""
    around = 2 * _ARROW_END if row.call.target else _BESIDE + _MARGIN
    return _width(_words(row)) + around


def _words(row: Moment) -> str:
    """The words of a call or its return; if nobody answered, they say so."""
    words = writable(", ".join(_said(row)))
    if row.returns and row.call.outcome == "info":
        return f"{words.removesuffix('?')}?" if words else "nobody knows"
    return words


def _said(row: Moment) -> list[str]:
    call = row.call
    if not row.returns:
        return call.asks
    return [_refusal(call)] if call.outcome == "fail" else call.answers


def _refusal(call: DrawnCall) -> str:
    return "refused" if call.outcome == "fail" else ""


def _cut(words: str, room: float) -> str:
    """As much of the words as there is room for."""
    fits = int(room / _LETTER)
    return words if len(words) <= fits else f"{words[: max(fits - 1, 1)]}…"


def _width(words: str) -> float:
    return _LETTER * len(words)


def _named(lane: str, clients: set[str]) -> str:
    label = f"process {lane}" if lane in clients and lane.isdecimal() else lane
    return writable(label if len(label) <= _NAME_LONGEST else f"{label[: _NAME_LONGEST - 1]}…")


def _half(name: str) -> float:
    """Half of the width of a box with this name, in bold letters."""
    return max(_width(name) * 1.2 / 2 + 6, 38)


def _lifeline(d: _Diagram, lane: str) -> None:
    x, name = d.at[lane], _named(lane, d.clients)
    d.put(drawsvg.Line(x, _HEAD - 12, x, d.foot, class_="life"))
    half, kind = _half(name), "client" if lane in d.clients else "server"
    d.put(
        drawsvg.Rectangle(x - half, 12, 2 * half, 28, rx=6 if kind == "client" else 0, class_=kind)
    )
    d.text(name, x, 31, "name")


def _activation(d: _Diagram, call: DrawnCall, before: Sequence[DrawnCall]) -> None:
    """A bar on the client's line while the call is open; an open end where nobody answered."""
    first, last = d.while_open(call)
    others = [d.while_open(one) for one in before if one.client == call.client]
    depth = sum(begin <= last and first <= end for begin, end in others)
    x, top = d.at[call.client] - 5 + 4 * depth, d.y(first) - 6
    answered = last < len(d.rows)
    bottom = d.y(last) + 6 if answered else d.foot - 6
    kind = "open" if answered else "open unanswered"
    d.put(drawsvg.Rectangle(x, top, 10, bottom - top, rx=3, class_=kind))
    if not answered and call.outcome == "info":
        d.label(_UNANSWERED, x + 16 + _width(_UNANSWERED) / 2, d.foot + 8, "unknown")


def _row(d: _Diagram, number: int) -> None:
    row, y = d.rows[number], d.y(number)
    call = row.call
    client = d.at[call.client]
    if d.times[number]:
        d.text(d.times[number], d.left - 6, y + 4, "time", "end")
    words = _words(row)
    if not call.target:
        last = client + d.step > d.width
        room = d.width - client if last else d.step
        words = _cut(words, room - _BESIDE - _MARGIN)
        d.label(words, client + _BESIDE + _width(words) / 2, y + 4)
        return
    server = d.at[call.target]
    start, end = (server, client) if row.returns else (client, server)
    kind = "refusal" if row.returns and call.outcome == "fail" else "arrow"
    _arrow(d, start, end, y, kind + (" answer" if row.returns else ""))
    towards = 1 if server > client else -1
    words = _cut(words, d.step - 2 * _ARROW_END)
    d.label(words, client + towards * d.step / 2, y - 6)


def _arrow(d: _Diagram, start: float, end: float, y: float, kind: str) -> None:
    towards = 1 if end > start else -1
    tip = end - 6 * towards
    d.put(drawsvg.Line(start + 6 * towards, y, tip - 6 * towards, y, class_=kind))
    head = (tip, y, tip - 9 * towards, y - 4.5, tip - 9 * towards, y + 4.5)
    d.put(drawsvg.Lines(*head, close=True, class_=f"{kind} head"))


def instants(events: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """All times that a diagram of these events shows."""
    for event in events:
        yield from (event[name] for name in ("invoked_ns", "returned_ns") if name in event)
