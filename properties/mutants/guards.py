"""The guard mutants of the specs: each guard of each action, dropped in turn.

A guard that can go without any verdict changing is not exercised by any model, or says nothing. So
each must be missed by some configuration: one that passes now violates, or a pinned figure differs.
What may go is listed in the module's `verdicts.toml`, with the reason.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from attrs import frozen

from properties.tla import SpecTree
from properties.tla.tlc import Tlc
from properties.tla.verdicts import compare, load

#: Of guards that may go, only so many are asked: nothing is expected to tell.
FEW = 2
LIMIT_S = 40.0


@frozen
class Guard:
    """One conjunct of an action, and where in the file it stands."""

    module: str
    action: str
    text: str
    start: int
    end: int

    @property
    def place(self) -> str:
        return f"{self.action}: {self.text}"

    @property
    def name(self) -> str:
        return f"{self.module}.{self.place}"


_DEFINITION = re.compile(r"^(\w+)(\([^)\n]*\))? ==", re.MULTILINE)
_RULE = re.compile(r"^-{4,}|^={4,}", re.MULTILINE)
_COMMENT = re.compile(r"\(\*.*?\*\)|\\\*[^\n]*", re.DOTALL)
_NO_GUARD = re.compile(r"^$|^LET |:$")
_BULLET = re.compile(r"(?:^|==|\bIN|:)[ \t]*(/\\)", re.MULTILINE)


def guards(module: str, tree: SpecTree | None = None) -> list[Guard]:
    """The guards of a module's actions, and of the operators that they are made of."""
    tree = tree or SpecTree()
    text = _blanked((tree.folder(module) / f"{module}.tla").read_text(encoding="utf-8"))
    bodies = dict(_definitions(text))
    texts = {name: text[start:end] for name, (start, end) in bodies.items()}
    acting = _acting(texts)
    found: list[Guard] = []
    for action in sorted(acting, key=lambda name: bodies[name]):
        for start, end in _conjuncts(text, *bodies[action]):
            piece = " ".join(text[start:end].split())
            if not _acts(piece, acting) and not _NO_GUARD.search(piece):
                found.append(Guard(module, action, piece, start, end))
    for operator in sorted(_named_guards({g.text for g in found}, texts)):
        start, end = bodies[operator]
        for left, right in _joined(text, start, _operand_end(text, start, end)):
            piece = " ".join(text[left:right].split())
            found.append(Guard(module, operator, piece, left, right))
    return found


def _named_guards(pieces: set[str], texts: dict[str, str]) -> set[str]:
    """The operators that stand for several guards: `CanFetch(f, l)`, and those in it."""
    named: set[str] = set()
    for piece in pieces:
        call = re.match(r"(\w+)\([^()]*\)$", piece)
        body = texts.get(call[1], "") if call else ""
        if call and _joints(body, 0, len(body)):
            inner = {" ".join(part.split()) for part in body.split("/\\")}
            named |= {call[1]} | _named_guards(inner, texts)
    return named


def _blanked(text: str) -> str:
    """Comments become spaces, so that every position stays."""
    return _COMMENT.sub(lambda seen: re.sub(r"[^\n]", " ", seen[0]), text)


def _definitions(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Each definition's body before Next; what stands behind it speaks about behaviours."""
    heads = list(_DEFINITION.finditer(text))
    for head, following in pairwise(heads):
        if head[1] == "Next":
            return
        rule = _RULE.search(text, head.end(), following.start())
        yield head[1], (head.end(), rule.start() if rule else following.start())


def _acting(bodies: dict[str, str]) -> set[str]:
    """The definitions that say something about the next state, `Init` and constants not."""
    acting = {name for name, body in bodies.items() if "'" in body or "UNCHANGED" in body}
    while True:
        more = {name for name, body in bodies.items() if name not in acting and _acts(body, acting)}
        if not more:
            return acting
        acting |= more


def _acts(text: str, acting: set[str]) -> bool:
    return "'" in text or "UNCHANGED" in text or bool(acting & set(re.findall(r"\w+", text)))


def _conjuncts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Where the conjuncts of a body stand: bullets, and what `/\\` joins within a bullet."""
    bullets = [match.start(1) for match in _BULLET.finditer(text, start - 2, end)]
    for here, beyond in pairwise([*bullets, end]):
        body_start, body_end = here + 2, _operand_end(text, here + 2, beyond)
        yield from _joined(text, body_start, body_end)


def _joined(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts between the joints of a bullet."""
    joints = _joints(text, start, end)
    return zip([start, *(joint + 2 for joint in joints)], [*joints, end], strict=True)


def _operand_end(text: str, start: int, end: int) -> int:
    """A bullet ends before the next, without the word or the quantifier that leads to it."""
    body = text[start:end].rstrip()
    return start + len(re.sub(r"\s(IN|THEN|ELSE|LET)$", "", body))


def _joints(text: str, start: int, end: int) -> list[int]:
    """Every `/\\` that joins two conjuncts of a bullet, outside all brackets.

    Behind an implication or a quantifier it belongs to that.
    """
    depth, joints = 0, list[int]()
    for at in range(start, end):
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        elif depth == 0:
            if text.startswith(("=>", "\\A ", "\\E ", "IF "), at):
                break
            if text.startswith("/\\", at):
                joints.append(at)
    return joints


# ------------------------------------------------------------------------------ dropping them


def killer(guard: Guard, tree: SpecTree | None = None) -> str | None:
    """The configuration whose verdict is another without this guard, and what differs in it."""
    tree = tree or SpecTree()
    scratch = Path(tempfile.mkdtemp(prefix="highwater-guard-"))
    try:
        mutated = SpecTree(scratch / "tla")
        shutil.copytree(tree.root, mutated.root)
        _drop(guard, mutated)
        table = load(guard.module, mutated)
        asked = table.scopes.guards
        for cfg in asked[:FEW] if guard.place in table.guards.equivalent else asked:
            row = table.row(cfg)
            outcome = Tlc(mutated, quick=True).check(guard.module, cfg, LIMIT_S)
            for difference in compare(row, outcome):
                return f"{cfg}: {difference.what}"
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return None


def _drop(guard: Guard, tree: SpecTree) -> None:
    """Put TRUE in the guard's place; the layout, which matters in TLA+, stays."""
    file = tree.folder(guard.module) / f"{guard.module}.tla"
    text = file.read_text(encoding="utf-8")
    left = len(text[guard.start : guard.end]) - len(text[guard.start : guard.end].lstrip())
    tail = text[guard.end :]
    dropped = text[: guard.start + left] + "TRUE" + (" " if tail[:1] not in " \n" else "") + tail
    file.write_text(dropped, encoding="utf-8")
