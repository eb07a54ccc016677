"""The mutants of a module's promises: each says less than the promise, or something else.

A rule that is dropped must break a promise. A promise that is weakened must fail to break: some
`bug_` row whose property it is must pass now, or an `ok_` row must not. Otherwise the promise could
lose this part, and no row would tell.

Where a part stands decides what weakens the promise: without a conjunct it says less, and without a
disjunct of an antecedent as well. Where that is open, as in a set or a function, both are changed.
A promise is changed in SANY's syntax tree, since it may nest and reach over lines.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from attrs import define, field, frozen

from properties.mutants import guards
from properties.mutants.spec_mutants import SpecMutant, kept_by_all, moved, source, with_variable
from properties.proofs.sany import exported
from properties.tla.specs import ModelConfig, SpecTree
from properties.tla.twins import promises
from properties.tla.verdicts import Purpose, load


@frozen
class PromiseMutant(SpecMutant):
    """One small change of a promise; `start` and `end` are those of the formula around it."""

    formula: str
    """The whole formula with the change in it, its lines as they are in the file."""
    promises: frozenset[str]
    """The properties of the configurations that say something else with it."""


@frozen
class _Sign:
    """The direction in which a part may change for its promise to say less.

    A formula *grows* if it is true more often, and a set if it has more elements.
    """

    grows: bool
    shrinks: bool

    @property
    def flipped(self) -> "_Sign":
        return _Sign(self.shrinks, self.grows)

    def joined(self, other: "_Sign") -> "_Sign":
        return _Sign(self.grows or other.grows, self.shrinks or other.shrinks)


_POSITIVE, _EITHER = _Sign(True, False), _Sign(True, True)
_NO_SIGN = _Sign(False, False)

#: A comparison that holds more often, and one that holds less often.
_WIDER = {"<": "<=", ">": ">="}
_NARROWER = {"\\leq": "<", "\\geq": ">"}
_OPPOSITE = {"=": "#", "/=": "=", "\\in": "\\notin", "\\notin": "\\in"}
_SIGNS = {
    **{"<": "<", ">": ">", "\\leq": "<=|=<|\\\\leq", "\\geq": ">=|\\\\geq", "=": "="},
    **{"/=": "/=|#", "\\in": r"\\in\b", "\\notin": r"\\notin\b"},
}
#: Operators between temporal formulas: what they join is changed, and they are not.
_LASTING = {"[]", "<>", "~>", "\\land", "\\lor", "$ConjList", "$DisjList", "=>", "\\lnot"}


def promise_mutants(module: str, tree: SpecTree | None = None) -> list[PromiseMutant]:
    """Every mutant of a module's promises, in the order of the text."""
    reader = _Reader.of(module, tree or SpecTree())
    found = {one.name: one for one in sorted(reader.mutants(), key=lambda one: one.start)}
    return list(found.values())


def joined_promises(
    mutants: Sequence[PromiseMutant], tree: SpecTree, text: str | None = None
) -> str:
    """The module, or this text of it, with all of these in it, numbered from 1, behind the
    variable `mutant`.
    """
    text = source(mutants[0].module, tree) if text is None else text
    formulas: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for number, one in enumerate(mutants, start=1):
        formulas.setdefault((one.start, one.end), []).append((number, one.formula))
    for (start, end), cases in sorted(formulas.items(), reverse=True):
        pad = " " * (start - (text.rfind("\n", 0, start) + 1))
        arms = [f"mutant = {number} -> (\n{pad}{formula})" for number, formula in cases]
        arms.append(f"OTHER -> (\n{pad}{guards.blanked(text[start:end])})")
        text = f"{text[:start]}(CASE {f'{chr(10)}{pad} [] '.join(arms)}){text[end:]}"
    return with_variable(kept_by_all(text))


def mutated_promise(mutant: PromiseMutant, tree: SpecTree) -> str:
    """The module with this one in it."""
    text = source(mutant.module, tree)
    return text[: mutant.start] + mutant.formula + text[mutant.end :]


# ---------------------------------------------------------------------------- the syntax tree


@frozen
class _Formula:
    """A formula that is changed as a whole: a promise's body, or what stands in its box."""

    start: int
    end: int
    of_step: bool


@define
class _Reader:
    """Reads a module's promises, and finds what can be changed in them."""

    module: str
    text: str
    entries: dict[str, ET.Element]
    by_name: dict[str, ET.Element]
    asked: frozenset[str]
    """The properties that some row is about; probes are no promises."""
    rules: frozenset[str]
    """The definitions that the behaviours are made of; `spec_mutants` changes them."""
    _lines: list[int] = field(factory=list[int])
    _owners: dict[str, set[str]] = field(factory=dict[str, set[str]])
    """The properties that reach a definition."""
    _signs: dict[str, _Sign] = field(factory=dict[str, _Sign])
    _seen: set[tuple[int, int, str]] = field(factory=set[tuple[int, int, str]])

    @classmethod
    def of(cls, module: str, tree: SpecTree) -> "_Reader":
        context = exported(module, module, tree).find("context")
        assert context is not None
        entries = {
            entry.findtext("UID", ""): next(part for part in entry if part.tag != "UID")
            for entry in context
        }
        defined = [one for one in entries.values() if one.tag == "UserDefinedOpKind"]
        # An instance brings its module along, whose Spec and Next are not those of this one.
        defined.sort(key=lambda one: one.findtext("location/filename") == module)
        by_name = {one.findtext("uniquename", ""): one for one in defined}
        text = guards.blanked(source(module, tree))
        reader = cls(module, text, entries, by_name, _promised(module, tree), frozenset())
        reader._lines = [0, *accumulate(len(line) + 1 for line in text.split("\n"))]
        behaviours = _behaviours(module, tree)
        reader.rules = frozenset(reader._reached(behaviours & by_name.keys()))
        return reader

    def mutants(self) -> Iterator[PromiseMutant]:
        self._spread()
        for name in self._signs:
            yield from self._of_definition(name)

    # What is reached, and in which direction

    def _reached(self, names: Iterable[str]) -> set[str]:
        waiting, found = [*names], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._named_in(self.by_name[name])
        return found

    def _named_in(self, definition: ET.Element) -> Iterator[str]:
        for one in definition.iter("UserDefinedOpKindRef"):
            named = self.entries[one.findtext("UID", "")].findtext("uniquename", "")
            if named in self.by_name:
                yield named

    def _spread(self) -> None:
        """Find which definitions the promises use, and what weakens them there."""
        for name in sorted(self.asked & self.by_name.keys()):
            for reached in self._reached([name]):
                self._owners.setdefault(reached, set()).add(name)
        self._signs = dict.fromkeys(sorted(self.asked & self.by_name.keys()), _POSITIVE)
        waiting = [*self._signs]
        while waiting:
            name = waiting.pop()
            for used, sign in self._uses(name):
                known = self._signs.get(used, _NO_SIGN)
                if (more := known.joined(sign)) != known:
                    self._signs[used] = more
                    waiting.append(used)

    def _uses(self, name: str) -> Iterator[tuple[str, _Sign]]:
        used: list[tuple[str, _Sign]] = []
        for formula, node, sign in self._formulas(name):
            for part, part_sign, _ in self._parts(formula, node, sign):
                if (called := self._called(part)) and not self._within(called, formula):
                    used.append((called, part_sign))
        yield from used

    def _called(self, node: ET.Element) -> str | None:
        """The definition of this module that a node uses, where it is no rule."""
        reference = node.find("operator/UserDefinedOpKindRef")
        if reference is None:
            return None
        kind = self.entries[reference.findtext("UID", "")]
        name = kind.findtext("uniquename", "")
        here = kind.findtext("location/filename") == self.module
        return name if here and name not in self.rules else None

    # Formulas

    def _formulas(self, name: str) -> Iterator[tuple[_Formula, ET.Element, _Sign]]:
        definition = self.by_name[name]
        body = definition.find("body")
        if body is not None and definition.findtext("location/filename") == self.module:
            yield from self._state_or_step(body[0], self._signs.get(name, _EITHER))

    def _state_or_step(
        self, node: ET.Element, sign: _Sign
    ) -> Iterator[tuple[_Formula, ET.Element, _Sign]]:
        """The largest parts that speak of a state or of a step."""
        operator = self._operator(node)
        operands = self._operands(node)
        if node.tag == "SubstInNode":
            for one in node.iterfind("substs/Subst"):
                if self._place(one[-1]) != self._place(node):
                    yield self._formula(one[-1], of_step=False), one[-1], _EITHER
        elif operator == "$SquareAct":
            yield self._formula(operands[0], of_step=True), operands[0], sign
        elif int(node.findtext("level", "0")) < 3:
            yield self._formula(node, of_step=node.findtext("level") == "2"), node, sign
        elif operator in _LASTING or operator in ("$BoundedForall", "$BoundedExists"):
            for number, one in enumerate(operands):
                turned = operator == "\\lnot" or (operator in ("=>", "~>") and number == 0)
                yield from self._state_or_step(one, sign.flipped if turned else sign)
        elif (called := self._called(node)) and "!" in called:
            body = self.by_name[called].find("body")
            if body is not None and body[0].tag == "SubstInNode":
                yield from self._state_or_step(body[0], _EITHER)

    def _formula(self, node: ET.Element, of_step: bool) -> _Formula:
        return _Formula(*self._place(node), of_step)

    # Parts of a formula

    def _parts(
        self, formula: _Formula, node: ET.Element, sign: _Sign, primed: bool = False
    ) -> Iterator[tuple[ET.Element, _Sign, bool]]:
        """Each part of a formula, with its sign, and whether it stands under a prime."""
        yield node, sign, primed
        operator = self._operator(node)
        for number, one in enumerate(self._operands(node)):
            inner = self._sign_of(operator, number, sign)
            yield from self._parts(formula, one, inner, primed or operator == "'")
        for bound in node.iterfind("boundSymbols/bound"):
            turned = {"$BoundedForall": sign.flipped, "$BoundedExists": sign, "$SubsetOf": sign}
            over = turned.get(operator, _EITHER)
            yield from self._parts(formula, bound[-1], over, primed)
        body = node.find("body") if node.tag == "LetInNode" else None
        if body is not None:
            yield from self._parts(formula, body[0], sign, primed)
        called = self._called(node)
        if called and self._within(called, formula):  # of a LET
            inside = self.by_name[called].find("body")
            if inside is not None:
                yield from self._parts(formula, inside[0], _EITHER, primed)

    def _within(self, name: str, formula: _Formula) -> bool:
        start, end = self._place(self.by_name[name])
        return formula.start <= start and end <= formula.end

    def _sign_of(self, operator: str, number: int, sign: _Sign) -> _Sign:
        """The sign of an operand."""
        if operator == "\\lnot" or (operator == "=>" and number == 0):
            return sign.flipped
        if operator in ("$IfThenElse", "$SubsetOf"):
            return _EITHER if number == 0 and operator == "$IfThenElse" else sign
        if operator == "\\":
            return sign.flipped if number else sign
        if operator in ("\\subseteq",):
            return sign if number else sign.flipped
        through = {"\\land", "\\lor", "=>", "$ConjList", "$DisjList", "\\union", "\\intersect"}
        quantified = {"$BoundedForall", "$BoundedExists", "'"}
        return sign if operator in through | quantified else _EITHER

    # Changes

    def _of_definition(self, name: str) -> Iterator[PromiseMutant]:
        for formula, node, sign in self._formulas(name):
            for part, part_sign, primed in self._parts(formula, node, sign):
                for kind, start, end, new in self._changes(part, part_sign, formula, primed):
                    if self.text[start:end].strip() == new.strip():
                        continue
                    if (start, end, new) not in self._seen:
                        self._seen.add((start, end, new))
                        yield self._mutant(name, kind, formula, self._place(part), start, end, new)

    def _mutant(
        self,
        name: str,
        kind: str,
        formula: _Formula,
        part: tuple[int, int],
        start: int,
        end: int,
        new: str,
    ) -> PromiseMutant:
        """The change of `start` to `end`, told by the part of the formula in which it is."""
        left, right = min(part[0], start), max(part[1], end)
        old = " ".join(self.text[left:right].split())
        told = " ".join((self.text[left:start] + new + self.text[end:right]).split())
        at = f" #{self._again(name, old, told, left)}" if self._again(name, old, told, left) else ""
        replaced = _fitted(new, self.text[start:end])
        column = start - (self.text.rfind("\n", 0, start) + 1)
        rest = self.text[end : formula.end]
        longer = len(replaced) - (end - start)
        return PromiseMutant(
            *(self.module, name, kind, old, f"{told}{at}", formula.start, formula.end),
            formula=self.text[formula.start : start] + replaced + moved(rest, column, longer),
            promises=frozenset(self._owners.get(name, ())),
        )

    _told: dict[tuple[str, str, str], list[int]] = field(
        factory=dict[tuple[str, str, str], list[int]]
    )

    def _again(self, name: str, old: str, new: str, at: int) -> int:
        """The number of the change among equal ones of a definition, 0 for the first."""
        places = self._told.setdefault((name, old, new), [])
        if at not in places:
            places.append(at)
        number = places.index(at)
        return number + 1 if number else 0

    def _changes(
        self, node: ET.Element, sign: _Sign, formula: _Formula, primed: bool
    ) -> Iterator[tuple[str, int, int, str]]:
        """The changes of one part: kind, place and new text."""
        operator, operands = self._operator(node), self._operands(node)
        places = [self._place(one) for one in operands]
        start, end = self._place(node)
        if operator in ("\\land", "$ConjList") and sign.grows:
            yield from (("dropped", *place, "TRUE") for place in places)
        elif operator in ("\\lor", "$DisjList") and sign.shrinks:
            yield from (("dropped", *place, "FALSE") for place in places)
        elif operator == "=>" and sign.shrinks:
            yield "dropped", *places[0], "TRUE"
            yield "dropped", *places[1], "FALSE"
        elif operator == "=>" and sign.grows:
            yield "dropped", *places[0], "FALSE"
        elif operator == "\\lnot":
            yield "negated", start, start + 1, " "
        elif operator == "$BoundedForall" and sign.grows:
            yield from self._replaced("\\A", "\\E", start, end)
        elif operator == "$BoundedExists" and sign.shrinks:
            yield from self._replaced("\\E", "\\A", start, end)
        elif operator in ("\\union", "\\intersect", "\\"):
            yield from self._halves(operator, sign, start, end, places)
        elif operator == ".." and sign.shrinks:
            first, last = (self.text[slice(*place)] for place in places)
            yield "shifted", *places[0], f"({first} + 1)"
            yield "shifted", *places[1], f"({last} - 1)"
        elif operator in _SIGNS and len(places) == 2:
            yield from self._compared(operator, sign, places)
        elif operator == "'" and formula.of_step:
            yield "unprimed", end - 1, end, " "
        elif formula.of_step and not primed and self._is_variable(node):
            yield "primed", end, end, "'"

    def _is_variable(self, node: ET.Element) -> bool:
        declared = node.find("operator/OpDeclNodeRef") is not None
        return declared and node.findtext("level") == "1"

    def _replaced(
        self, old: str, new: str, start: int, end: int
    ) -> Iterator[tuple[str, int, int, str]]:
        if self.text.startswith(old, start, end):
            yield "quantified", start, start + 2, new

    def _halves(
        self,
        operator: str,
        sign: _Sign,
        start: int,
        end: int,
        places: Sequence[tuple[int, int]],
    ) -> Iterator[tuple[str, int, int, str]]:
        """A union without one of its sets, an intersection or a difference without the second."""
        left, right = (self.text[slice(*place)] for place in places)
        if operator == "\\union" and sign.shrinks:
            yield "dropped", *places[0], "{}"
            yield "dropped", *places[1], "{}"
        elif operator == "\\intersect" and sign.grows:
            yield "dropped", *places[0], f"({right})" if "\n" not in right else right
            yield "dropped", *places[1], f"({left})" if "\n" not in left else left
        elif operator == "\\" and sign.grows:
            yield "dropped", *places[1], "{}"

    def _compared(
        self, operator: str, sign: _Sign, places: Sequence[tuple[int, int]]
    ) -> Iterator[tuple[str, int, int, str]]:
        (_, left), (right, _) = places
        seen = re.search(_SIGNS[operator], self.text[left:right])
        if seen is None:
            return
        start, end = left + seen.start(), left + seen.end()
        if operator in _OPPOSITE:
            yield "shifted", start, end, _OPPOSITE[operator]
        if operator in _WIDER and sign.grows:
            yield "shifted", start, end, _WIDER[operator]
        if operator in _NARROWER and sign.shrinks:
            yield "shifted", start, end, _NARROWER[operator]

    # Nodes

    def _operator(self, node: ET.Element) -> str:
        reference = node.find("operator")
        if reference is None:
            return ""
        return self.entries[reference[0].findtext("UID", "")].findtext("uniquename", "")

    def _operands(self, node: ET.Element) -> list[ET.Element]:
        operands = node.find("operands")
        return [] if operands is None else [*operands]

    def _place(self, node: ET.Element) -> tuple[int, int]:
        """The place of a node in the text."""
        at = [
            int(node.findtext(f"location/{axis}/{side}", "0"))
            for side in ("begin", "end")
            for axis in ("line", "column")
        ]
        return self._lines[at[0] - 1] + at[1] - 1, self._lines[at[2] - 1] + at[3]


def _fitted(new: str, old: str) -> str:
    """The new text, with blanks and line ends for what the old one has more."""
    if "\n" in new:
        return new
    return new + re.sub(r"[^\n]", " ", old[len(new) :]) if "\n" in old else new.ljust(len(old))


def _promised(module: str, tree: SpecTree) -> frozenset[str]:
    """The properties that some `ok_` row promises, or some `bug_` row breaks."""
    found = set[str]()
    for row in load(module, tree).verdicts:
        if row.kind is Purpose.OK:
            found.update(promises(ModelConfig.read(tree.model(module, row.cfg))))
        elif row.kind is Purpose.BUG and row.property is not None:
            found.add(row.property)
    return frozenset(found)


def _behaviours(module: str, tree: SpecTree) -> set[str]:
    """The names of what the configurations explore, or constrain."""
    sections = ("SPECIFICATION", "INIT", "NEXT", "CONSTRAINTS", "ACTION_CONSTRAINTS", "VIEW")
    found = set[str]()
    for model in tree.models(module):
        config = ModelConfig.read(model)
        for section in sections:
            found.update(config.names(section))
    return found
