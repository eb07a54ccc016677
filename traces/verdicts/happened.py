"""The incidents of a judged run in words: what, where, when, beside which faults."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from traces.ingest.run import Run
from traces.model.output import number_of
from traces.model.schema import DURING, NONE
from traces.verdicts.incidents import FaultSpan, FoundIn, Incident, Ranges, incidents
from traces.verdicts.sentences import found
from traces.verdicts.verdict import ALLOWED, VIOLATED, Verdict

SHOWN = 3  # partitions, stretches of offsets and faults that are named; the others are counted


def incidents_of(run: Run, verdicts: Sequence[Verdict]) -> list[Incident]:
    """The incidents of a run, each cause once; violated ones first."""
    broken = [verdict for verdict in verdicts if verdict.verdict in (VIOLATED, ALLOWED)]
    found_at = [(v.check, at) for v in broken for at in (v.locations or _shown(v))]
    clocks = {at["clock"] for _, at in found_at} - {NONE}
    timed = len(clocks) <= 1  # times of several clocks do not compare
    faults = [
        FaultSpan(f.at_ns, f.what, f.until_ns) for f in run.meta.faults if f.at_ns is not None
    ]
    return incidents(
        (_found(run, check, at, timed) for check, at in found_at), faults if timed else ()
    )


def _found(run: Run, check: str, at: Mapping[str, Any], timed: bool) -> FoundIn:
    names = run.names
    there = at["topic"] != NONE and at["partition"] != NONE
    return FoundIn(
        check=check,
        partition=(names.topics.name(at["topic"]), at["partition"]) if there else None,
        ranges=tuple(zip(at["starts"], at["ends"], strict=True)),
        group=names.groups.name(at["group"]) or "",
        broken=at["broken"],
        allowed=at["allowed"] + at["slow"],
        **{name: at[name] if timed else NONE for name in ("since", "until", "reported")},
    )


def _shown(verdict: Verdict) -> Iterator[Mapping[str, Any]]:
    """The place of a finding that no kernel makes alone, such as a cycle: that of its witness."""
    for _, events in verdict.witnesses[:1]:
        event = events[0]
        at = [event["offset"]] if event["offset"] >= 0 else []
        times = [ns for e in events for ns in (e["inv"], e["ret"]) if ns != NONE]
        number = verdict.broken or verdict.count
        yield {
            **{name: event[name] for name in ("topic", "partition", "group")},
            **{"clock": NONE, "starts": at, "ends": at, "slow": 0},
            **{"broken": verdict.broken, "allowed": 0 if verdict.broken else number},
            "since": min(times, default=NONE),
            **dict.fromkeys(("until", "reported"), max(times, default=NONE)),
        }


def began(rows: Mapping[str, Any]) -> int:
    """When the first call was made, from which times are told; NONE where nobody knows."""
    times = np.asarray(rows["inv"])
    known = times[(times != NONE) & np.isin(rows["op"], DURING)]
    return int(known.min()) if len(known) else NONE


def as_json(one: Incident) -> dict[str, Any]:
    """An incident as `--json` writes it; times are those of the run's clock."""
    return {
        "verdict": VIOLATED if one.violated else ALLOWED,
        "title": title(one),
        "checks": dict(one.checks),
        "partitions": {
            f"{topic}:{partition}": [list(one) for one in ranges]
            for (topic, partition), ranges in one.partitions.items()
        },
        "groups": list(one.groups),
        "since_ns": one.since if one.since != NONE else None,
        "until_ns": one.until if one.until != NONE else None,
        "faults": [fault.what for fault in one.faults],
    }


def title(one: Incident) -> str:
    """The title of an incident: the sentence of the check that says most of it."""
    return found(one.main, one.size)


def where(one: Incident) -> str:
    """Partitions and offsets, and the group of the clients that it happened to."""
    named = [
        f"{topic}:{partition}{_offsets(ranges)}"
        for (topic, partition), ranges in one.partitions.items()
    ]
    of = [f"group {group}" for group in one.groups]
    return ", ".join(of + _few(named, "partition"))


def first_partition(one: Incident) -> str:
    """The same in few words: the first partition and its first offsets."""
    if not one.partitions:
        return f"group {one.groups[0]}" if one.groups else ""
    (topic, partition), ranges = next(iter(one.partitions.items()))
    more = len(one.partitions) > 1 or len(ranges) > 1
    return f"{topic}:{partition}{_offsets(ranges[:1])}{' …' if more else ''}"


def _offsets(ranges: Ranges) -> str:
    if not ranges:
        return ""
    said = [f"{first}" if first == last else f"{first}–{last}" for first, last in ranges]
    word = "offset" if len(said) == 1 and ranges[0][0] == ranges[0][1] else "offsets"
    return f" {word} {', '.join(_few(said, 'stretch'))}"


def _few(said: Sequence[str], noun: str) -> list[str]:
    more = len(said) - SHOWN
    return [*said[:SHOWN], *([f"{number_of(more, f'more {noun}')}"] if more > 0 else [])]


def when(one: Incident, start: int) -> str:
    """The time of it since the first call, in seconds."""
    if one.since == NONE or start == NONE:
        return ""
    first, last = seconds(one.since, start), seconds(one.until, start)
    return f"{first if first == last else f'{first} to {last}'} s after the first call"


def beside(one: Incident, start: int) -> str:
    """The faults that were made shortly before, during or after it."""
    near = sorted(one.faults[:SHOWN], key=lambda fault: fault.at)
    said = [f"{fault.what} ({seconds(fault.at, start)} s)" for fault in near]
    more = len(one.faults) - len(said)
    return ", ".join([*said, *([number_of(more, "more fault")] if more > 0 else [])])


def seconds(ns: int, start: int) -> str:
    """A time since the first call, as it is told."""
    return f"{(ns - start) / 1e9:,.2f}"


def promises(one: Incident) -> str:
    """The promises that it touches, the one that it is called by first."""
    return " ".join(one.checks)
