"""`highwater mutants --specs`: small changes of the specs, and the property that detects each.

Results are kept beside the tool, so the table can be shown without a new run. They are valid until
the module or one of its configurations changes.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import orjson
from attrs import asdict, field, frozen
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid

from properties.mutants.spec_mutants import SpecMutant, spec_mutants, stands_on
from properties.mutants.spec_trials import (
    TOO_LARGE,
    TOO_LARGE_ALONE,
    Noticed,
    Trials,
    judged,
)
from properties.tla import InputError, SpecTree, tools
from properties.tla.errors import Unusable
from properties.tla.specs import CHECKOUT
from properties.tla.verdicts import load
from refimpl.outputs import write_json

SURVIVORS = Path(__file__).with_name("spec_survivors.toml")
KEPT = Path(__file__).with_name("spec_answers")
PAGE = CHECKOUT / "docs" / "spec-mutants.md"


@frozen
class JudgedModule:
    """The results of one module, and its unexplained survivors.

    `known` has the guards that may go, with their reasons in the module's table.
    """

    trials: Trials
    reasons: Mapping[str, str]
    known: Mapping[str, str] = field(factory=dict[str, str])

    @property
    def explained(self) -> Mapping[str, str]:
        return {**self.known, **self.reasons}

    @property
    def compared(self) -> list[str]:
        """Noticed by the comparison with the machines, and by no property."""
        return [name for name, one in self.trials.found.items() if not one.by_property]

    @property
    def unexplained(self) -> list[str]:
        return [name for name in self._unpromised if name not in self.explained]

    @property
    def revived(self) -> list[str]:
        """Explained, and noticed by a property all the same, or gone."""
        return sorted(self.reasons.keys() - set(self._unpromised))

    @property
    def _unpromised(self) -> list[str]:
        return [*self.compared, *self.trials.alive]

    def by(self, name: str) -> str:
        """A mutant's detector; for a survivor, the rows that did not end and might detect it."""
        rows = ", ".join(f"`{cfg}`" for cfg in self.trials.unasked.get(name, ()))
        owed = f" (not asked to the end: {rows})" if rows else ""
        noticed = self.trials.found.get(name)
        return (f"`{noticed.cfg}`: {noticed.by}" if noticed else "nothing") + owed

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self.trials),
            "explained": {
                name: self.explained[name] for name in self._unpromised if name in self.explained
            },
            "unexplained": self.unexplained,
        }

    def line(self) -> tuple[str, ...]:
        found, alive = self.trials.found, self.trials.alive
        reasons = [
            sum(name in self.explained for name in names) for names in (self.compared, alive)
        ]
        promised = len(found) - len(self.compared)
        numbers = (len(found) + len(alive), promised, *reasons, len(self.unexplained))
        return (self.trials.module, *map(str, numbers))


def of_specs(
    names: Sequence[str], listed: bool, update: bool, json_file: Path | None, console: Console
) -> bool:
    """Run them, or only list them; whether each is noticed or explained."""
    try:
        chosen = modules(names)
        if listed:
            mutants = [one for module in chosen for one in spec_mutants(module)]
            _list(mutants, console)
            write_json(json_file, [f"{one.module}.{one.name}" for one in mutants])
            return True
        results: list[JudgedModule] = []
        for module in chosen:
            text = _text_of(module)  # before: a process that waits for answers may write meanwhile
            trials = kept(module) or judged(module, before=kept(module, stale=True))
            results.append(with_reasons(trials))
            console.print(f"{module}: {trials.cpu_s:.0f} CPU s when it was asked", highlight=False)
            if update:
                keep(trials, text)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    _show(results, console)
    write_json(json_file, [result.as_json() for result in results])
    if update:
        known = [with_reasons(one) for one in everything_kept()]
        PAGE.write_text("\n".join(page(known)) + "\n", encoding="utf-8")
        console.print(f"written: docs/{PAGE.name}", highlight=False)
    return _judge(results, console)


def modules(names: Sequence[str]) -> Sequence[str]:
    known = SpecTree().modules()
    for name in names:
        if name not in known:
            raise InputError(f"no module {name!r}; there are: {', '.join(known)}")
    return names or known


def explained() -> dict[str, dict[str, str]]:
    """The mutants that nothing needs to notice, by module and name, and why."""
    try:
        return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{SURVIVORS}: not TOML: {wrong}") from None


def with_reasons(trials: Trials) -> JudgedModule:
    """A module's results with the reasons of its survivors."""
    equivalent = load(trials.module, SpecTree()).guards.equivalent
    known = {f"{place} -> TRUE": why for place, why in equivalent.items()}
    return JudgedModule(trials, explained().get(trials.module, {}), known)


def kept(module: str, stale: bool = False) -> Trials | None:
    """A module's kept results, for the module as it is or, with `stale`, as it was."""
    file = KEPT / f"{module}.json"
    if not file.is_file():
        return None
    told = orjson.loads(file.read_bytes())
    if told.pop("of") != _text_of(module) and not stale:
        return None
    found = {name: Noticed(**one) for name, one in told.pop("found").items()}
    return Trials(found=found, **told)


def keep(trials: Trials, text: str) -> None:
    """Keep the results, with the digest of the text that was tested."""
    KEPT.mkdir(exist_ok=True)
    told = {"of": text} | asdict(trials)
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    (KEPT / f"{trials.module}.json").write_bytes(orjson.dumps(told, option=option))


def everything_kept() -> Iterator[Trials]:
    """All that was ever asked, by module."""
    for name in sorted(file.stem for file in KEPT.glob("*.json")):
        trials = kept(name, stale=True)
        assert trials is not None
        yield trials


def _text_of(module: str) -> str:
    tree = SpecTree()
    return tools.digest(tree.models(module), *stands_on(module, tree))


def _list(mutants: Sequence[SpecMutant], console: Console) -> None:
    for one in mutants:
        told = f"{one.kind}: {one.module}.{one.name}"
        console.print(told, highlight=False, markup=False, soft_wrap=True)


_COLUMNS = (
    "mutants",
    "noticed by a property",
    "by conformance, with a reason",
    "by nothing, with a reason",
    "not explained",
)


def _show(results: Sequence[JudgedModule], console: Console) -> None:
    grid = Grid("module", *_COLUMNS, box=SIMPLE)
    for column in grid.columns[1:]:
        column.justify = "right"
    for result in results:
        grid.add_row(*result.line())
    console.print(grid)


def _judge(results: Sequence[JudgedModule], console: Console) -> bool:
    wrong = [
        f"{result.trials.module}.{name}: {what}"
        for result in results
        for what, names in (
            ("no property notices it, and nobody says why", result.unexplained),
            (f"{SURVIVORS.name} explains what is noticed, or is gone", result.revived),
        )
        for name in names
    ]
    for line in wrong:
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    return not wrong


def page(results: Sequence[JudgedModule]) -> Iterator[str]:
    """All of it as a page of the docs."""
    yield "# Mutants of the specs"
    yield ""
    yield "Written by `highwater mutants --specs --update`."
    yield ""
    yield (
        "Each conjunct of each action is dropped, each comparison shifted (`<=` to `<`, `=` to "
        "`#`), each assignment left out. A mutant is noticed by the first row of the module's "
        "`verdicts.toml` whose named property is not as the row says: an `ok_` row's is broken, a "
        "`bug_` or `probe_` row's *holds*. Counts do not count. *Conformance* means that no row "
        "tells, but the graph of a scope in which the Python machines are compared with the spec, "
        "edge by edge, is another one, so that comparison fails: then the table says what the "
        "conjunct is for, and why no promise of the module sees it. So it does of what nothing "
        "notices. Bounds are no rules, and are left as they are, with the variables that only "
        "count for them; so are comparisons of a constant, which choose among rules, and those "
        "within `LET` and `IF` that stand on lines of their own. Where an expression has no value "
        f"TLC says so, and the row fails. Rows of more than {TOO_LARGE:,} states are not asked, "
        f"nor those of more than {TOO_LARGE_ALONE:,} that promise something of whole behaviours."
    )
    yield ""
    yield f"| module | {' | '.join(_COLUMNS)} |"
    yield f"|---|{'---|' * len(_COLUMNS)}"
    for result in results:
        yield f"| {' | '.join(result.line())} |"
    for result in results:
        yield from ("", f"## {result.trials.module}", "")
        yield from ("| mutant | noticed by |", "|---|---|")
        for name in (*result.trials.found, *result.trials.alive):
            yield f"| {_cell(name)} | {result.by(name)}{_why(name, result)} |"


def _why(name: str, result: JudgedModule) -> str:
    """The reason why no property notices it, where none does."""
    if name in result.explained:
        return f": {result.explained[name]}"
    return ": not explained" if name in result.unexplained else ""


def _cell(name: str) -> str:
    action, _, change = name.partition(": ")
    old, _, new = change.replace("|", "\\|").partition(" -> ")
    return f"{action}: `{old}` → `{new}`"
