"""One plot over the time of a run: axes, units, faults and marks, drawn by matplotlib as SVG."""

import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import matplotlib as _matplotlib
import numpy as np
from attrs import define, field, frozen
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from traces.html.picture import Picture
from traces.html.svg import BAD, FAULT, GRID, INK, QUIET, WARN, inline
from traces.model.output import writable

WIDE, PANEL = 1000, 330
LEFT = 108  # of wide plots: their times stand below each other
# Half of the types of its functions are unknown.
matplotlib: Any = _matplotlib

_SETTINGS = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same measures on every machine
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "highwater",
    "path.simplify": False,
    "text.parse_math": False,  # a name may hold dollars
}
_STEPS = [1, 2, 5, 10]
_UNITS = (
    (2 * 3600e9, 3600e9, "h"),
    (600e9, 60e9, "min"),
    (1e9, 1e9, "s"),
    (1e6, 1e6, "ms"),
    (1e3, 1e3, "µs"),
)


@frozen
class Mark:
    """An event of a witness, for the plots."""

    at_ns: int
    key: tuple[int, int]
    offset: int
    op: int
    group: int
    violated: bool
    tip: str
    href: str


@frozen
class NumberedFault:
    """Something that was done on purpose; its number is the one it has in the list of them."""

    number: int
    at_ns: int
    what: str
    until_ns: int | None = None  # when it was undone, if that is told


@frozen
class Clock:
    """The time axis that all plots of a run share."""

    picture: Picture
    faults: Sequence[NumberedFault] = ()

    @property
    def span(self) -> int:
        return self.picture.end - self.picture.start

    @property
    def comparable(self) -> bool:
        """True if there are times, and all of one clock."""
        return self.span > 0 and self.picture.clocks == 1

    @property
    def unit(self) -> tuple[float, str]:
        """The unit of the time axis: its nanoseconds, and its name."""
        return next(((ns, name) for least, ns, name in _UNITS if self.span >= least), (1.0, "ns"))

    def at(self, ns: "float | np.ndarray") -> "float | np.ndarray":
        """A time as a place on the axis."""
        return (ns - self.picture.start) / self.unit[0]

    def bins(self, number: int) -> np.ndarray:
        """The middle of each bin."""
        return (np.arange(number) + 0.5) * self.span / number / self.unit[0]

    def spoken(self, ns: int, digits: int = 2) -> str:
        """A time as the reader finds it on the axis."""
        return f"{self.at(ns):,.{digits}f}\N{NO-BREAK SPACE}{self.unit[1]}"

    def when(self, fault: NumberedFault) -> str:
        """When a fault was made, and undone."""
        if fault.until_ns is None:
            return f"at {self.spoken(fault.at_ns)}"
        return f"from {self.spoken(fault.at_ns)} to {self.spoken(fault.until_ns)}"

    def distinct(self, instants: Iterable[int]) -> dict[int, str]:
        """Times in as many digits as it takes to see that they are different."""
        several = sorted(set(instants))
        for digits in (2, 3, 4, 6, 9):
            words = {ns: self.spoken(ns, digits) for ns in several}
            if len(set(words.values())) == len(several):
                break
        return words


@define
class Canvas:
    """A figure of one plot, its size in the units of its view box."""

    clock: Clock
    width: int = PANEL
    height: int = 190
    left: int = 52
    top: int = 12
    axes: Any = field(init=False)  # half of the types of its methods are unknown
    notes: dict[str, tuple[str, str]] = field(factory=dict[str, tuple[str, str]])
    _figure: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        with matplotlib.rc_context(_SETTINGS):
            self._figure = Figure(figsize=(self.width / 72, self.height / 72), facecolor="none")
            across, up = self.width - self.left - 14, self.height - self.top - 30
            position = (
                self.left / self.width,
                30 / self.height,
                across / self.width,
                up / self.height,
            )
            self.axes = self._figure.add_axes(position, facecolor="none")
            self._style()

    def _style(self) -> None:
        axes, (_, unit) = self.axes, self.clock.unit
        axes.set_xlim(0, float(self.clock.at(self.clock.picture.end)))
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(colors=QUIET, labelcolor=QUIET, labelsize=10, length=0, pad=5)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(QUIET)
        axes.xaxis.set_major_locator(MaxNLocator(5 if self.width < WIDE else 12, steps=_STEPS))
        axes.xaxis.set_major_formatter(_formatter(lambda value: f"{value:g} {unit}"))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True, steps=_STEPS))
        axes.yaxis.set_major_formatter(_formatter(short))

    def draw_faults(self) -> None:
        """A dashed line where each fault was made; in wide plots with its number.

        Of a great many the lines are faint, because it is not them that one wants to see.
        """
        faint = 0.35 if len(self.clock.faults) > 40 else 1.0
        numbered = list[NumberedFault]()
        for fault in self.clock.faults:
            x = float(self.clock.at(fault.at_ns))
            if not 0 <= x <= self.axes.get_xlim()[1]:
                continue
            id = f"fault-{fault.number}"
            if fault.until_ns is not None:
                end = min(float(self.clock.at(fault.until_ns)), self.axes.get_xlim()[1])
                self.axes.axvspan(x, max(end, x), color=FAULT, alpha=0.12, linewidth=0, zorder=0)
            width, dashes = (1, (3, 3)) if self.width >= WIDE else (0.7, (2, 4))
            self.axes.axvline(
                x,
                color=FAULT,
                linewidth=width,
                linestyle=(0, dashes),
                alpha=faint,
                gid=id,
                zorder=1,
            )
            self.notes[id] = f"{fault.number}: {fault.what} {self.clock.when(fault)}", ""
            numbered.append(fault)
        if self.width >= WIDE:
            self._number(numbered)

    def _number(self, faults: Sequence[NumberedFault]) -> None:
        """Write numbers above the lines; those that would overlap are joined to a range."""
        room = 0.045 * self.axes.get_xlim()[1]
        bunches = list[list[NumberedFault]]()
        for fault in sorted(faults, key=lambda one: one.at_ns):
            x = float(self.clock.at(fault.at_ns))
            if bunches and x - float(self.clock.at(bunches[-1][0].at_ns)) < room:
                bunches[-1].append(fault)
            else:
                bunches.append([fault])
        for bunch in bunches:
            first, last = bunch[0], bunch[-1]
            text = str(first.number) if first is last else f"{first.number}–{last.number}"
            position = float(self.clock.at(first.at_ns)), 1.0
            self.axes.annotate(
                text,
                position,
                xycoords=("data", "axes fraction"),
                xytext=(0, 4),
                textcoords="offset points",
                ha="center",
                color=QUIET,
                fontsize=9,
            )

    def draw_marks(self, marks: Sequence[Mark], *, on_top: bool = False) -> None:
        """Events of witnesses, where they are or (in a plot without offsets) along the top."""
        for number, mark in enumerate(marks):
            colour, id = BAD if mark.violated else WARN, f"mark-{number}"
            x = float(self.clock.at(mark.at_ns))
            if not 0 <= x <= self.axes.get_xlim()[1]:
                continue
            top = self.axes.get_xaxis_transform()
            self.axes.plot(
                [x],
                [0.97 if on_top else mark.offset],
                marker="v" if on_top else "o",
                markersize=7,
                markerfacecolor=colour if on_top else "none",
                markeredgecolor=colour,
                markeredgewidth=1.6,
                linestyle="none",
                gid=id,
                zorder=9,
                clip_on=False,
                **({"transform": top} if on_top else {}),
            )
            self.notes[id] = mark.tip, mark.href

    def powers_of_ten(self, unit: str) -> None:
        """Values upwards on a scale of powers of ten."""
        with matplotlib.rc_context(_SETTINGS):
            self.axes.set_yscale("log")
            self.axes.yaxis.set_major_formatter(_formatter(lambda value: f"{value:g} {unit}"))
            self.axes.yaxis.set_minor_locator(NullLocator())

    def text(self, x: float, y: float, words: str, **style: str | float) -> None:
        """Words at a place of the plot."""
        with matplotlib.rc_context(_SETTINGS):
            self.axes.text(x, y, writable(words), **({"color": INK, "fontsize": 10} | style))

    def name_rows(self, at: Iterable[float], names: Iterable[str]) -> None:
        """Names beside the rows of a plot."""
        # Each new label asks the settings whether dollars in it mean a formula.
        with matplotlib.rc_context(_SETTINGS):
            self.axes.set_yticks(list(at), [writable(name) for name in names])

    def svg(self, prefix: str, label: str) -> str:
        """The finished plot."""
        out = io.StringIO()
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            # The page's reader has the glyphs that the font for measuring lacks.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            self._figure.savefig(out, format="svg", metadata={"Date": None}, facecolor="none")
        notes = {id: (writable(tip), href) for id, (tip, href) in self.notes.items()}
        return inline(out.getvalue(), prefix, writable(label), notes)


def fitted(name: str, characters: int) -> str:
    """A partition's name in this room: its number stays, and its topic is cut."""
    topic, _, partition = name.rpartition(":")
    room = max(characters - len(partition) - 2, 1)
    return name if len(name) <= characters else f"{topic[:room]}…:{partition}"


def _formatter(words: Callable[[float], str]) -> FuncFormatter:
    def label(value: float, _: int) -> str:
        return words(value)

    return FuncFormatter(label)


def short(value: float) -> str:
    """A count in few characters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}"
    return f"{value:,g}"
