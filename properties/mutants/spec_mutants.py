"""The mutants of a spec: guards dropped, comparisons shifted, assignments left out.

All mutants of a module are in one text, selected by a variable `mutant` that never changes. A
conjunct `a <= b` becomes `(CASE mutant = 1 -> (TRUE) [] mutant = 2 -> (a < b) [] OTHER -> (a <=
b))`. So TLC starts once, and its graph contains that of each mutant.
"""

import re
from collections.abc import Iterator, Sequence

from attrs import frozen

from properties.mutants import guards
from properties.tla.specs import SpecTree


@frozen
class SpecMutant:
    """One small change of a spec."""

    module: str
    action: str
    kind: str
    """`dropped`, `shifted` or `left out`."""
    old: str
    new: str
    start: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.action}: {self.old} -> {self.new}"


#: The mutants of a comparison: the boundary moves, or the answer is the other one.
SHIFTED = {
    **{"<=": "<", "<": "<=", ">=": ">", ">": ">=", "=": "#", "#": "="},
    **{r"\in": r"\notin", r"\notin": r"\in"},
}
_COMPARISON = re.compile(r"(?<![<>=\\/|:#'-])(<=|>=|<|>|#|=)(?![<>=|-])|(\\(?:not)?in)\b")
#: An `=` or `\in` that compares nothing: of EXCEPT, of a quantifier, of a set.
_NO_COMPARISON = re.compile(
    r"![.\[][^=#<>]*$"
    r"|(\\[AE]|CHOOSE|\{|\[)\s*([\w, ]+\\in [^:|]*,)?[\w, ]+\s*$"
    r"|\{(?!\s*\w+\s*\\in)[^{}]*:[\w, ]+\s*$"
)
#: Initial states: Init, OpenInit, InitMoving. InitProducerId is an action.
_INITIAL = re.compile(r"Init(?![a-z])")
_ASSIGNMENT = re.compile(r"(\w+)' = (?!\1\b\s*$)")
_LISTED = re.compile(r"^\s*(/\\|\\/)", re.MULTILINE)
_LEADS = re.compile(r"\s*(LET\b|IN\b|IF\b|CASE\b)")
_CONSTANTS = re.compile(r"^CONSTANTS?\b(.*?)^(?=\S)", re.MULTILINE | re.DOTALL)
_CONSTANT = re.compile(r"\b(\w+)\s*$")


def spec_mutants(module: str, tree: SpecTree | None = None) -> list[SpecMutant]:
    """Every mutant of a module, in the order of the text; bounds of the model are no rules."""
    tree = tree or SpecTree()
    text = guards.blanked(source(module, tree))
    bodies = dict(_before_behaviours(text))
    declared = " ".join(_CONSTANTS.findall(text))
    knobs = frozenset(re.findall(r"\w+", declared))
    known = {name: text[a:b] for name, (a, b) in bodies.items()}
    acting = guards.acting({**guards.elsewhere(module, tree), **known})
    found: list[SpecMutant] = []
    for action, (start, end) in bodies.items():
        initial = _INITIAL.search(action) and action not in acting
        if initial or text[start:end].lstrip().startswith("INSTANCE "):
            continue
        for left, right in _pieces(text, start, end):
            old = " ".join(text[left:right].split())
            for kind, new in _changes(old, guards.acts(old, acting), action in acting, knobs):
                found.append(SpecMutant(module, action, kind, old, new, left, right))
    return list({mutant.name: mutant for mutant in found}.values())


def _before_behaviours(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """The definitions before the last Next, or, where another module has it, before its use."""
    steps = [*_NEXT.finditer(text)]
    beyond = text.index("==", steps[-1].start()) if steps else _BEHAVIOURS.search(text)
    end = beyond if isinstance(beyond, int) else beyond.end() - 2 if beyond else len(text)
    return guards.definitions(f"{text[:end]}==\n")


def source(module: str, tree: SpecTree) -> str:
    """The text of a module."""
    return (tree.folder(module) / f"{module}.tla").read_text(encoding="utf-8")


#: All steps, under any name, and each of them.
_NEXT = re.compile(r"^\w*Next ==.*?(?=^\w|^-|\n\n)", re.MULTILINE | re.DOTALL)
_STEP = re.compile(
    r"(^ *\\/ |^\w*Next == )(\\E [^:]*:\s+)?(\S.*?)(?=\n *\\/ |\s*\Z)", re.MULTILINE | re.DOTALL
)
#: What they are named in: `Init /\ [][Next]_vars`.
_BEHAVIOURS = re.compile(r"^\w+ ==(?=[^\n]*\[\]\[)", re.MULTILINE)
_SQUARE = re.compile(r"\[\]\[(.*?)\]_")
_USED = re.compile(r"\b(?:EXTENDS|INSTANCE)\s+(\w+(?:\s*,\s*\w+)*)")


def stands_on(module: str, tree: SpecTree) -> list[str]:
    """The texts that define a module's steps and promises, its own first, without comments."""
    known = {file.stem: file for folder in tree.library() for file in folder.glob("*.tla")}
    waiting, found = [module], dict[str, str]()
    while waiting:
        name = waiting.pop()
        text = guards.blanked(known[name].read_text(encoding="utf-8"))
        found[name] = " ".join(text.split())
        used = {one for names in _USED.findall(text) for one in re.findall(r"\w+", names)}
        waiting += sorted(used & known.keys() - found.keys())
    return list(found.values())


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The conjuncts of a definition, or its body, where that is one expression on its own lines.

    The definitions of a LET are no parts of an expression.
    """
    found = [*guards.conjuncts(text, start, end)]
    if not found and not _LEADS.match(text, start, end):
        found = [*guards.joined(text, start, end)]
    for left, right in found:
        left += len(text[left:right]) - len(text[left:right].lstrip())
        right -= len(text[left:right]) - len(text[left:right].rstrip())
        piece = text[left:right]
        whole = not (_LISTED.search(piece) or _LEADS.match(piece) or piece.endswith(":"))
        if piece and whole:
            yield left, right


def _changes(
    old: str, acts: bool, in_action: bool, knobs: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """The mutations of one piece: the kind of the change, and the text.

    A comparison of a constant with a name selects rules. It is no rule itself.
    """
    assigned = _ASSIGNMENT.match(old)
    if assigned:
        yield "left out", f"{assigned[1]}' = {assigned[1]}"
    if acts and not assigned:
        return
    if in_action and not acts:
        yield "dropped", "TRUE"
    offset = assigned.end() if assigned else 0
    for seen in _COMPARISON.finditer(old, offset):
        left = _CONSTANT.search(old, 0, seen.start())
        if not _NO_COMPARISON.search(old, 0, seen.start()) and not (left and left[1] in knobs):
            sign = seen[1] or seen[2]
            yield "shifted", f"{old[: seen.start()]}{SHIFTED[sign]}{old[seen.end() :]}"


# ------------------------------------------------------------------------- all in one text


def joined_text(mutants: Sequence[SpecMutant], tree: SpecTree) -> str:
    """The module with all of these in it, numbered from 1, behind the variable `mutant`."""
    module = mutants[0].module
    text = source(module, tree)
    places: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for number, one in enumerate(mutants, start=1):
        places.setdefault((one.start, one.end), []).append((number, one.new))
    for (start, end), cases in sorted(places.items(), reverse=True):
        text = _with_cases(text, start, end, cases)
    return with_variable(kept_by_all(text))


def with_variable(text: str) -> str:
    """The module with a variable `mutant`."""
    head = re.search(r"^EXTENDS [^\n]*\n", text, re.MULTILINE)
    at = head.end() if head else text.index("\n") + 1
    return f"{text[:at]}VARIABLE mutant\n{text[at:]}"


def kept_by_all(text: str) -> str:
    """No step changes `mutant`; that is said first, since some read the next state."""
    keeps = r"mutant' = mutant /\\"
    steps = [*_NEXT.finditer(text)]
    if not steps:
        return _SQUARE.sub(rf"[][{keeps} (\1)]_", text, count=1)
    start, end = steps[-1].span()
    return text[:start] + _STEP.sub(rf"\1\2({keeps} (\3))", text[start:end]) + text[end:]


def _with_cases(text: str, start: int, end: int, cases: Sequence[tuple[int, str]]) -> str:
    """One place of the text, in all its versions; lines that were aligned with it stay so."""
    old = " ".join(guards.blanked(text[start:end]).split())
    arms = " [] ".join(f"mutant = {number} -> ({new})" for number, new in cases)
    column = start - (text.rfind("\n", 0, start) + 1)
    place = f"(CASE {arms} [] OTHER -> ({old}))"
    return text[:start] + place + moved(text[end:], column, len(place) - (end - start))


def moved(rest: str, column: int, by: int) -> str:
    """The lines below that begin to the right of this column belong to this line's lists."""
    lines = rest.split("\n")
    for number, line in enumerate(lines[1:], start=1):
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= column:
            break
        if line.strip():
            lines[number] = " " * max(0, by) + line
    return "\n".join(lines)


def mutated_text(mutant: SpecMutant, tree: SpecTree) -> str:
    """The module with this one in it."""
    text = source(mutant.module, tree)
    column = mutant.start - (text.rfind("\n", 0, mutant.start) + 1)
    longer = len(mutant.new) - (mutant.end - mutant.start)
    return text[: mutant.start] + mutant.new + moved(text[mutant.end :], column, longer)
