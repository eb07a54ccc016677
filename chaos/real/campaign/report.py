"""The report of a run, as text and as values: what was done, its effect, and both verdicts."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from attrs import asdict

from chaos.real.campaign.judging import Find, Judged
from chaos.real.campaign.running import Played

_NS = 1_000_000_000


def effects(played: Played) -> dict[str, tuple[int, int, int]]:
    """By kind of fault: how many were ordered, how many had an effect, and how much."""
    found: dict[str, tuple[int, int, int]] = {}
    for kind in played.plan.kinds:
        amounts = [one.effect.amount for one in played.done if one.step.kind == kind]
        found[kind] = len(amounts), sum(amount > 0 for amount in amounts), sum(amounts)
    return found


def lines(played: Played, judged: Judged) -> Iterator[str]:
    """The report for people."""
    plan = played.plan
    yield f"seed {plan.seed}: {plan.minutes:g} minutes on {plan.target}: {said(judged)}"
    yield "  clients: " + ", ".join(f"{n:,} {name}" for name, n in sorted(played.counts.items()))
    yield "  faults, and what they did:"
    units = {one.step.kind: one.unit for one in played.done}
    for kind, (ordered, effective, amount) in effects(played).items():
        yield f"    {kind:<18} {effective} of {ordered}, {amount:,} {units.get(kind, '')}".rstrip()
    yield from timeline(played, judged)
    yield from (f"  found: {sentence(find, played)}" for find in judged.finds)
    yield from (f"  not judged: {why}" for why in judged.unjudged)
    yield from _judges(judged)


def timeline(played: Played, judged: Judged) -> Iterator[str]:
    """Each fault with its time and effect, and the finds among them."""
    yield "  timeline, in seconds:"
    rows = [(one.at_ns, one) for one in played.done]
    finds = [(find.at_ns, find) for find in judged.finds if find.at_ns]
    for at_ns, one in sorted([*rows, *finds], key=lambda row: row[0]):
        at = (at_ns - played.began_ns) / _NS
        if isinstance(one, Find):
            yield f"  ✗ {at:7.1f}          {one.what}"
            continue
        ended = (one.until_ns - played.began_ns) / _NS
        about = f" [{one.effect.about}]" if one.effect.about else ""
        did = (
            f"{one.effect.amount:,} {one.unit}" if one.effect.amount else f"NONE: {one.effect.why}"
        )
        yield f"    {at:7.1f}–{ended:<7.1f} {one.step}{about}: {did}"


def sentence(find: Find, played: Played) -> str:
    """A find, by whom, and after how many minutes."""
    known = f", known as {find.known}" if find.known else ""
    after = f" after {minutes(find, played):.1f} minutes" if find.at_ns else ""
    return f"{find.what} ({find.judge}{known}){after}"


def minutes(find: Find, played: Played) -> float:
    """From the beginning of the run to the find."""
    return (find.at_ns - played.began_ns) / _NS / 60


def said(judged: Judged) -> str:
    """The verdict in a few words."""
    accused = sum(find.accuses for find in judged.finds)
    known = len(judged.finds) - accused
    if accused:
        return f"{accused} found that nothing explains, {known} known"
    if judged.unjudged:
        return f"could not be judged: {judged.unjudged[0]}"
    return f"nothing violated, no unexplained rejection, {known} known"


def _judges(judged: Judged) -> Iterator[str]:
    if judged.checks:
        counted = Counter(judged.checks.values())
        yield "  check: " + ", ".join(f"{n} {word}" for word, n in sorted(counted.items()))
    if judged.partitions:
        steps = sum(one["steps"] for one in judged.partitions.values())
        early = sum(bool(one["ended"]) for one in judged.partitions.values())
        short = f", {early} recorded in part" if early else ""
        ids = sum(name.startswith("transactional id ") for name in judged.partitions)
        groups = sum(name.startswith("group ") for name in judged.partitions)
        partitions = len(judged.partitions) - ids - groups
        those = f"{partitions} partitions, {ids} transactional ids, {groups} groups"
        yield f"  validate --kafka: {those}, {steps:,} steps{short}"


def as_json(played: Played, judged: Judged) -> dict[str, Any]:
    """The same for programs, and for a campaign that goes on."""
    finds = [
        {**asdict(find), "minutes": minutes(find, played) if find.at_ns else None}
        for find in judged.finds
    ]
    return {
        "seed": played.plan.seed,
        "target": played.plan.target,
        "minutes": played.plan.minutes,
        "exit_code": judged.exit_code,
        "said": said(judged),
        "finds": finds,
        "unjudged": judged.unjudged,
        "effects": effects(played),
        "counts": dict(played.counts),
        "checks": judged.checks,
        "steps": {name: one["steps"] for name, one in judged.partitions.items()},
        "faults": [one.as_json() for one in played.done],
    }
