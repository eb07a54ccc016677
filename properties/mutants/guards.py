"""The guard mutants of the specs: each guard of each action, dropped in turn.

A guard that can go without any verdict changing is not exercised by any model, or says nothing. So
each must be missed by some configuration: one that passes now violates, or a pinned figure differs.
What may go is listed here, with the reason.
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

#: Guards that only end the model.
BOUNDS = frozenset(
    {
        "Len(committed) < MaxLength",
        "LogEnd(l) < MaxRecords",
        "Current < MaxEpoch",
        "incarnation[r] < MaxRestarts",
        "MaxRestarts > 0",
        "written < MaxRecords",
        "elections < MaxElections",
        "crashes < MaxCrashes",
        "generation < MaxGeneration",
        "processed[position[m]] < MaxProcessed",
    }
)

#: Guards that may go, and why. `Module.Action: guard`.
EQUIVALENT = {
    "ConsumerCommit.ReceiveCommit: c.member = m": "m only names the sender in the step's label: "
    "without it each commit under way may be received under any name, with the same effect",
    "ConsumerCommit.Process: joined[m] > 0": "who has not joined has position and done at 0, so "
    "nothing is left to process",
    "ConsumerCommit.SendCommit: joined[m] > 0": "who has not joined has position and done at 0, "
    "and offset 0 is not committed",
    "ConsumerCommit.Crash: joined[m] > 0": "who has not joined has nothing to lose: the step "
    "changes nothing",
    "DurableIsr.Restart: r \\notin up": "who runs is not in `crashed`, so its restart changes "
    "nothing",
    "Truncation.ShrinkIsr: Leads(l)": "only a leader knows an ISR: `isr` is {} elsewhere, and f "
    "must be in it",
    "Truncation.ShrinkIsr: f \\in isr[l]": "the leader of the current epoch and the controller "
    "have the same ISR; without somebody who is not in it, it is the same set",
    "Truncation.ExpandIsr: f \\notin isr[l]": "the leader of the current epoch and the controller "
    "have the same ISR; with somebody who is in it, it is the same set",
    'Truncation.Truncate: Rule \\in {"kip320", "kip320nofence"}': "it says which rules have the "
    "step; under the older ones the logs differ only where a promise is broken already, so no "
    "verdict comes after it",
    "Truncation.Truncate: Diverges(f, l)": "where the logs agree the answer is the follower's own "
    "log end: nothing is cut",
    "Truncation.ElectUnclean: r \\notin Decided.isr": "the unclean election of a member of the "
    "ISR takes all others out of it, which Fence does one by one; with two replicas it is the same "
    "step",
    "Truncation.Fence: b \\in Decided.isr": "who is not in the ISR does not lead, so the leader "
    "stays and the ISR too: that is Elect of the same leader",
}

#: The configurations that are asked, in this order, until one differs: small ones.
ASKED = {
    "AbsLog": ("ok", "ok_loss_allowed"),
    "ConsumerCommit": (
        "ok_auto_commit_monotone",
        "ok_unfenced_at_least_once",
        "ok_commit_then_process",
    ),
    "DurableIsr": ("ok_kip966_1_crash", "bug_unclean_2", "ok_flush_each", "bug_before_kip966"),
    "Truncation": (
        "ok_kip320_3_small",
        "ok_kip320_2_late_restart",
        "ok_kip320_2",
        "bug_unclean_2",
        "ok_kip279_2",
        "ok_kip320_2_outsider",
        "bug_kip101_3",
        "ok_kip320_2_restart",
    ),
}
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
    def name(self) -> str:
        return f"{self.module}.{self.action}: {self.text}"

    @property
    def is_bound(self) -> bool:
        return self.text in BOUNDS


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
    for here, beyond in zip(bullets, [*bullets[1:], end], strict=True):
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
        asked = ASKED[guard.module]
        for cfg in asked[:FEW] if guard.name in EQUIVALENT else asked:
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
