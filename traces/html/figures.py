"""Choose the drawings of a run: its partitions and groups, with their faults and marks."""

from collections.abc import Iterator, Sequence

from attrs import frozen

from traces.html.canvas import Clock, Mark, NumberedFault
from traces.html.picture import GroupPicture, Picture
from traces.html.series import TopicPartition
from traces.html.sheet import Figure, Sheet, in_order, name_of
from traces.ingest.run import Run
from traces.model.output import number_of
from traces.model.schema import NONE
from traces.verdicts.judged import Judged
from traces.verdicts.verdict import ALLOWED, VIOLATED

PANELS = 12  # small multiples of one kind
GROUPS = 6  # that are drawn


@frozen
class Plates:
    """The drawings of one run."""

    figures: tuple[Figure, ...] = ()
    faults: tuple[tuple[NumberedFault, str], ...] = ()
    untimed: tuple[str, ...] = ()
    remark: str = ""


def plates(one: Judged, picture: Picture, run_id: str) -> Plates:
    """All plots of a run, as far as its events have times."""
    assert one.run is not None
    run = one.run
    timed, untimed = _faults(run, picture)
    if picture.end <= picture.start:
        return Plates((), (), untimed, "No event of this run has a time, so nothing is plotted.")
    clock = Clock(picture, timed)
    marks = list(_marks(one, clock, run_id)) if clock.comparable else []
    names = {key: name_of(run, key) for key in in_order(run, picture.partitions)}
    shown = in_order(run, _chosen(picture, marks))
    groups, others = _groups(picture, marks)
    sheet = Sheet(run, picture, groups, clock, marks, names, run_id, shown)
    return Plates(
        figures=tuple(sheet.all()),
        faults=tuple((fault, clock.when(fault)) for fault in timed),
        untimed=untimed,
        remark=" ".join(_remarks(picture, others)),
    )


def _chosen(picture: Picture, marks: Sequence[Mark]) -> list[TopicPartition]:
    """The partitions that get a plot of their own: where something was found, then the busiest."""
    hit, every = {mark.key for mark in marks}, picture.partitions
    return sorted(every, key=lambda key: (key not in hit, -every[key].rows, key))[:PANELS]


def _groups(picture: Picture, marks: Sequence[Mark]) -> tuple[list[GroupPicture], int]:
    """The groups to draw, those with witnesses and then the busiest first, and how many are not."""
    hit = {mark.group for mark in marks}
    first = sorted(picture.groups, key=lambda one: (one.number not in hit, -one.rows))[:GROUPS]
    return [one for one in picture.groups if one in first], len(picture.groups) - len(first)


def _remarks(picture: Picture, other_groups: int) -> Iterator[str]:
    if picture.clocks > 1:
        yield (
            f"The events of this run have {picture.clocks} clocks, whose times do not compare. "
            "The plots show those of the clock that most events have, and leave out lag and "
            "unseen records, which would compare senders with readers."
        )
    if picture.every > 1:
        yield (
            f"For the plots one offset of {picture.every:,} was looked at, so the numbers of "
            "unseen records are estimates."
        )
    if other_groups:
        yield f"{number_of(other_groups, 'more consumer group')} not drawn, the least busy ones."


def _faults(run: Run, picture: Picture) -> tuple[list[NumberedFault], tuple[str, ...]]:
    """Faults that have a place among the events, and those whose time is unknown or not ours."""
    timed, untimed = list[NumberedFault](), list[str]()
    for number, fault in enumerate(run.meta.faults, 1):
        if fault.at_ns is None or picture.clocks > 1:
            untimed.append(fault.what)
        else:
            timed.append(NumberedFault(number, fault.at_ns, fault.what, fault.until_ns))
    return timed, tuple(untimed)


def _marks(one: Judged, clock: Clock, run_id: str) -> Iterator[Mark]:
    for verdict in one.verdicts:
        if verdict.verdict not in (VIOLATED, ALLOWED):
            continue
        for n, (_, events) in enumerate(verdict.witnesses, 1):
            for row in events:
                at = row["ret"] if row["ret"] != NONE else row["inv"]
                if at != NONE:
                    yield Mark(
                        at_ns=at,
                        key=(row["topic"], row["partition"]),
                        offset=row["offset"],
                        op=row["op"],
                        group=row["group"],
                        violated=verdict.verdict == VIOLATED,
                        tip=f"{verdict.check} {verdict.verdict}: {verdict.title} "
                        f"({clock.spoken(at)})",
                        href=f"#{run_id}-{verdict.check}-{n}",
                    )
