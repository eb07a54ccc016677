"""The page of what a record may suffer: which group protocol, which discipline, what happens."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from properties.tla.specs import Config, SpecTree

TREE = SpecTree()
#: The modules that put a group protocol and the disciplines together; how each names its protocol
PROTOCOLS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "ClassicDelivery": lambda constants: (
        "classic, cooperative" if constants["Cooperative"] == "TRUE" else "classic, eager"
    ),
    "ConsumerDelivery": lambda constants: "consumer (KIP-848)",
}
#: Rules that are left out, or Kafka's where ours are stronger: such rows are bugs, not cells
AS_BUILT = {"Dropped": '"none"', "Revoking": "TRUE", "CommitBy": '"assignment"'}
DISCIPLINES = {
    '"after"': "process, then commit",
    '"before"': "commit, then process",
    '"polled"': "commit what was polled, while another thread processes it",
}
SURROUNDINGS = {"FALSE": "members come and go in good order", "TRUE": "they die, or fall silent"}
LOST, REPEATED = "NothingLost", "NothingRepeated"

_HEAD = """\
# What a record may suffer

What a group's protocol and an application's discipline do to a record together: it may never be
processed (*lost*), or twice
(*repeated*). Each cell is a verdict of TLC on the module that composes the two: *never*, in all
of so many states, or the number of states
of the shortest story in which it happens, which `highwater spec MODULE/CFG --story` tells.
Built by `make docs` from `verdicts.toml`.

| protocol | discipline | | lost | repeated |
|---|---|---|---|---|
"""
_TAIL = """
*In good order*: whoever gives a partition up has processed what it was handed out, and commits
it first; where another thread processes,
it commits what was polled. Java's automatic commits are *process, then commit* as long as all
is processed before the next `poll`, and
*commit what was polled* otherwise.

What stands out:

- A **cooperative** member that leaves while the group's assignment is awaited cannot commit
  what it has processed: a commit is answered
  REBALANCE_IN_PROGRESS then, as by Kafka, and the records come again although all went in good
  order. An eager member owns nothing at that
  time. Were such a commit taken, nothing would be repeated
  (`ClassicDelivery/ok_cooperative_after_orderly_completing`), and no other promise
  would break (`ClassicGroup/ok_completing`).
- A **consumer group** suffers no more than an eager one: a member may commit what it is told to
  give up until it has given it up, so in good order nothing is repeated.
- *Commit, then process* keeps its promise under KIP-848 only because a commit is held against the
  assignment of its partition. By Kafka's rule, which asks whose a partition is for older epochs
  alone (KIP-1251, 4.2 and 4.3), a late commit of a former owner moves the group back, and the next
  owner processes a record again (`ConsumerDelivery/bug_kip1251`, 31 states;
  [the finding](findings/kafka-group-same-epoch.md)).
- Who gives the partition up without a commit repeats in good order as well
  (`ClassicDelivery/bug_no_commit_first`, `ConsumerDelivery/bug_no_commit_first`). What an unfenced
  commit does is ConsumerCommit's to say (`bug_zombie_commits_twice`).
"""


def page() -> str:
    """The page."""
    return _HEAD + "".join(line for module in PROTOCOLS for line in _lines(module)) + _TAIL


def _lines(module: str) -> list[str]:
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    file = TREE.folder(module) / "verdicts.toml"
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["verdict"]:
        config = Config.read(Path(TREE.model(module, row["cfg"])))
        constants = config.assigned()
        if any(constants.get(name, rule) != rule for name, rule in AS_BUILT.items()):
            continue
        place = (PROTOCOLS[module](constants), constants["CommitWhen"], constants["Faults"])
        cells.setdefault(place, {}).update(_found(module, row, config))
    return [
        f"| {protocol} | {DISCIPLINES[discipline]} | {SURROUNDINGS[faults]} | "
        f"{found.get(LOST, '?')} | {found.get(REPEATED, '?')} |\n"
        for (protocol, discipline, faults), found in cells.items()
    ]


def _found(module: str, row: Mapping[str, Any], config: Config) -> dict[str, str]:
    if row["expect"] == "violates":
        name = f"`{module}/{row['cfg']}`"
        return {row["property"]: f"**may be**, {row['length']} states ({name})"}
    return dict.fromkeys(config.invariants, f"never ({row['distinct']:,} states)")
