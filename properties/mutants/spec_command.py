"""`highwater mutants --specs` and `--promises`: small changes of the specs' rules or of their
promises, and the row that detects each.

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

from properties.mutants.promise_mutants import promise_mutants
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
#: The same three of the promises.
PROMISE_SURVIVORS = Path(__file__).with_name("promise_survivors.toml")
PROMISES_KEPT = Path(__file__).with_name("promise_answers")
PROMISE_PAGE = CHECKOUT / "docs" / "promise-mutants.md"


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
        found = self.trials.found.items()
        return [name for name, one in found if not one.by_property and not one.by_length]

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
        told = f"`{noticed.cfg}`: {noticed.by}" if noticed else "nothing"
        return told.replace("|", "\\|") + owed

    def as_json(self) -> dict[str, object]:
        return {
            **asdict(self.trials),
            "explained": {
                name: self.explained[name] for name in self._unpromised if name in self.explained
            },
            "unexplained": self.unexplained,
        }

    @property
    def by_length(self) -> list[str]:
        """Promises whose mutant breaks as well, but with a counterexample of another length."""
        return [name for name, one in self.trials.found.items() if one.by_length]

    def promise_line(self) -> tuple[str, ...]:
        """The row of a module in the table of promises."""
        asked = len(self.trials.found) + len(self.trials.alive)
        explained = sum(name in self.reasons for name in self.trials.alive)
        told = len(self.trials.found) - len(self.by_length)
        rate = f"{100 * (asked - len(self.unexplained)) / asked:.0f} %" if asked else "–"
        numbers = (asked, told, len(self.by_length), explained, len(self.unexplained))
        return (self.trials.module, *map(str, numbers), rate)

    def line(self) -> tuple[str, ...]:
        found, alive = self.trials.found, self.trials.alive
        reasons = [
            sum(name in self.explained for name in names) for names in (self.compared, alive)
        ]
        promised = len(found) - len(self.compared)
        numbers = (len(found) + len(alive), promised, *reasons, len(self.unexplained))
        return (self.trials.module, *map(str, numbers))


def of_specs(
    names: Sequence[str],
    listed: bool,
    update: bool,
    json_file: Path | None,
    console: Console,
    of_promises: bool = False,
) -> bool:
    """Run them, or only list them; whether each is noticed or explained."""
    try:
        chosen = modules(names)
        if listed:
            every = promise_mutants if of_promises else spec_mutants
            mutants = [one for module in chosen for one in every(module)]
            _list(mutants, console)
            write_json(json_file, [f"{one.module}.{one.name}" for one in mutants])
            return True
        results: list[JudgedModule] = []
        for module in chosen:
            text = _text_of(module)  # before: a process that waits for answers may write meanwhile
            before = kept(module, stale=True, of_promises=of_promises)
            trials = kept(module, of_promises=of_promises)
            of_rules = kept(module, stale=True) if of_promises else None
            trials = trials or judged(
                module, before=before, of_promises=of_promises, of_rules=of_rules
            )
            results.append(with_reasons(trials, of_promises=of_promises))
            console.print(f"{module}: {trials.cpu_s:.0f} CPU s when it was asked", highlight=False)
            if update:
                keep(trials, text, of_promises=of_promises)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    _show(results, console, of_promises)
    write_json(json_file, [result.as_json() for result in results])
    if update:
        file, lines = (PROMISE_PAGE, promise_page) if of_promises else (PAGE, page)
        every = everything_kept(of_promises=of_promises)
        known = [with_reasons(one, of_promises=of_promises) for one in every]
        file.write_text("\n".join(lines(known)) + "\n", encoding="utf-8")
        console.print(f"written: docs/{file.name}", highlight=False)
    return _judge(results, console, PROMISE_SURVIVORS if of_promises else SURVIVORS)


def modules(names: Sequence[str]) -> Sequence[str]:
    known = SpecTree().modules()
    for name in names:
        if name not in known:
            raise InputError(f"no module {name!r}; there are: {', '.join(known)}")
    return names or known


def explained(of_promises: bool = False) -> dict[str, dict[str, str]]:
    """The mutants that nothing needs to notice, by module and name, and why."""
    file = PROMISE_SURVIVORS if of_promises else SURVIVORS
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{file}: not TOML: {wrong}") from None


def with_reasons(trials: Trials, of_promises: bool = False) -> JudgedModule:
    """A module's results with the reasons of its survivors."""
    if of_promises:
        return JudgedModule(trials, explained(of_promises=True).get(trials.module, {}))
    equivalent = load(trials.module, SpecTree()).guards.equivalent
    known = {f"{place} -> TRUE": why for place, why in equivalent.items()}
    return JudgedModule(trials, explained().get(trials.module, {}), known)


def kept(module: str, stale: bool = False, of_promises: bool = False) -> Trials | None:
    """A module's kept results, for the module as it is or, with `stale`, as it was."""
    file = (PROMISES_KEPT if of_promises else KEPT) / f"{module}.json"
    if not file.is_file():
        return None
    told = orjson.loads(file.read_bytes())
    if told.pop("of") != _text_of(module) and not stale:
        return None
    found = {name: Noticed(**one) for name, one in told.pop("found").items()}
    return Trials(found=found, **told)


def keep(trials: Trials, text: str, of_promises: bool = False) -> None:
    """Keep the results, with the digest of the text that was tested."""
    folder = PROMISES_KEPT if of_promises else KEPT
    folder.mkdir(exist_ok=True)
    told = {"of": text} | asdict(trials)
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    (folder / f"{trials.module}.json").write_bytes(orjson.dumps(told, option=option))


def everything_kept(of_promises: bool = False) -> Iterator[Trials]:
    """All that was ever asked, by module."""
    folder = PROMISES_KEPT if of_promises else KEPT
    for name in sorted(file.stem for file in folder.glob("*.json")):
        trials = kept(name, stale=True, of_promises=of_promises)
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


_PROMISE_COLUMNS = (
    "mutants",
    "noticed by a verdict",
    "by the length of a counterexample",
    "by nothing, with a reason",
    "not explained",
    "rate",
)


def _show(results: Sequence[JudgedModule], console: Console, of_promises: bool) -> None:
    grid = Grid("module", *(_PROMISE_COLUMNS if of_promises else _COLUMNS), box=SIMPLE)
    for column in grid.columns[1:]:
        column.justify = "right"
    for result in results:
        grid.add_row(*(result.promise_line() if of_promises else result.line()))
    console.print(grid)


def _judge(results: Sequence[JudgedModule], console: Console, survivors: Path) -> bool:
    wrong = [
        f"{result.trials.module}.{name}: {what}"
        for result in results
        for what, names in (
            ("no property notices it, and nobody says why", result.unexplained),
            (f"{survivors.name} explains what is noticed, or is gone", result.revived),
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
        "conjunct is for, and why no promise of the module sees it. So it does of a mutant that "
        "nothing notices. Bounds are no rules, and are left as they are, with the variables that "
        "only count for them; so are comparisons of a constant, which choose among rules, and "
        "those within `LET` and `IF` that are on lines of their own. If an expression has no "
        f"value, TLC says so, and the row fails. Rows of more than {TOO_LARGE:,} states are not "
        f"asked, nor those of more than {TOO_LARGE_ALONE:,} that promise something of "
        "whole behaviours."
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


def promise_page(results: Sequence[JudgedModule]) -> Iterator[str]:
    """The mutants of promises as a page of the docs."""
    yield "# Mutants of the promises"
    yield ""
    yield "Written by `highwater mutants --promises --update`."
    yield ""
    yield (
        "A promise that lost a part would pass `highwater spec` if no row needed that part. So "
        "each promise is weakened: a conjunct becomes `TRUE`, an antecedent `FALSE`, `\\A` "
        "becomes `\\E`, a comparison moves its boundary or turns round, a negation goes, a "
        "variable gets a prime or loses it, a set loses a part. A change that only says more is "
        "left out, as far as its place in the formula shows it. A mutant is noticed if a `bug_` "
        "row that broke the promise passes with it, if an `ok_` row does not pass, or if TLC finds "
        "no meaning in it. If the row breaks the mutant as well, but with a counterexample of "
        "another length than the pinned one, only that length tells. For a promise that no `bug_` "
        "row breaks, or not in each part, `[controls]` of `verdicts.toml` names mutants of the "
        "rules that break it: *with* one of these a weakened promise must break as well. *Rate* is "
        "the part that is noticed or explained. Definitions that the rules need as well are "
        "mutated with the [rules](spec-mutants.md), and promises of another module with that one."
    )
    yield ""
    yield from promise_table(results)
    for result in results:
        yield from ("", f"## {result.trials.module}", "")
        yield from ("| mutant | noticed by |", "|---|---|")
        for name in (*result.trials.found, *result.trials.alive):
            yield f"| {_cell(name)} | {result.by(name)}{_why(name, result)} |"


def promise_table(results: Sequence[JudgedModule]) -> Iterator[str]:
    """The number of mutants of each module's promises, and the checks that noticed them."""
    yield f"| module | {' | '.join(_PROMISE_COLUMNS)} |"
    yield f"|---|{'---|' * len(_PROMISE_COLUMNS)}"
    for result in results:
        yield f"| {' | '.join(result.promise_line())} |"


def known_promises() -> list[JudgedModule]:
    """The answers about the promises of every module that was asked."""
    every = everything_kept(of_promises=True)
    return [with_reasons(one, of_promises=True) for one in every]


def _why(name: str, result: JudgedModule) -> str:
    """The reason why no property notices it, where none does."""
    if name in result.explained:
        return f": {result.explained[name]}"
    return ": not explained" if name in result.unexplained else ""


def _cell(name: str) -> str:
    action, _, change = name.partition(": ")
    old, _, new = change.replace("|", "\\|").partition(" -> ")
    return f"{action}: `{old}` → `{new}`"
