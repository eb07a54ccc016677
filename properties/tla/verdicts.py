"""The table of expected verdicts beside each module: read it, compare with it, pin new figures."""

import tomllib
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, cast

import tomlkit
from attrs import field, fields_dict, frozen

from properties.tla.checker import Outcome, Status
from properties.tla.errors import InputError
from properties.tla.specs import SpecTree

TABLE = "verdicts.toml"
#: Apalache's task in a row without an invariant.
TYPES = "types"
#: The figures that `highwater spec --update` may rewrite. Verdicts are for people to change.
FIGURES = ("length", "distinct", "depth")


class Purpose(Enum):
    """The purpose of a configuration."""

    OK = "ok"
    """The rules as they are: everything promised holds."""
    BUG = "bug"
    """A rule switched off: a named promise breaks."""
    PROBE = "probe"
    """A witness against vacuity: "never" is asserted of something that must be reachable."""


@frozen
class ApalacheCheck:
    """A further check by Apalache; without an invariant, of the types alone.

    The check of an invariant is symbolic, and bounded only in length. With `init` it starts from
    any state of a definition instead of the initial ones, so with length 1 it proves the invariant
    inductive.
    """

    inv: str | None = None
    length: int = 0
    init: str | None = None
    module: str | None = None
    """The module of the definitions, if it is another one."""
    expect: Status = Status.PASSED

    def __str__(self) -> str:
        start = f" from {self.init}" if self.init else ""
        return f"{self.inv}{start}" if self.inv else TYPES


@frozen
class ExpectedVerdict:
    """One row: a configuration's expected result, to the digit."""

    cfg: str
    kind: Purpose
    expect: Status
    property: str | None = None
    length: int | None = None
    distinct: int | None = None
    depth: int | None = None
    seconds: float = 60.0
    full: bool = False
    """Run with `--full` only, or when named: it takes TLC long."""
    kip: str | None = None
    jira: str | None = None
    note: str = ""
    because: str = ""
    """The reason of the last change of a pinned figure."""
    apalache: tuple[ApalacheCheck, ...] = ()


@frozen
class Diagram:
    """The drawing of a module's counterexamples: the lifeline that each action parameter names."""

    lifelines: Mapping[str, str] = field(factory=dict[str, str])
    center: str | None = None
    """A lifeline for actions of no named party, such as a controller."""
    center_actions: tuple[str, ...] = ()
    """The center's actions on the parties that the arguments name."""


@frozen
class Scopes:
    """The configurations that each Python tool runs on, small ones first."""

    conform: tuple[str, ...] = ()
    """By `highwater conform`: each that the machines can be set up for."""
    disk: tuple[str, ...] = ()
    """Those of them that also run the machines on Kafka's files."""
    mutants: tuple[str, ...] = ()
    """The scopes in which bugs of the machines are searched: together they have every rule."""
    tour: tuple[str, ...] = ()
    """Those of them with a tour over the edges."""
    guards: tuple[str, ...] = ()
    """The configurations that may detect a dropped guard of the spec."""


@frozen
class Guards:
    """The guards of the module's actions whose absence need not change any verdict."""

    bounds: tuple[str, ...] = ()
    """Those that only end the model."""
    equivalent: Mapping[str, str] = field(factory=dict[str, str])
    """Those that may go, `Action: guard`, and why."""
    missed: Mapping[str, str] = field(factory=dict[str, str])
    """By which configuration, and what differs in it, each of the others is missed."""


@frozen
class Recordings:
    """The settings and promises by which `highwater validate --promises` judges recordings."""

    narrow: Mapping[str, Any] = field(factory=dict[str, Any])
    """Settings and bounds that promise more. A recording that they allow is judged by them."""
    costly: tuple[str, ...] = ()
    """Promises that try every number up to a bound: asked within narrow bounds alone."""


@frozen
class Table:
    """All of `verdicts.toml`."""

    module: str
    path: Path
    verdicts: tuple[ExpectedVerdict, ...]
    diagram: Diagram
    rules: tuple[str, ...] = ()
    """The constants that are rules or settings; the others are bounds and faults."""
    scopes: Scopes = Scopes()
    guards: Guards = Guards()
    mutants: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    """By which checks each known bug of the machines is found."""
    controls: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    """Promises that no `bug_` row breaks, or not in all their parts, and the mutants of the spec
    that break them.
    """
    refusals: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    """The refusal of each guard, by `guard` or `Action: guard`: errors by their Kafka names."""
    recordings: Recordings = Recordings()

    def row(self, cfg: str) -> ExpectedVerdict:
        for verdict in self.verdicts:
            if verdict.cfg == cfg:
                return verdict
        raise InputError(f"{self.path}: no verdict for {cfg!r}")


@frozen
class Difference:
    """One figure that differs from the table."""

    what: str
    expected: object
    found: object

    def __str__(self) -> str:
        expected = "not pinned" if self.expected is None else f"expected {self.expected}"
        return f"{self.what}: {expected}, found {'none' if self.found is None else self.found}"


def compare(verdict: ExpectedVerdict, outcome: Outcome) -> list[Difference]:
    """Everything in which an outcome is not what its row says, the gravest alone."""
    if outcome.status is not verdict.expect:
        found = outcome.status.value
        if outcome.violated:
            found += f" {outcome.violated}"
        if outcome.reason:
            found += f" ({outcome.reason})"
        wanted = " ".join(filter(None, (verdict.expect.value, verdict.property)))
        return [Difference("verdict", wanted, found)]
    pairs = [(name, getattr(verdict, name), getattr(outcome, name)) for name in FIGURES]
    pairs.insert(0, ("property", verdict.property, outcome.violated))
    return [Difference(*pair) for pair in pairs if pair[1] != pair[2]]


def compare_symbolic(asked: ApalacheCheck, outcome: Outcome) -> list[Difference]:
    """The same for Apalache. Not checked is no difference: it is said, and not counted as good."""
    if outcome.status in (asked.expect, Status.NOT_CHECKED):
        return []
    found = " ".join(filter(None, (outcome.status.value, outcome.reason)))
    return [Difference("Apalache", f"{asked.expect.value} {asked}", found)]


# ---------------------------------------------------------------------------- reading


def load(module: str, tree: SpecTree) -> Table:
    """The table of a module; rows and cfg files must match one to one."""
    path = tree.folder(module) / TABLE
    if not path.is_file():
        raise InputError(f"{module} has no table of verdicts: expected {path}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as wrong:
        raise InputError(f"{path}: not TOML: {wrong}") from None
    rows = _typed(data, "verdict", list, f"{path}: ", [])
    verdicts = tuple(_row(path, number, row) for number, row in enumerate(rows, start=1))
    _matched(path, verdicts, tree.models(module))
    return Table(
        module,
        path,
        verdicts,
        _diagram(path, data),
        tuple(_typed(data, "rules", list, f"{path}: ", [])),
        _scopes(path, data, verdicts),
        _guards(path, data),
        _lists(path, data, "mutants"),
        _controls(path, data),
        _lists(path, data, "refusals"),
        _recordings(path, data),
    )


def _lists(path: Path, data: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    """A table of lists."""
    found = _typed(data, name, dict, f"{path}: ", {})
    return {key: tuple(_typed(found, key, list, f"{path}: [{name}]: ")) for key in found}


def _controls(path: Path, data: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """One mutant for each promise, or several."""
    found = _typed(data, "controls", dict, f"{path}: ", {})
    where = f"{path}: [controls]: "
    told = {key: _typed(found, key, (str, list), where) for key in found}
    return {key: (one,) if isinstance(one, str) else tuple(one) for key, one in told.items()}


def _diagram(path: Path, data: Mapping[str, Any]) -> Diagram:
    drawn, where = _section(path, data, "diagram", Diagram)
    return Diagram(
        _typed(drawn, "lifelines", dict, where, {}),
        _typed(drawn, "center", str, where, None),
        tuple(_typed(drawn, "center_actions", list, where, [])),
    )


def _scopes(path: Path, data: Mapping[str, Any], verdicts: Sequence[ExpectedVerdict]) -> Scopes:
    named, where = _section(path, data, "scopes", Scopes)
    lists = {name: tuple(_typed(named, name, list, where, [])) for name in fields_dict(Scopes)}
    known = {verdict.cfg for verdict in verdicts}
    for name, cfgs in lists.items():
        for cfg in cfgs:
            if cfg not in known:
                raise InputError(f'{where}"{name}" names {cfg!r}, which is no configuration')
    large = {verdict.cfg for verdict in verdicts if verdict.full}.intersection(lists["mutants"])
    if large:
        raise InputError(f'{where}"mutants" names {min(large)!r}, which is run with --full only')
    return Scopes(**lists)


def _guards(path: Path, data: Mapping[str, Any]) -> Guards:
    named, where = _section(path, data, "guards", Guards)
    return Guards(
        tuple(_typed(named, "bounds", list, where, [])),
        _typed(named, "equivalent", dict, where, {}),
        _typed(named, "missed", dict, where, {}),
    )


def _recordings(path: Path, data: Mapping[str, Any]) -> Recordings:
    named, where = _section(path, data, "recordings", Recordings)
    return Recordings(
        _typed(named, "narrow", dict, where, {}), tuple(_typed(named, "costly", list, where, []))
    )


def _section(
    path: Path, data: Mapping[str, Any], name: str, shape: type
) -> tuple[dict[str, Any], str]:
    """A table of the file, empty if it is not there, and how to name it when it is wrong."""
    where = f"{path}: [{name}]: "
    section = _typed(data, name, dict, f"{path}: ", {})
    _known(section, shape, where)
    return section, where


def _row(path: Path, number: int, row: Any) -> ExpectedVerdict:
    if not isinstance(row, dict):
        raise InputError(f"{path}: row {number} is not a table: write [[verdict]]")
    data = cast("dict[str, Any]", row)
    where = f"{path}: row {number} ({data.get('cfg', 'no cfg')}): "
    _known(data, ExpectedVerdict, where)
    cfg = _typed(data, "cfg", str, where)
    kind = _one_of(data, "kind", {kind.value: kind for kind in Purpose}, where)
    expect = _one_of(data, "expect", _EXPECT, where)
    verdict = ExpectedVerdict(
        cfg,
        kind,
        expect,
        *(_typed(data, name, str, where, None) for name in ("property",)),
        *(_typed(data, name, int, where, None) for name in FIGURES),
        seconds=_typed(data, "seconds", (int, float), where, 60.0),
        full=_flag(data, "full", where),
        kip=_typed(data, "kip", str, where, None),
        jira=_typed(data, "jira", str, where, None),
        note=_typed(data, "note", str, where, ""),
        because=_typed(data, "because", str, where, ""),
        apalache=_apalache(data, where),
    )
    if (expect is Status.PASSED) is not (kind is Purpose.OK):
        raise InputError(
            f'{where}kind "{kind.value}" does not go with this "expect": '
            '"ok" passes, "bug" and "probe" violate'
        )
    if expect is Status.VIOLATED and verdict.property is None:
        raise InputError(f'{where}"property" is missing: which one is violated?')
    if expect is Status.PASSED and (verdict.property or verdict.length):
        raise InputError(f'{where}"property" and "length" belong to a violation')
    return verdict


def _apalache(data: Mapping[str, Any], where: str) -> tuple[ApalacheCheck, ...]:
    asked = _typed(data, "apalache", list, where, [])
    return tuple(_symbolic(one, f"{where}apalache: ") for one in asked)


def _symbolic(asked: Any, where: str) -> ApalacheCheck:
    if asked == TYPES:
        return ApalacheCheck()
    if not isinstance(asked, dict):
        raise InputError(f'{where}{asked!r} is neither "{TYPES}" nor a table')
    data = cast("dict[str, Any]", asked)
    _known(data, ApalacheCheck, where)
    return ApalacheCheck(
        inv=_typed(data, "inv", str, where),
        length=_typed(data, "length", int, where),
        init=_typed(data, "init", str, where, None),
        module=_typed(data, "module", str, where, None),
        expect=_one_of({"expect": "pass", **data}, "expect", _EXPECT, where),
    )


_EXPECT = {"pass": Status.PASSED, "violates": Status.VIOLATED}
_REQUIRED = object()


def _typed(
    data: Mapping[str, Any], name: str, kind: Any, where: str, default: Any = _REQUIRED
) -> Any:
    """A field of the right type, or an error that names it."""
    value = data.get(name, default)
    if value is _REQUIRED:
        raise InputError(f'{where}"{name}" is missing')
    if name not in data or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    kinds = cast("tuple[type, ...]", kind if isinstance(kind, tuple) else (kind,))
    names = [one.__name__ for one in kinds]
    raise InputError(f'{where}"{name}" is {value!r}, expected {" or ".join(names)}')


def _flag(data: Mapping[str, Any], name: str, where: str) -> bool:
    """A field that is true or absent."""
    if data.get(name, True) is not True:
        raise InputError(f'{where}"{name}" is {data[name]!r}: write true, or nothing')
    return name in data


def _one_of(data: Mapping[str, Any], name: str, choices: Mapping[str, Any], where: str) -> Any:
    value = _typed(data, name, str, where)
    if value not in choices:
        raise InputError(f'{where}"{name}" is "{value}", expected one of: {", ".join(choices)}')
    return choices[value]


def _known(data: Mapping[str, Any], shape: type, where: str) -> None:
    unknown = sorted(data.keys() - fields_dict(shape).keys())
    if unknown:
        known = ", ".join(fields_dict(shape))
        raise InputError(f'{where}unknown field "{unknown[0]}" (there are: {known})')


def _matched(path: Path, verdicts: Sequence[ExpectedVerdict], models: Sequence[Path]) -> None:
    """Refuse configurations without a row, and rows without a configuration."""
    rows, files = [v.cfg for v in verdicts], [model.stem for model in models]
    for cfg in rows:
        if rows.count(cfg) > 1:
            raise InputError(f"{path}: {rows.count(cfg)} rows for {cfg!r}")
        if cfg not in files:
            raise InputError(f"{path}: the row {cfg!r} has no file cfg/{cfg}.cfg")
    for cfg in files:
        if cfg not in rows:
            raise InputError(f"{path}: cfg/{cfg}.cfg has no row [[verdict]]")


# ---------------------------------------------------------------------------- pinning


def repinned(table: Table, found: Mapping[str, Outcome]) -> list[str]:
    """The pinned figures that would change, in words: each needs a reason."""
    return [
        f"{table.module}/{row.cfg}: {name} is pinned as {old}, and found is {new}"
        for row in table.verdicts
        if row.cfg in found
        for name in FIGURES
        if (old := getattr(row, name)) not in (None, new := getattr(found[row.cfg], name))
    ]


def pin(table: Table, found: Mapping[str, Outcome], because: str = "") -> list[str]:
    """Write the figures found into the table, and say what changed; all else stays as it is.

    The reason is kept beside each pinned figure that changes.
    """
    document = tomlkit.parse(table.path.read_text(encoding="utf-8"))
    changes: list[str] = []
    for row in cast("list[dict[str, Any]]", document["verdict"]):
        outcome = found.get(row["cfg"])
        if outcome is None:
            continue
        for name in FIGURES:
            old, new = row.get(name), getattr(outcome, name)
            if old == new:
                continue
            was = "not pinned" if old is None else old
            changes.append(f"{table.module}/{row['cfg']}: {name} was {was}, is now {new}")
            if because and old is not None:
                row["because"] = because
            if new is None:
                del row[name]
            else:
                row[name] = new
    if changes:
        table.path.write_text(tomlkit.dumps(document), encoding="utf-8")
    return changes


def pin_mutants(
    table: Table, killers: Mapping[str, Sequence[str]], missed: Mapping[str, str]
) -> None:
    """Write the results of mutants and dropped guards into the table; nothing else changes."""
    document = tomlkit.parse(table.path.read_text(encoding="utf-8"))
    _refill(document, "mutants", {name: list(found) for name, found in killers.items()})
    if missed:
        if "guards" not in document:
            document["guards"] = tomlkit.table()
        _refill(document["guards"], "missed", missed)
    table.path.write_text(tomlkit.dumps(document), encoding="utf-8")


def _refill(parent: Any, name: str, values: Mapping[str, Any]) -> None:
    """Fill a table of the document anew, in this order; its place and its comment stay."""
    if not values:
        return
    if name not in parent:
        parent[name] = tomlkit.table()
    for key in [key for key in parent[name] if key not in values]:
        del parent[name][key]
    for key, value in values.items():
        parent[name][key] = value
