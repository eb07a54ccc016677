"""Builds docs/delivery.md: TLC's verdicts by group protocol, commit discipline and faults."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from properties.tla.specs import ModelConfig, SpecTree

TREE = SpecTree()
#: The modules that compose a group protocol with the disciplines, and the protocol of a row
PROTOCOLS: Mapping[str, Callable[[Mapping[str, str]], str]] = {
    "ClassicDelivery": lambda constants: (
        "classic, cooperative" if constants["Cooperative"] == "TRUE" else "classic, eager"
    ),
    "ConsumerDelivery": lambda constants: "consumer (KIP-848)",
}
#: Values of the constants in rules as built. Rows with other values are bugs, not cells
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

A group's protocol and an application's commit discipline decide together whether a record may be
*lost* (never processed) or *repeated* (processed twice). Each cell is TLC's verdict on the module
that composes the two. *Never* comes with the number of states explored. *May be* comes with the
length of the shortest counterexample, which `highwater spec MODULE/CFG --story` prints.
`make docs` builds this page from `verdicts.toml`.

| protocol | discipline | | lost | repeated |
|---|---|---|---|---|
"""
_TAIL = """
*In good order*: before a member gives a partition up, it processes the records that it was handed,
and commits them. If another thread processes, it commits what was polled. Java's automatic commits
are *process, then commit* if all records are processed before the next `poll`, and *commit what
was polled* otherwise.

Four results are worth a look:

- A **cooperative** member that leaves while the group awaits its assignment cannot commit its
  processed records. Such a commit is answered with REBALANCE_IN_PROGRESS, as by Kafka, and the
  records come again although all went in good order. An eager member owns nothing at that time.
  If the commit were accepted, nothing would be repeated
  (`ClassicDelivery/ok_cooperative_after_orderly_completing`), and no other promise would break
  (`ClassicGroup/ok_completing`).
- A **consumer group** suffers no more than an eager one. A member may commit a partition until it
  has given it up, so in good order nothing is repeated.
- *Commit, then process* keeps its promise under KIP-848 only because each commit is checked
  against the partition's assignment. Kafka's rule (KIP-1251, 4.2 and 4.3) checks ownership only
  for older epochs. Under it, a former owner's late commit moves the group back, and the next owner
  processes a record again (`ConsumerDelivery/bug_kip1251`, 31 states;
  [the finding](findings/kafka-group-same-epoch.md)).
- A member that gives a partition up without a commit repeats records in good order as well
  (`ClassicDelivery/bug_no_commit_first`, `ConsumerDelivery/bug_no_commit_first`). ConsumerCommit
  shows the effect of an unfenced commit (`bug_zombie_commits_twice`).
"""


def page() -> str:
    """The page's text."""
    return _HEAD + "".join(line for module in PROTOCOLS for line in _lines(module)) + _TAIL


def _lines(module: str) -> list[str]:
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    file = TREE.folder(module) / "verdicts.toml"
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["verdict"]:
        config = ModelConfig.read(Path(TREE.model(module, row["cfg"])))
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


def _found(module: str, row: Mapping[str, Any], config: ModelConfig) -> dict[str, str]:
    if row["expect"] == "violates":
        name = f"`{module}/{row['cfg']}`"
        return {row["property"]: f"**may be**, {row['length']} states ({name})"}
    return dict.fromkeys(config.invariants, f"never ({row['distinct']:,} states)")
