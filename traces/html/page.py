"""The page itself: one document for one run or many, with everything in it that it needs."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

from attrs import define, evolve, frozen
from jinja2 import Environment, PackageLoader, StrictUndefined

from traces.html import view
from traces.html.canvas import Clock
from traces.html.figures import Plates, plates
from traces.html.picture import Picture
from traces.html.witnesses import PromiseFindings, found
from traces.model.output import writable
from traces.verdicts.judged import BAD_INPUT, Judged
from traces.verdicts.verdict import ALLOWED, VIOLATED

PAGE = 2_600_000  # bytes that a page should not be much larger than
_WORDS, _DRAWINGS = 40_000, 600_000  # of them for the tables of each run, and for drawings at least
UNFOLDED = 5  # of many runs
_FULL = "The page is full: check this run alone to see all of its plots."
_ORDER = (VIOLATED, BAD_INPUT, ALLOWED)


@define
class _Budget:
    """The size left for drawings; runs with violations draw first."""

    left: int

    def take(self, size: int) -> bool:
        """Use so much of it, and return True, if it fits; after one that does not, nothing does."""
        fits = size <= self.left
        self.left = self.left - size if fits else 0
        return fits


@frozen
class Section:
    """One run, for the template."""

    id: str
    one: Judged
    name: str
    slug: str
    open: bool
    facts: Sequence[tuple[str, str]]
    settings: Sequence[tuple[str, list[view.SharedSettings]]]
    incidents: Sequence[view.IncidentRow]
    sentences: Sequence[str]
    summary: str
    rows: Sequence[view.VerdictRow]
    families: Sequence[tuple[str, list[view.VerdictRow]]]
    found: Sequence[PromiseFindings]
    plates: Plates
    reasons: Sequence[view.Reason]


def page(judged: Sequence[Judged], pictures: Mapping[int, Picture]) -> bytes:
    """All runs as one document; `pictures` are those of the runs that could be read, by place."""
    sections = _sections(judged, pictures)
    environment = Environment(
        loader=PackageLoader("traces.html"),
        autoescape=True,
        finalize=_text_only,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    text = environment.get_template("page.html").render(
        promises=_promises(sections),
        sections=sections,
        signs=view.SIGNS,
        style=environment.get_template("page.css").render(),
        title=_title(sections),
        version=version("highwatermark"),
    )
    return text.encode()


def _text_only(value: object) -> object:
    """No name of a trace brings a character into the page that the page cannot hold."""
    marked_safe = hasattr(value, "__html__")
    return writable(value) if isinstance(value, str) and not marked_safe else value


def _promises(sections: Sequence[Section]) -> Sequence[view.VerdictRow]:
    """The promises of several runs, listed once below all of them."""
    judged = [section.rows for section in sections if section.rows]
    return judged[0] if len(sections) > 1 and judged else ()


def _title(sections: Sequence[Section]) -> str:
    if len(sections) == 1:
        return f"{sections[0].name}: {sections[0].one.verdict}"
    return f"{len(sections)} runs"


def _sections(judged: Sequence[Judged], pictures: Mapping[int, Picture]) -> list[Section]:
    budget = _Budget(max(PAGE - _WORDS * len(judged), _DRAWINGS))
    made = dict[int, Section]()
    for number in sorted(range(len(judged)), key=lambda n: (_weight(judged[n]), n)):
        made[number] = _section(judged, number, pictures.get(number, Picture()), budget)
    return [made[number] for number in range(len(judged))]


def _unfolded(judged: Sequence[Judged]) -> list[int]:
    """The runs that are seen at once: the first few in which something is wrong."""
    wrong = [n for n, one in enumerate(judged) if one.verdict in (VIOLATED, BAD_INPUT)]
    return wrong[:UNFOLDED] if len(judged) > 1 else [0]


def _weight(one: Judged) -> int:
    return _ORDER.index(one.verdict) if one.verdict in _ORDER else len(_ORDER)


def _section(judged: Sequence[Judged], number: int, picture: Picture, budget: _Budget) -> Section:
    one, id = judged[number], f"run-{number + 1}"
    readable, rows = one.run is not None, view.rows(one)
    return Section(
        id=id,
        one=one,
        name=(one.run.meta.run if one.run else "") or one.path.name,
        slug=view.slug(one.verdict),
        open=number in _unfolded(judged),
        facts=view.facts(one.run, picture) if one.run else [("input", str(one.path))],
        settings=view.configuration(one.run.meta) if one.run else [],
        incidents=view.incidents(one, Clock(picture)) if readable else [],
        sentences=view.sentences(one),
        summary=view.summary(one),
        rows=rows,
        families=view.families(rows),
        found=_affordable(found(one, picture, id), budget) if readable else [],
        plates=_plates(one, picture, id, budget) if readable else Plates(),
        reasons=view.reasons(one) if readable else [],
    )


def _affordable(every: Iterable[PromiseFindings], budget: _Budget) -> list[PromiseFindings]:
    return [one.within(budget.take) for one in every]


def _plates(one: Judged, picture: Picture, id: str, budget: _Budget) -> Plates:
    whole = plates(one, picture, id) if budget.left > 0 else Plates(remark=_FULL)
    figures = tuple(figure for figure in whole.figures if budget.take(figure.size))
    if len(figures) < len(whole.figures):
        whole = evolve(whole, figures=figures, remark=f"{whole.remark} {_FULL}".strip())
    return whole
