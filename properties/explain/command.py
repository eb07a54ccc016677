"""`highwater explain`: a property's formula, rules, counterexample, functions and mutants."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from properties.conformance.binding import snake_case
from properties.explain.lookup import FoundProperty, find, switched_off
from properties.explain.quoted import KafkaRule, Promise, definition, kafka_rules, promises
from properties.modules.descriptor import modules
from properties.mutants.catalogue import Mutant, catalogue, module_of
from properties.mutants.edits import function_at
from properties.tla import InputError, SpecTree
from properties.tla.errors import Unusable
from properties.tla.runner import ModelJob, Options, run_all
from properties.tla.spec_report import console as wide
from properties.tla.spec_report import story
from properties.tla.specs import CHECKOUT
from properties.tla.tlc import HEAP_MB
from properties.tla.verdicts import ExpectedVerdict
from refimpl.outputs import json_option, write_json

#: The number of configurations that the message names if the requested one does not exist.
FEW = 6


@click.command()
@click.argument("name", metavar="PROPERTY")
@click.argument("cfg", metavar="[CONFIG | MODULE/CONFIG]", required=False)
@json_option("Write all of it but the story")
@click.option("--no-story", is_flag=True, help="Do not run TLC for a counterexample.")
@click.option(
    "--specs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Another folder of specs, laid out like spec/tla.",
)
def explain(
    name: str, cfg: str | None, json_file: Path | None, no_story: bool, specs: Path | None
) -> None:
    """Say all that is known of one property of the specs.

    PROPERTY is the name of an invariant or a temporal property, `CommittedInIsr` or
    `Truncation.CommittedInIsr`. Shown are its formula, the configurations that keep and break it,
    the rules behind it with the Python function that is each rule and Kafka's class for it, the
    known bugs of those functions with what finds them, and the shortest counterexample, or that of
    CONFIG. Exit code 0; 2: no such property or configuration, or a missing tool.
    """
    console = wide()
    tree = SpecTree(specs.resolve()) if specs else SpecTree()
    try:
        found = find(name, tree)
        told = _to_tell(found, cfg)
        write_json(json_file, [as_json(one, tree) for one in found])
        for one in found:
            lines = ["\n".join(paragraph) for paragraph in paragraphs(one, tree)]
            console.print("\n\n".join(lines) + "\n", soft_wrap=True, markup=False)
        if told is not None and not no_story:
            _tell(*told, tree, console)
    except InputError as wrong:
        raise Unusable(str(wrong)) from None


def _to_tell(
    found: Sequence[FoundProperty], cfg: str | None
) -> tuple[FoundProperty, ExpectedVerdict] | None:
    """The counterexample to show. A configuration that breaks nothing is the user's mistake."""
    module, _, short = (cfg or "").rpartition("/")
    asked = [one for one in found if module in ("", one.module)]
    pairs = [(one, row) for one in asked if (row := one.broken_in(short or None)) is not None]
    if cfg is not None and not pairs:
        raise InputError(f"{found[0].name} is not violated in {cfg!r} ({_nearest(found, cfg)})")
    return min(pairs, key=lambda pair: pair[1].length or 0, default=None)


def _nearest(found: Sequence[FoundProperty], cfg: str) -> str:
    """The configurations that break a property: all of a few, else those with similar names."""
    names = [f"{one.module}/{row.cfg}" for one in found for row in one.break_it]
    if len(names) <= FEW:
        return f"it is in: {', '.join(names) or 'none'}"
    by_cfg = {name.rpartition("/")[2]: name for name in reversed(names)}
    near = get_close_matches(cfg, names, n=3) or [
        by_cfg[name] for name in get_close_matches(cfg, by_cfg, n=3, cutoff=0)
    ]
    return f"did you mean {' or '.join(near)}?"


def _tell(found: FoundProperty, row: ExpectedVerdict, tree: SpecTree, console: Console) -> None:
    job, options = ModelJob(found.table, row), Options(tree, 1, HEAP_MB, explain=True)
    with console.status(f"TLC looks for the counterexample of {job.name}"):
        (result,) = run_all([job], options)
    console.print("\n".join(story(result)), soft_wrap=True, markup=False)
    console.print(f"\nsee it again: {result.again}", soft_wrap=True, markup=False)


# ------------------------------------------------------------------------------ what is known


def paragraphs(found: FoundProperty, tree: SpecTree) -> Iterator[list[str]]:
    """Everything but the counterexample, a paragraph each."""
    quote = definition(found.module, found.name, tree)
    yield [f"{found.module}.{found.name}", "=" * len(f"{found.module}.{found.name}")]
    if quote is not None:
        yield [f"{_shown(quote.file)}:{quote.line}", *_indented(quote.text.splitlines())]
    for promise in promises():
        if promise.formula == f"{found.module}.{found.name}":
            checks = ", ".join(promise.checks)
            yield [f"promise: {promise.title}", f"  in a recording: highwater check, {checks}"]
    yield ["holds in", *_indented([f"{row.cfg}{_states(row)}" for row in found.keep] or ["-"])]
    yield ["is violated in", *_indented(list(_broken(found, tree)) or ["-"])]
    rules = list(_rules(found, tree))
    if rules:
        yield ["kept by", *_indented(rules)]


def as_json(found: FoundProperty, tree: SpecTree) -> dict[str, Any]:
    """The same for programs."""
    quote = definition(found.module, found.name, tree)
    formula = None
    if quote is not None:
        formula = {"file": _shown(quote.file), "line": quote.line, "text": quote.text}
    known = [one for one in promises() if one.formula == f"{found.module}.{found.name}"]
    return {
        "module": found.module,
        "property": found.name,
        "formula": formula,
        "promises": [{"title": one.title, "checks": one.checks} for one in known],
        "holds_in": [{"cfg": row.cfg, "states": row.distinct} for row in found.keep],
        "violated_in": [
            {
                **{"cfg": row.cfg, "length": row.length, "kip": row.kip, "jira": row.jira},
                "instead_of": switched_off(found.table, row, tree),
                "note": row.note,
            }
            for row in found.break_it
        ],
        "kept_by": [
            {
                **{"rule": rule, "function": function},
                "kafka": [row.kafka for row in _kafka_of(rule, found.module)],
                "bugs": {one.name: one.why for one in _mutants_of(function)},
            }
            for rule, function in _functions(found, promises())
        ],
    }


def _broken(found: FoundProperty, tree: SpecTree) -> Iterator[str]:
    for row in found.break_it:
        known = " ".join(filter(None, (row.kip, row.jira)))
        yield f"{row.cfg}, {row.length} states{f' ({known})' * bool(known)}"
        for rule, (there, here) in switched_off(found.table, row, tree).items():
            yield f"    {rule} = {here} instead of {there}"
        if row.note:
            yield f"    {row.note}"


def _rules(found: FoundProperty, tree: SpecTree) -> Iterator[str]:
    """Each rule: its function, its class in Kafka, its known bugs."""
    for rule, function in _functions(found, promises()):
        yield f"{rule}: {_place(function)}"
        for row in _kafka_of(rule, found.module):
            yield f"    Kafka: {row.kafka.replace('`', '')} ({row.here.replace('`', '')})"
        for mutant in _mutants_of(function):
            yield f"    bug {mutant.name}: {mutant.why} Found by: {_killers(mutant)}"


def _kafka_of(rule: str, module: str) -> Sequence[KafkaRule]:
    """The rule's rows in Kafka."""
    short = rule.rpartition(".")[2]
    return [row for row in kafka_rules(module) if re.match(rf"`{short}`", row.rule)]


def _functions(found: FoundProperty, known: Sequence[Promise]) -> Sequence[tuple[str, str]]:
    """The rules that the promise names; else the module's actions, by the name that they share
    with a method of its machines."""
    formula = f"{found.module}.{found.name}"
    named = [rule for promise in known if promise.formula == formula for rule in promise.rules]
    module = modules().get(found.module)
    if named or module is None:
        return named
    return [
        (f"{found.module}.{action}", function)
        for action in module.binding.actions()
        for machine in module.machines
        for function in _methods(machine, action)
    ]


def _methods(machine: str, action: str) -> Iterator[str]:
    """The functions of a machine's file that bear an action's name."""
    snake = snake_case(action)
    home = module_of(machine)
    source = CHECKOUT / f"{home.replace('.', '/')}.py"
    holder = ""
    for line in source.read_text(encoding="utf-8").splitlines():
        if line.startswith("class "):
            holder = re.split(r"\W", line.removeprefix("class "))[0] + "."
        elif re.match(rf"    def {snake}\(", line):
            yield f"{home}:{holder}{snake}"


def _mutants_of(function: str) -> Iterator[Mutant]:
    for mutant in catalogue().values():
        if any(edit.function == function for edit in mutant.edits):
            yield mutant


def _killers(mutant: Mutant) -> str:
    """The checks that find a known bug, as the modules' tables say; or why nothing can."""
    if mutant.equivalent:
        return f"nothing, {mutant.equivalent}"
    by = [(name, modules()[name].table().mutants.get(mutant.name, ())) for name in mutant.modules]
    return "; ".join(f"{', '.join(checks)} ({name})" for name, checks in by if checks)


def _place(function: str) -> str:
    code = function_at(function).__code__
    return f"{function.partition(':')[2]}, {_shown(Path(code.co_filename))}:{code.co_firstlineno}"


def _shown(file: Path) -> str:
    return str(file.relative_to(CHECKOUT) if file.is_relative_to(CHECKOUT) else file)


def _states(row: ExpectedVerdict) -> str:
    return f", all {row.distinct:,} states" if row.distinct else ""


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
