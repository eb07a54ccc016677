"""The page of all checks: what each asks and needs, when a finding is allowed, and a witness."""

from collections.abc import Iterator

from check_witnesses import Found, witnesses

from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.ingest.evidence import FIELDS, SPOKEN
from traces.verdicts.explained import about, facts, reported

FAMILIES = {
    "L": "The log of a partition",
    "P": "Producers",
    "T": "Transactions",
    "C": "Consumers",
    "G": "Consumer groups",
    "S": "Share groups",
    "A": "Topics",
}
_HEAD = """\
# The checks

All {count} promises that `highwater check` judges; `highwater check --list` prints their names, and
`highwater explain L4` what stands here about one of them.
Built by `make docs` from the checks themselves.

*Needs* are fields of a [trace](traces.md) without which the promise cannot hold: what is found
stands, and where nothing is found the check answers *not checked*. *Cannot do without* are those
whose absence could make a finding up: without them nothing is said. What another read would
contradict (L2, L3, L8, L9, L16, P1) is undecided where not all reads are told. `producers` and
`consumers` stand for their files, `producers.whole` and `consumers.whole` for files that end with
`close` or `crash`, `log_starts any` for polls that tell log starts at all, `any_read` for a read by
anybody, `one_clock` for times of one clock, `complete` and `scan` for the final scan, `lives` for
topic ids where a topic was made again. How to record them is said
[at the end](#how-to-record-what-a-check-needs), in the [format](traces.md), and of our
[recorder](recorder.md). Below each check stands what it shows for
an injected fault, as lines and drawn: time runs down, a bar lasts from a call to its answer.
"""
_TAIL = """
## How to record what a check needs

Our [recorder](recorder.md) writes all of this that its client tells. Whoever writes lines by hand
puts these fields on them:

| in *needs* | the lines | fields |
|---|---|---|
"""
_ELSEWHERE = ("formula", "specified by")  # stand in other places of a section
# The lines that stand behind a word of `needs`, where it is not their `op`.
_LINES = {
    "stamped": "`send`, to topics that are asked by time",
    "transactional": "`send` with a `transactional_id`",
    "acquired": "`acquire`",
    "acked": "`send` that was answered; with acks=0 there is nothing to answer",
    "read": "`poll` and `scan`",
    "watching": "`poll` of who tells high watermarks",
    "starting": "`poll` of who tells log starts",
    "placed_mark": "`poll` with high watermarks, of who tells the replica",
    "placed_start": "`poll` with log starts, of who tells the replica",
    "pending": "`send` that tells no offset (`pending` read: ids of reads, if there are any)",
    "unanswered": "of those, all that did not certainly fail",
    "member": "`poll` and `process` of members of a group",
    "assign": "`assign` and `seek`",
    "rebalance": "`assigned`, `revoked` and `lost`",
    "fetched": "`committed` that was answered",
    "begin": "`txn_begin`",
    "ending": "`txn_commit` and `txn_abort`",
    "committing": "`txn_commit` that was answered",
    "asked": "`list_offsets` by time",
    "earliest": "`list_offsets` with `query` `earliest`",
    "numbered": "`send` of producers that ever tell their producer id",
    "sent_offsets": "`txn_offsets`",
    "open_commit": "`commit` that nobody answered",
    "open_offsets": "`txn_offsets` that nobody answered",
    "pause": "`pause` and `resume`",
    "mark": "`poll` with `high_watermark`",
    "stable": "`poll` with `last_stable`",
    "placed_poll": "`poll` that returned records, of consumers that ever tell the replica",
    "watched_poll": "`poll` that returned records, of consumers that ever tell watermarks",
    "settling": "`poll` of who tells last stable offsets",
    "polled": "`poll` of who has transactions, too",
    "named": "`send` inside a transaction",
    "static": "`assigned` and `commit` of members that ever tell their instance",
    "waited": "`acquire` without records that lists partitions",
    "joined": "`subscribe` that lists partitions",
    "shared": "`acquire` of records and `acknowledge`",
}
_WORDS = {**SPOKEN, "topic": "topic"}


def files() -> dict[str, str]:
    """The page, and the drawings that it shows."""
    found = {one.check: one for one in witnesses()}
    drawings = {f"checks/{id}.svg": one.svg for id, one in found.items()}
    return {"checks.md": _page(found), **drawings}


def _page(found: dict[str, Found]) -> str:
    lines, family = [_HEAD.format(count=len(CHECKS))], ""
    for id, check in CHECKS.items():
        if id[0] != family:
            family = id[0]
            lines.append(f"## {FAMILIES[family]}\n")
        lines += [*_section(check), *_witness(found[id]), ""]
    lines.append(_TAIL.rstrip("\n"))
    for kind, one in FIELDS.items():
        fields = ", ".join(f"`{_WORDS.get(name, name)}`" for name in one.fields)
        what = _LINES.get(kind, f"`{kind}`")
        lines.append(f"| `{kind}` | {what} | {fields} |")
    return "\n".join(lines)


def _section(check: Check) -> Iterator[str]:
    yield f"### {check.id}: {check.title}\n"
    yield f"{about(check)}\n"
    yield f"> {check.formula}\n"
    yield from (f"- {name}: {said}" for name, said in facts(check) if name not in _ELSEWHERE)
    yield f"- needs: {_fields(check.needs)}"
    yield f"- cannot do without: {_fields(check.closed)}"
    if check.spec:
        yield f"- specified by: `{check.spec}`"
    if check.kinds:
        yield f"- class in a Jepsen history: {', '.join(f'`{kind}`' for kind in check.kinds)}"
    for title, items in reported(check):
        yield f"\n{title.capitalize()}:\n"
        yield from (f"- {item}" for item in items)


def _fields(names: tuple[str, ...]) -> str:
    """Evidence by kind, as `kind` field, field."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, field = name.partition(".")
        kinds.setdefault(kind, []).extend([_WORDS.get(field, field)] if field else [])
    said = [f"`{kind}` {', '.join(fields)}".rstrip() for kind, fields in kinds.items()]
    return "; ".join(said) or "nothing"


def _witness(found: Found) -> Iterator[str]:
    yield from ("", "```", *found.lines, "```")
    alt = f"The calls of these lines as a sequence diagram: a violation of {found.check}"
    yield f"\n![{alt}](checks/{found.check}.svg)"
