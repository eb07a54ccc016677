"""The guard mutants of the specs: each guard of each action, dropped in turn.

If no check detects a dropped guard, no model exercises it, or it is redundant. So each must be
detected: a passing configuration now violates a promise, or a failing one violates another promise.
A changed count alone shows little. Then the machines must detect it. In some state this guard alone
forbids a step, so the spec without it would allow a step that the machines refuse, and conformance
fails. The module's `verdicts.toml` lists guards that may go, with the reason.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import orjson
from attrs import evolve, frozen

from properties.tla import InputError, SpecTree, load_graph
from properties.tla.checker import Outcome, Status
from properties.tla.guards import load_false_guards
from properties.tla.specs import cache_folder
from properties.tla.tlc import Tlc
from properties.tla.tools import digest
from properties.tla.verdicts import FIGURES, Table, compare, load

#: The most configurations asked of a guard that may go: none is expected to detect it.
FEW = 2
LIMIT_S = 40.0
#: The machines' conformance is asked about the first of them: the last ones are large.
FIRST_ASKED = 8
#: The beginning of an answer without a detector, if a configuration was not checked to its end.
UNFINISHED = "not finished: "


@frozen
class Guard:
    """One conjunct of an action, and its place in the file."""

    module: str
    action: str
    text: str
    start: int
    end: int
    again: int = 1
    """The action may have the same conjunct more than once."""

    @property
    def place(self) -> str:
        return f"{self.action}: {self.text}" + (f" #{self.again}" if self.again > 1 else "")

    @property
    def name(self) -> str:
        return f"{self.module}.{self.place}"


_DEFINITION = re.compile(r"^(\w+)(\([^)\n]*\))? ==", re.MULTILINE)
_RULE = re.compile(r"^-{4,}|^={4,}", re.MULTILINE)
_COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)
_INSTANCE = re.compile(r"\s*INSTANCE\b")
_NO_GUARD = re.compile(r"^$|^LET |:$|^IF (?!.*\bELSE\b)")
_BRANCH = re.compile(r"\n( *)(?:ELSE|IN|THEN)\b")
_BULLET = re.compile(r"(?:^|==|\bIN\b|\bTHEN\b|\bELSE\b|:)[ \t]*(/\\)", re.MULTILINE)
_LISTS = re.compile(r"\s*(?:/\\|LET\b)")
_OPENS_A_LIST = re.compile(r"(?:==|\bIN|\bTHEN|\bELSE|:)\s*$")
#: TLC's exit codes where the guard gives the rest its meaning, as if it protects a domain.
_NO_MEANING = re.compile(r"exit code 7[5-7]\b")


def guards(module: str, tree: SpecTree | None = None) -> list[Guard]:
    """The guards of a module's actions, and of the operators that they are made of."""
    tree = tree or SpecTree()
    text = blanked((tree.folder(module) / f"{module}.tla").read_text(encoding="utf-8"))
    bodies = dict(definitions(text))
    texts = {name: text[start:end] for name, (start, end) in bodies.items()}
    actions = acting({**elsewhere(module, tree), **texts})
    found: list[Guard] = []
    for action in sorted(actions & texts.keys(), key=lambda name: bodies[name]):
        for start, end in conjuncts(text, *bodies[action]):
            piece = " ".join(text[start:end].split())
            if not acts(piece, actions) and not _NO_GUARD.search(piece):
                found.append(Guard(module, action, piece, start, end))
    for operator in sorted(_named_guards({g.text for g in found}, texts)):
        start, end = bodies[operator]
        for left, right in operands(text, start, end):
            piece = " ".join(text[left:right].split())
            found.append(Guard(module, operator, piece, left, right))
    return [*_numbered(found)]


def elsewhere(module: str, tree: SpecTree) -> dict[str, str]:
    """The definitions of the modules that this one takes actions from: `T!Write(l)`."""
    files = [file for file in tree.closure(module) if file.stem != module]
    texts = [blanked(file.read_text(encoding="utf-8")) for file in files]
    return {name: one[a:b] for one in texts for name, (a, b) in definitions(one)}


def _numbered(found: Iterable[Guard]) -> Iterator[Guard]:
    seen = Counter[str]()
    for guard in found:
        seen[guard.place] += 1
        yield evolve(guard, again=seen[guard.place])


def _named_guards(pieces: set[str], texts: dict[str, str]) -> set[str]:
    """The operators that bundle several guards, such as `CanFetch(f, l)`, and those in it."""
    named: set[str] = set()
    for piece in pieces:
        call = re.match(r"(\w+)\([^()]*\)$", piece)
        body = texts.get(call[1], "") if call else ""
        if call and len(parts := _parts(body)) > 1:
            named |= {call[1]} | _named_guards({*parts}, texts)
    return named


def blanked(text: str) -> str:
    """Comments become spaces, so that every position stays."""
    return _COMMENT.sub(lambda seen: re.sub(r"[^\n]", " ", seen[0]), text)


def definitions(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each definition's body before Next; later definitions are about whole behaviours."""
    heads = list(_DEFINITION.finditer(text))
    for head, following in pairwise(heads):
        if head[1] == "Next":
            return
        if _INSTANCE.match(text, head.end()):
            continue
        rule = _RULE.search(text, head.end(), following.start())
        yield head[1], (head.end(), rule.start() if rule else following.start())


def acting(bodies: dict[str, str]) -> set[str]:
    """The definitions that say something about the next state, `Init` and constants not."""
    acting = {name for name, body in bodies.items() if "'" in body or "UNCHANGED" in body}
    while True:
        more = {name for name, body in bodies.items() if name not in acting and acts(body, acting)}
        if not more:
            return acting
        acting |= more


def acts(text: str, acting: set[str]) -> bool:
    return "'" in text or "UNCHANGED" in text or bool(acting & set(re.findall(r"\w+", text)))


def conjuncts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    r"""The places of a body's conjuncts: bullets, and parts that `/\` joins within a bullet."""
    bullets = [*_bullets(text, start, end)]
    for here, beyond in pairwise([*bullets, end]):
        body_start, body_end = here + 2, _operand_end(text, here + 2, beyond)
        yield from joined(text, body_start, body_end)


def _bullets(text: str, start: int, end: int) -> Iterator[int]:
    r"""Every `/\` that begins a conjunct; one outside a list's column joins operands."""
    columns: list[int] = []
    for match in _BULLET.finditer(text, start - 2, end):
        at = match.start(1)
        column = at - (text.rfind("\n", 0, at) + 1)
        columns = [one for one in columns if one <= column]
        if _OPENS_A_LIST.search(text, max(0, start - 2), at):
            columns.append(column)
        if column in columns:
            yield at


def operands(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The places of what an operator joins: the conjuncts of its list, which LET may precede."""
    listed = _LISTS.match(text, start, end)
    whole = conjuncts if listed else joined
    cut = whole(text, start, end if listed else _operand_end(text, start, end))
    return [(left, right) for left, right in cut if text[left:right].strip()]


def joined(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between the joints of a bullet."""
    joints = _joints(text, start, end)
    return zip([start, *(joint + 2 for joint in joints)], [*joints, end], strict=True)


def _operand_end(text: str, start: int, end: int) -> int:
    """The end of a bullet: before the next one, and before the other branch of its parent.

    A word or quantifier that leads to the next bullet is not included.
    """
    column = start - 2 - (text.rfind("\n", 0, start) + 1)
    branch = _BRANCH.search(text, start, end)
    while branch and len(branch[1]) > column:
        branch = _BRANCH.search(text, branch.end(), end)
    body = text[start : branch.start() if branch else end].rstrip()
    return start + len(re.sub(r"\s(IN|THEN|ELSE|LET)$", "", body))


def _joints(text: str, start: int, end: int) -> list[int]:
    """Every `/\\` that joins two conjuncts of a bullet, outside all brackets.

    Around an implication, and behind a quantifier or CHOOSE, it belongs to that.
    """
    depth, joints = 0, list[int]()
    for at in range(start, end):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        elif depth == 0:
            if text.startswith("=>", at):
                return []  # what was joined so far is its premise
            if text.startswith(("\\/", "\\A ", "\\E ", "CHOOSE ", "IF "), at):
                break
            if text.startswith("/\\", at):
                joints.append(at)
    return joints


# ------------------------------------------------------------------------------ dropping them


def killer(guard: Guard, tree: SpecTree | None = None) -> str | None:
    """The detector of the missing guard: a configuration, and its difference.

    If only a count differs, or nothing, the detector is the machines' conformance, or a promise of
    another module. An unfinished configuration shows nothing; those are listed after `UNFINISHED`.
    """
    tree = tree or SpecTree()
    unfinished: list[str] = []
    for number, (cfg, different) in enumerate(_differences(guard, tree)):
        if different is None:
            unfinished.append(cfg)
        for what in different or ():
            if what not in FIGURES:
                return f"{cfg}: {what}"
        if number == 0 and (found := by_conformance(guard, tree)):
            return found
    return UNFINISHED + ", ".join(unfinished) if unfinished else None


def tells(missed: str | None) -> bool:
    """True if something detects the missing guard."""
    return missed is not None and not missed.startswith(UNFINISHED)


def remembered(guard: Guard, tree: SpecTree | None = None) -> str | None:
    """Like `killer`, from kept answers if there are any; an interrupted run resumes.

    Unfinished configurations are asked again.
    """
    tree = tree or SpecTree()
    table = load(guard.module, tree)
    asked = _asked(guard, table)
    place = {"guard": guard.place, "asked": [*asked]}
    answers = _answers(table, tree)
    for line in answers.read_bytes().splitlines() if answers.is_file() else ():
        row = orjson.loads(line)
        if row | place == row:
            return row["missed"]
    missed = killer(guard, tree)
    if missed is not None and not tells(missed):
        return missed
    answers.parent.mkdir(parents=True, exist_ok=True)
    with answers.open("ab") as file:
        file.write(orjson.dumps(place | {"missed": missed}, option=orjson.OPT_APPEND_NEWLINE))
    return missed


def _answers(table: Table, tree: SpecTree) -> Path:
    """The file of the answers, valid until the module or its questions change."""
    cfgs = (*table.scopes.guards, *table.scopes.mutants)
    sources = [*tree.closure(table.module), *(tree.model(table.module, cfg) for cfg in cfgs)]
    key = digest([*sources, Path(__file__)], *(str(table.row(cfg)) for cfg in cfgs))
    return cache_folder() / "mutants" / f"guards-{table.module}-{key}.jsonl"


def _asked(guard: Guard, table: Table) -> tuple[str, ...]:
    """The configurations to ask: few, if none is expected to detect anything."""
    few = guard.place in table.guards.equivalent
    return table.scopes.guards[:FEW] if few else table.scopes.guards


def _differences(guard: Guard, tree: SpecTree) -> Iterator[tuple[str, list[str] | None]]:
    """The configurations that are asked, and what differs in the verdict of each without it.

    None of one that was not checked to its end.
    """
    scratch = Path(tempfile.mkdtemp(prefix="highwater-guard-"))
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        _drop(guard, mutated)
        table = load(guard.module, mutated)
        for cfg in _asked(guard, table):
            row = table.row(cfg)
            outcome = Tlc(mutated, quick=True).check(guard.module, cfg, LIMIT_S)
            answered = _is_an_answer(outcome, guard, cfg)
            yield cfg, [one.what for one in compare(row, outcome)] if answered else None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _is_an_answer(outcome: Outcome, guard: Guard, cfg: str) -> bool:
    """True if TLC gave a verdict. A time-out is none.

    Raises `InputError` if the remaining text is no spec, or TLC failed otherwise.
    """
    if outcome.status is Status.FAILED and not _NO_MEANING.search(outcome.reason or ""):
        raise InputError(f"{cfg} without {guard.name}: {outcome.reason}")
    return outcome.status is not Status.TIMED_OUT


def by_conformance(guard: Guard, tree: SpecTree | None = None) -> str | None:
    """The first scope of the machines with a state in which this guard alone forbids a step."""
    tree = tree or SpecTree()
    texts, scopes = leaves(guard, tree), load(guard.module, tree).scopes
    few = [cfg for cfg in scopes.guards[:FIRST_ASKED] if cfg in scopes.conform]
    for cfg in (*scopes.mutants, *few):
        forbidding = _forbidding(guard.module, cfg)
        shared = guard.action not in forbidding  # an operator, for the actions that use it
        for action, sets in forbidding.items():
            if (shared or action == guard.action) and any(map(texts.issuperset, sets)):
                return f"{cfg}: conformance"
    return None


@cache
def _forbidding(module: str, cfg: str) -> Mapping[str, set[tuple[str, ...]]]:
    """Of each action all the sets of guards that are false together in some state."""
    labels, false = load_graph(module, cfg).actions, load_false_guards(module, cfg)
    found: dict[str, set[tuple[str, ...]]] = {label.name: set() for label in labels}
    for label, column in zip(labels, zip(*false.rows, strict=True), strict=True):
        found[label.name] |= {false.sets[number] for number in set(column) if number >= 0} - {()}
    return found


def leaves(guard: Guard, tree: SpecTree) -> frozenset[str]:
    """The guard as TLC's evaluator names it: an operator is what its definition joins."""
    bodies: dict[str, str] = {}
    for file in tree.closure(guard.module):
        text = blanked(file.read_text(encoding="utf-8"))
        read = {name: text[start:end] for name, (start, end) in definitions(text)}
        bodies = {**read, **bodies}  # another module may have the name for something else
    found: set[str] = set()
    waiting = [guard.text]
    while waiting:
        piece = _bare(waiting.pop())
        call = _called(piece)
        body = bodies.get(call) if call else None
        if body is None:
            found.add(piece)
        elif re.match(r"\s*(IF|CASE)\b", body):
            found.add(" ".join(body.split()))  # one expression, which is named by its text
        else:
            waiting.extend(_parts(body))
    return frozenset(found)


def _called(piece: str) -> str | None:
    """The operator whose application this is, arguments that are applications included.

    One without parameters is its name alone.
    """
    if re.fullmatch(r"\w+", piece):
        return piece
    head, depth = re.match(r"(\w+)\(", piece), 0
    for at in range(head.end() - 1 if head else len(piece), len(piece)):
        depth += {"(": 1, ")": -1}.get(piece[at], 0)
        if depth == 0:
            return head[1] if head and at == len(piece) - 1 else None
    return None


def _bare(piece: str) -> str:
    """Without the parentheses around all of it, which no evaluator knows of."""
    return _bare(piece[1:-1]) if re.fullmatch(r"\([^()]*\)", piece) else piece


def _parts(body: str) -> list[str]:
    """The conjuncts of an operator's body, each in one line."""
    text = f"=={body}"  # which says that a list may begin
    return [" ".join(text[a:b].split()) for a, b in operands(text, 2, len(text))]


def _drop(guard: Guard, tree: SpecTree) -> None:
    """Put TRUE in the guard's place; the layout, which matters in TLA+, stays."""
    file = tree.folder(guard.module) / f"{guard.module}.tla"
    text = file.read_text(encoding="utf-8")
    left = len(text[guard.start : guard.end]) - len(text[guard.start : guard.end].lstrip())
    tail = text[guard.end :]
    dropped = text[: guard.start + left] + "TRUE" + (" " if tail[:1] not in " \n" else "") + tail
    file.write_text(dropped, encoding="utf-8")
