"""All that is said of one check, for `highwater explain L4` and docs/checks.md: one source."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from traces.checks.advice import advice
from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.verdicts.sentences import found as counted

NEAREST = 5  # checks that are named to whoever asks for one that there is not


def lines_of(id: str) -> list[str]:
    """A check for a reader on a terminal: what it promises, why it breaks, where to look."""
    check = CHECKS[id]
    head = f"{check.id}: {check.title}"
    said = [head, "=" * len(head), about(check), ""]
    for name, text in facts(check):
        said.append(f"{name + ':':14}{text}")
    for title, items in reported(check):
        said += ["", f"{title}:", *(f"  - {item}" for item in items)]
    return said


def as_json(id: str) -> dict[str, Any]:
    """The same for programs."""
    check = CHECKS[id]
    return {
        **{"id": id, "title": check.title, "about": about(check), "formula": check.formula},
        **{"allowed_if": check.unless or None, "looks_at": check.looks_at},
        **{"spec": check.spec or None, "usual_causes": advice()[id].causes},
        "what_to_look_at_next": advice()[id].look,
    }


def about(check: Check) -> str:
    """The promise in a sentence, and why it is so."""
    return " ".join((check.function.__doc__ or "").split())


def facts(check: Check) -> Iterator[tuple[str, str]]:
    """The sentence of a finding, and the settings that would permit it."""
    yield "formula", check.formula
    yield "looks at", check.looks_at
    yield "says", f"“{counted(check.id, 2)}”"
    yield "allowed", f"if {check.unless}" if check.unless else "never"
    if check.spec:
        yield "specified by", check.spec.replace("!", ".")


def reported(check: Check) -> Iterator[tuple[str, Sequence[str]]]:
    """Advice for whoever has a finding."""
    yield "usual causes", advice()[check.id].causes
    yield "look at next", advice()[check.id].look


def nearest(name: str) -> list[str]:
    """The few checks that a name may mean: by id, or by the words of what they promise."""
    if len(name) == 1:
        return [id for id in CHECKS if id[0] == name.upper()][:NEAREST]
    if any(letter.isdigit() for letter in name):
        near = get_close_matches(name.upper(), CHECKS, n=NEAREST, cutoff=0.3)
        same = [id for id in near if id[0] == name[:1].upper()]
        return same or near
    words = [word[:5] for word in name.lower().replace("_", " ").split() if len(word) > 2]
    texts = {id: f"{c.title} {counted(id, 2)} {about(c)}".lower() for id, c in CHECKS.items()}
    hits = {id: sum(word in text for word in words) for id, text in texts.items()}
    titled = {id: sum(word in CHECKS[id].title.lower() for word in words) for id in CHECKS}
    best = sorted((id for id in CHECKS if hits[id]), key=lambda id: (-hits[id], -titled[id]))
    return best[:NEAREST]


def known(name: str) -> str | None:
    """The id that this is, in whatever case."""
    return name.upper() if name.upper() in CHECKS else None


def listed(ids: Sequence[str]) -> str:
    """Checks with their titles, a line each."""
    return "\n".join(f"  {id:4}{CHECKS[id].title}" for id in ids)
