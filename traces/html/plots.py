"""The plots of a run: lag, unseen records, offsets, ownership and commits."""

from collections.abc import Iterable, Sequence

import numpy as np

from traces.html.activity import Activity, Busy
from traces.html.canvas import LEFT, WIDE, Canvas, Clock, Mark, fitted
from traces.html.ownership import Owned
from traces.html.picture import GroupPicture, PartitionTimeline
from traces.html.series import BINS, CELLS, OffsetRanges, Steps, TopicPartition
from traces.html.svg import BAD, COMMIT, INK, PAPER, QUIET, READ, SEND, SERIES
from traces.model.schema import Op

ROWS = 24  # of an ownership timeline
BARS = 1_200  # of one, too
_GAP = 0.25  # between partitions, in bars
_FEW = 80
Members = dict[int, tuple[str, str, int]]
LATENCIES = SERIES[0], SERIES[1], QUIET  # the median, 99 of 100, the highest
_LINES = 8  # curves that can be told apart in one plot


def lag_plot(
    clock: Clock,
    group: GroupPicture,
    names: dict[TopicPartition, str],
    marks: Sequence[Mark],
    prefix: str,
) -> str:
    """Plot a group's lag: all partitions together, and the worst of them."""
    canvas = Canvas(clock, WIDE, 250, left=LEFT, top=26)
    canvas.draw_faults()
    x = clock.bins(BINS)
    total = np.nansum(np.array(list(group.lag.values())), axis=0)
    worst = sorted(group.lag, key=lambda key: (-np.nanmax(np.nan_to_num(group.lag[key])), key))
    for n, key in enumerate(sorted(worst[: _LINES if len(worst) > 1 else 0])):
        canvas.axes.plot(x, group.lag[key], color=SERIES[n], linewidth=1.3, drawstyle="steps-post")
    canvas.axes.fill_between(x, total, color=INK, alpha=0.07, linewidth=0, step="post")
    canvas.axes.plot(x, total, color=INK, linewidth=1.6, drawstyle="steps-post")
    canvas.axes.set_ylim(0, _headroom(total))
    canvas.draw_marks(marks, on_top=True)
    return canvas.svg(prefix, "Consumer lag over time")


def lag_legend(group: GroupPicture, names: dict[TopicPartition, str]) -> list[tuple[str, str]]:
    """The legend of the lag plot: each curve's colour and name."""
    worst = sorted(group.lag, key=lambda key: (-np.nanmax(np.nan_to_num(group.lag[key])), key))
    shown = sorted(worst[: _LINES if len(worst) > 1 else 0])
    return [("ink", "all partitions")] + [(f"series-{n}", names[k]) for n, k in enumerate(shown)]


def unseen_plot(
    clock: Clock, partitions: Iterable[PartitionTimeline], marks: Sequence[Mark], prefix: str
) -> str:
    """Records that were acknowledged and that nobody had read yet."""
    canvas = Canvas(clock, WIDE, 200, left=LEFT, top=26)
    canvas.draw_faults()
    x, total = clock.bins(BINS), np.sum([one.unseen for one in partitions], axis=0)
    canvas.axes.fill_between(x, total, color=SEND, alpha=0.15, linewidth=0, step="post")
    canvas.axes.plot(x, total, color=SEND, linewidth=1.6, drawstyle="steps-post")
    canvas.axes.set_ylim(0, _headroom(total))
    canvas.draw_marks(marks, on_top=True)
    return canvas.svg(prefix, "Unseen records over time")


def throughput_plot(clock: Clock, done: Activity, prefix: str) -> str:
    """Plot the records a second that were acknowledged, read, and not acknowledged."""
    canvas = Canvas(clock, WIDE, 200, left=LEFT, top=26)
    canvas.draw_faults()
    x = clock.bins(BINS)
    canvas.axes.fill_between(x, done.acknowledged, color=SEND, alpha=0.15, linewidth=0, step="mid")
    for curve, colour in ((done.acknowledged, SEND), (done.read, READ)):
        canvas.axes.plot(x, curve, color=colour, linewidth=1.4, drawstyle="steps-mid")
    if done.unacknowledged.any():
        canvas.axes.plot(x, done.unacknowledged, color=BAD, linewidth=1.4, drawstyle="steps-mid")
    canvas.axes.set_ylim(0, _headroom(np.maximum(done.acknowledged, done.read)))
    return canvas.svg(prefix, "Throughput over time")


def latency_plot(clock: Clock, done: Activity, prefix: str) -> str:
    """Plot the latency of sends, on a scale of powers of ten."""
    canvas = Canvas(clock, WIDE, 200, left=LEFT, top=26)
    canvas.draw_faults()
    x = clock.bins(BINS)
    for curve, colour, width in zip(done.latency, LATENCIES, (1.6, 1.2, 0.8), strict=True):
        canvas.axes.plot(
            x,
            np.maximum(curve, 1) / 1e6,  # a bin without answers leaves a gap
            color=colour,
            linewidth=width,
            marker=".",
            markersize=3,
        )
    canvas.powers_of_ten("ms")
    return canvas.svg(prefix, "Latency of sends over time")


def processes_plot(clock: Clock, busy: Sequence[Busy], names: Sequence[str], prefix: str) -> str:
    """When each process had a call under way, when one failed, and where it crashed."""
    canvas = Canvas(clock, WIDE, 72 + 20 * len(busy), left=LEFT, top=26)
    canvas.draw_faults()
    axes, cell = canvas.axes, canvas.axes.get_xlim()[1] / CELLS
    axes.set_ylim(len(busy), 0)
    canvas.name_rows([row + 0.5 for row in range(len(busy))], (name[:15] for name in names))
    axes.grid(visible=False, axis="y")
    for row, one in enumerate(busy):
        for ranges, colour, top, height in (
            (one.calls, SEND if one.sends else READ, 0.14, 0.72),
            (one.troubled, BAD, 0.66, 0.2),
        ):
            bars = [(start * cell, (end - start) * cell) for start, end in ranges]
            axes.broken_barh(bars, (row + top, height), facecolor=colour, linewidth=0, alpha=0.8)
        if one.crashed_at is not None:
            x = float(clock.at(one.crashed_at))
            axes.plot([x], [row + 0.5], marker="x", markersize=7, color=BAD, linestyle="none")
    return canvas.svg(prefix, "Calls of each process over time")


def offsets_panel(clock: Clock, one: PartitionTimeline, marks: Sequence[Mark], prefix: str) -> str:
    """Every send and every read of a partition, at its time and offset."""
    canvas = Canvas(clock)
    canvas.draw_faults()
    # A few records are dots, many become a line.
    bold = 2.5 if len(one.sends.at) + len(one.reads.at) < _FEW else 1.0
    _cells(canvas, one.sends, SEND, 3.5 * bold, 0.4)
    _cells(canvas, one.reads, READ, 1.5 * bold, 1.0)
    offsets = np.concatenate([one.sends.high, one.reads.high, [mark.offset for mark in marks], [0]])
    canvas.axes.set_ylim(-0.04 * max(offsets.max(), 1), 1.08 * max(offsets.max(), 1))
    canvas.draw_marks(marks)
    return canvas.svg(prefix, "Offsets against time")


def _cells(canvas: Canvas, spans: OffsetRanges, colour: str, width: float, alpha: float) -> None:
    """Draw each span as an upright stroke; one path for all of them keeps the page small.

    Reads are thin on top of broad sends, so that records sent and never read are visible.
    """
    if not len(spans.at):
        return
    x = canvas.clock.bins(CELLS)[spans.at]
    gap = np.full(len(x), np.nan)
    canvas.axes.plot(
        np.stack([x, x, gap], axis=1).ravel(),
        np.stack([spans.low, spans.high, gap], axis=1).ravel(),
        color=colour,
        linewidth=width,
        alpha=alpha,
        solid_capstyle="round",
    )


def commits_panel(
    clock: Clock, group: GroupPicture, one: PartitionTimeline, marks: Sequence[Mark], prefix: str
) -> str:
    """Plot a group's commits in a partition, below the end of its log."""
    canvas = Canvas(clock)
    canvas.draw_faults()
    canvas.axes.plot(clock.bins(BINS), one.end, color=QUIET, linewidth=1.2, alpha=0.8)
    _staircase(canvas, group.commits.get(one.key))
    refused = group.refused.get(one.key)
    if refused is not None:
        canvas.axes.plot(
            clock.at(refused.at),
            refused.value,
            marker="x",
            markersize=5,
            color=BAD,
            linestyle="none",
        )
    canvas.axes.set_ylim(bottom=0)
    canvas.draw_marks(marks)
    return canvas.svg(prefix, "Committed offsets over time")


def _staircase(canvas: Canvas, steps: Steps | None) -> None:
    if steps is None:
        return
    end = canvas.axes.get_xlim()[1]
    x = np.append(canvas.clock.at(steps.at), end)
    canvas.axes.plot(
        x,
        np.append(steps.value, steps.value[-1]),
        color=COMMIT,
        linewidth=1.6,
        drawstyle="steps-post",
    )


def ownership_plot(
    clock: Clock,
    owned: Sequence[Owned],
    rows: Sequence[TopicPartition],
    names: dict[TopicPartition, str],
    members: Members,
    prefix: str,
) -> tuple[str, int]:
    """Plot the owners of partitions and their generations; two owners at once are stacked.

    Of very many times of ownership the shortest are left out; their number is the second value.
    """
    drawn = [one for one in owned if (one.topic, one.partition) in names]
    left_out = max(len(drawn) - BARS, 0)
    drawn = sorted(drawn, key=lambda one: one.start - one.end)[:BARS]
    lanes = {
        key: lanes_of(one for one in drawn if (one.topic, one.partition) == key) for key in rows
    }
    depths = [1 + max((lane for _, lane in lanes[key]), default=0) for key in rows]
    tops = np.cumsum([0, *(depth + _GAP for depth in depths)])
    canvas = Canvas(clock, WIDE, 72 + round(22 * float(tops[-1])), left=LEFT, top=26)
    canvas.draw_faults()
    axes = canvas.axes
    axes.set_ylim(tops[-1], 0)
    middles = (tops[:-1] + tops[1:] - _GAP) / 2
    canvas.name_rows(middles, (fitted(names[key], 15) for key in rows))
    axes.grid(visible=False, axis="y")
    for row, key in enumerate(rows):
        for number, (one, lane) in enumerate(lanes[key]):
            _bar(canvas, one, float(tops[row]) + lane, members, f"{row}-{number}")
    return canvas.svg(prefix, "Ownership of partitions over time"), left_out


def _bar(
    canvas: Canvas,
    one: Owned,
    top: float,
    members: Members,
    number: str,
) -> None:
    clock, (name, _, colour) = canvas.clock, members[one.process]
    start, end = float(clock.at(one.start)), float(clock.at(one.end))
    least = canvas.axes.get_xlim()[1] / 800  # a moment still shows
    id = f"owned-{number}"
    canvas.axes.broken_barh(
        [(start, max(end - start, least))],
        (top + 0.08, 0.84),
        facecolor=SERIES[colour % len(SERIES)],
        edgecolor=PAPER,
        linewidth=0.8,
        alpha=0.85,
        gid=id,
    )
    generation = f" generation {one.generation}" if one.generation >= 0 else ""
    ending = f", {one.ending}" if one.ending else ""
    words = f"{name}{generation}: {clock.spoken(one.start)} to {clock.spoken(one.end)}{ending}"
    canvas.notes[id] = words, ""
    label = f"{name} g{one.generation}" if one.generation >= 0 else name
    if (end - start) / canvas.axes.get_xlim()[1] * 850 > 6.2 * len(label):
        canvas.text(
            (start + end) / 2,
            top + 0.5,
            label,
            color=PAPER,
            fontsize=9,
            ha="center",
            va="center",
        )


def lanes_of(owned: Iterable[Owned]) -> list[tuple[Owned, int]]:
    """A lane for each time of ownership, so that times that overlap do not hide each other."""
    free: list[int] = []
    out: list[tuple[Owned, int]] = []
    for one in sorted(owned, key=lambda x: (x.start, x.end)):
        lane = next((n for n, until in enumerate(free) if until <= one.start), len(free))
        free[lane : lane + 1] = [one.end]
        out.append((one, lane))
    return out


def _headroom(values: np.ndarray) -> float:
    return 1.15 * max(float(np.nanmax(np.nan_to_num(values))), 1.0)


def of_offsets(marks: Iterable[Mark], key: TopicPartition) -> list[Mark]:
    """Marks that have a place among the sends and reads of a partition."""
    return [m for m in marks if m.key == key and m.offset >= 0 and m.op in (Op.SEND, Op.POLL)]


def of_commits(marks: Iterable[Mark], key: TopicPartition, group: int) -> list[Mark]:
    """Marks that have a place among the commits of a group in a partition."""
    mine = (m for m in marks if m.key == key and m.group == group)
    return [m for m in mine if m.offset >= 0 and m.op in (Op.COMMIT, Op.COMMITTED)]
