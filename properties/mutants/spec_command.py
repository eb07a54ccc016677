"""`highwater mutants --specs`: small changes of the specs, and which property notices each.

What was found is kept beside the tool, so that the table can be seen without asking again: as long
as neither the module nor one of its configurations has changed since.
"""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson
from attrs import asdict, frozen
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as Grid

from properties.mutants.spec_mutants import SpecMutant, spec_mutants
from properties.mutants.spec_trials import Noticed, Trials, judged
from properties.tla import InputError, SpecTree, tools
from properties.tla.errors import Unusable
from properties.tla.specs import CHECKOUT

SURVIVORS = Path(__file__).with_name("spec_survivors.toml")
KEPT = Path(__file__).with_name("spec_answers")
PAGE = CHECKOUT / "docs" / "spec-mutants.md"
#: Those whose mutants are asked for and explained; the others' can be asked for by name.
MODULES = ("AbsLog", "Truncation", "DurableIsr", "AlterPartition", "ConsumerCommit", "Replication")


@frozen
class Judged:
    """One module: what was found, and what of it nobody explains."""

    trials: Trials
    explained: dict[str, str]

    @property
    def unexplained(self) -> list[str]:
        return [name for name in self.trials.alive if name not in self.explained]

    @property
    def revived(self) -> list[str]:
        """Explained, and noticed by a property all the same, or gone."""
        compared = {name for name, one in self.trials.found.items() if not one.by_property}
        return sorted(self.explained.keys() - set(self.trials.alive) - compared)

    @property
    def by_nothing(self) -> str:
        """What is said of a mutant that lives: a row that was not asked might tell."""
        return "nothing that was asked" if self.trials.unasked else "nothing"

    def line(self) -> tuple[str, ...]:
        found = self.trials.found.values()
        promised = sum(one.by_property for one in found)
        numbers = (
            len(found) + len(self.trials.alive),
            promised,
            len(found) - promised,
            len(self.trials.alive) - len(self.unexplained),
            len(self.unexplained),
        )
        return (self.trials.module, *map(str, numbers))


def of_specs(names: Sequence[str], listed: bool, update: bool, console: Console) -> bool:
    """Run them, or only list them; whether each is noticed or explained."""
    try:
        chosen = modules(names)
        if listed:
            for module in chosen:
                _list(spec_mutants(module), console)
            return True
        results: list[Judged] = []
        for module in chosen:
            trials = (None if update else kept(module)) or judged(module)
            results.append(Judged(trials, explained().get(module, {})))
            console.print(f"{module}: {trials.cpu_s:.0f} CPU s when it was asked", highlight=False)
            if update:
                keep(trials)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None
    _show(results, console)
    if update:
        known = [Judged(one, explained().get(one.module, {})) for one in everything_kept()]
        PAGE.write_text("\n".join(page(known)) + "\n", encoding="utf-8")
        console.print(f"written: docs/{PAGE.name}", highlight=False)
    return _judge(results, console)


def modules(names: Sequence[str]) -> Sequence[str]:
    known = SpecTree().modules()
    for name in names:
        if name not in known:
            raise InputError(f"no module {name!r}; there are: {', '.join(known)}")
    return names or MODULES


def explained() -> dict[str, dict[str, str]]:
    """The mutants that nothing needs to notice, by module and name, and why."""
    try:
        return tomllib.loads(SURVIVORS.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{SURVIVORS}: not TOML: {wrong}") from None


def kept(module: str, stale: bool = False) -> Trials | None:
    """What was found of a module as it is now, or, `stale`, as it was."""
    file = KEPT / f"{module}.json"
    if not file.is_file():
        return None
    told = orjson.loads(file.read_bytes())
    if told.pop("of") != _text_of(module) and not stale:
        return None
    found = {name: Noticed(**one) for name, one in told.pop("found").items()}
    return Trials(found=found, **told)


def keep(trials: Trials) -> None:
    """Keep what was found, with the text that it was found of."""
    KEPT.mkdir(exist_ok=True)
    told = {"of": _text_of(trials.module)} | asdict(trials)
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    (KEPT / f"{trials.module}.json").write_bytes(orjson.dumps(told, option=option))


def everything_kept() -> Iterator[Trials]:
    """All that was ever asked, those of `MODULES` first."""
    names = [file.stem for file in sorted(KEPT.glob("*.json"))]
    for name in sorted(names, key=lambda name: (name not in MODULES, name)):
        trials = kept(name, stale=True)
        assert trials is not None
        yield trials


def _text_of(module: str) -> str:
    tree = SpecTree()
    return tools.digest([*tree.closure(module), *tree.models(module)])


def _list(mutants: Sequence[SpecMutant], console: Console) -> None:
    for one in mutants:
        told = f"{one.kind}: {one.module}.{one.name}"
        console.print(told, highlight=False, markup=False, soft_wrap=True)


_COLUMNS = "mutants", "noticed by a property", "by conformance alone", "explained", "not noticed"


def _show(results: Sequence[Judged], console: Console) -> None:
    grid = Grid("module", *_COLUMNS, box=SIMPLE)
    for column in grid.columns[1:]:
        column.justify = "right"
    for result in results:
        grid.add_row(*result.line())
    console.print(grid)


def _judge(results: Sequence[Judged], console: Console) -> bool:
    wrong = [
        f"{result.trials.module}.{name}: {what}"
        for result in results
        for what, names in (
            (f"is noticed by {result.by_nothing}", result.unexplained),
            (f"{SURVIVORS.name} explains what is noticed, or is gone", result.revived),
        )
        for name in names
    ]
    for line in wrong:
        console.print(line, style="red", highlight=False, markup=False, soft_wrap=True)
    return not wrong


def page(results: Sequence[Judged]) -> Iterator[str]:
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
        "edge by edge, is another one, so that comparison fails. What nothing notices has its "
        "reason, or is *not explained*. Bounds are no rules, and are left as they are; so are "
        "comparisons of a constant, which choose among rules, and those within `LET` and `IF` "
        "that stand on lines of their own. Where an expression has no value TLC says so, and the "
        "row fails. A row is not asked to the end where all mutants that are left have too many "
        "states: what it would notice is not known."
    )
    yield ""
    yield f"| module | {' | '.join(_COLUMNS)} |"
    yield f"|---|{'---|' * len(_COLUMNS)}"
    for result in results:
        yield f"| {' | '.join(result.line())} |"
    for result in results:
        yield from ("", f"## {result.trials.module}", "")
        if result.trials.unasked:
            yield from (
                f"Not asked to the end: {', '.join(f'`{cfg}`' for cfg in result.trials.unasked)}.",
                "",
            )
        yield from ("| mutant | noticed by |", "|---|---|")
        for name, by in result.trials.found.items():
            why = f": {result.explained[name]}" if name in result.explained else ""
            yield f"| {_cell(name)} | `{by.cfg}`: {by.by}{why} |"
        for name in result.trials.alive:
            why = result.explained.get(name, "not explained")
            yield f"| {_cell(name)} | {result.by_nothing}: {why} |"


def _cell(name: str) -> str:
    action, _, change = name.partition(": ")
    old, _, new = change.replace("|", "\\|").partition(" -> ")
    return f"{action}: `{old}` → `{new}`"
