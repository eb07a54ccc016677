"""The findings against the promises of a run, each witness with its drawing."""

from collections.abc import Callable, Iterator, Mapping

from attrs import evolve, frozen

from traces.html.canvas import Clock
from traces.html.picture import Picture
from traces.html.sequence import draw, instants
from traces.ingest.run import Run
from traces.second_checker import Confirmed, Opinion, Refuted
from traces.verdicts.judged import Judged, event
from traces.verdicts.sentences import counted
from traces.verdicts.verdict import ALLOWED, VIOLATED, Verdict, clause_of, clause_text

NARROW = 476.0  # so wide a drawing can be read whole on a telephone
DRAWN = 3  # witnesses of one promise; the others are told without a drawing


@frozen
class Witness:
    """One counterexample: its events, their places in the trace, and its drawing."""

    id: str
    number: int
    clause: str
    events: tuple[dict[str, object], ...]
    svg: str | None
    opinion: str = ""  # what the second checker says of it
    refuted: bool = False

    @property
    def columns(self) -> list[str]:
        """The fields of the events, each once."""
        fullest_first = sorted(self.events, key=len, reverse=True)
        return list(dict.fromkeys(name for event in fullest_first for name in event))

    @property
    def size(self) -> int:
        """About how many bytes of the page it takes."""
        return len(self.svg or "") + 700 * len(self.events)


@frozen
class PromiseFindings:
    """The findings against one promise."""

    verdict: Verdict
    slug: str
    witnesses: tuple[Witness, ...]

    left_out: int = 0

    @property
    def sentence(self) -> str:
        """The number of findings, and the reason that allows or forbids them."""
        return counted(self.verdict)

    def within(self, room: Callable[[int], bool]) -> "PromiseFindings":
        """The same if there is room for it, else the first few witnesses without diagrams."""
        if room(sum(one.size for one in self.witnesses)):
            return self
        kept = tuple(evolve(one, svg=None) for one in self.witnesses[:DRAWN])
        return evolve(self, witnesses=kept, left_out=len(self.witnesses) - len(kept))


def found(one: Judged, picture: Picture, run_id: str) -> Iterator[PromiseFindings]:
    """Every promise that was broken, violated ones first."""
    assert one.run is not None
    clock = Clock(picture)
    for word in (VIOLATED, ALLOWED):
        for verdict in one.verdicts:
            if verdict.verdict == word:
                made = _witnesses(one, one.run, verdict, clock, run_id)
                yield PromiseFindings(
                    verdict, "violated" if word == VIOLATED else "allowed", tuple(made)
                )


def _witnesses(
    one: Judged, run: Run, verdict: Verdict, clock: Clock, run_id: str
) -> Iterator[Witness]:
    for n, (number, raw) in enumerate(verdict.witnesses, 1):
        events = tuple(event(run, row) for row in raw)
        clause, subject = clause_of(number)
        id = f"{run_id}-{verdict.check}-{n}"
        times = clock.distinct(instants(events)) if clock.comparable else {}
        label = f"Sequence diagram of witness {n} of {verdict.check}, told as a table below it"
        svg = draw(events, times, id, label, width_most=NARROW) if n <= DRAWN else None
        allowed_by = clause_text(run, clause, subject) if clause > 1 else ""
        opinion = one.opinions.get((verdict.check, n - 1))
        shown = tuple(_timed(one, times) for one in events)
        yield Witness(id, n, allowed_by, shown, svg, _words(opinion), isinstance(opinion, Refuted))


def _timed(event: Mapping[str, object], times: Mapping[int, str]) -> dict[str, object]:
    """An event with its times as in the drawing; times that do not compare stay as recorded."""
    names = {"invoked_ns": "invoked", "returned_ns": "returned"} if times else {}
    return {
        names.get(name, name): times[int(str(value))] if name in names else value
        for name, value in event.items()
    }


def _words(opinion: Opinion | None) -> str:
    if isinstance(opinion, Confirmed):
        return "confirmed by the second checker"
    if isinstance(opinion, Refuted):
        return f"refuted by the second checker, so one of the two is wrong: {opinion.reason}"
    return ""
