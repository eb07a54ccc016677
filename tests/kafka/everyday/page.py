"""`docs/everyday.md`: what was done, and the verdicts; written from what was played."""

from collections.abc import Iterable
from pathlib import Path

from tests.kafka.everyday.operations import OPERATIONS
from tests.kafka.everyday.playing import Played

MANY = 12
PAGE = Path(__file__).parents[3] / "docs" / "everyday.md"

HEAD = """\
# A year of everyday life

A healthy cluster is not left alone: brokers are replaced, groups are reset, topics are deleted and
made again. Here each such operation was played on Apache Kafka 4.3.1 while [recorded](recorder.md)
clients worked, the recording was ended by `highwater record-scan`, and `highwater check` judged it.
Nothing may be *violated*. What cannot be known is *not checked*, with the reason.

This page is written by `make test-everyday ARGS=--write`, from the runs themselves. The
operations are the functions of `tests/kafka/everyday/`; `make test-kafka` plays them as well, and
fails where a verdict is not expected. The cluster has four brokers in three racks, three of them
controllers; topics have three replicas and min.insync.replicas = 2. Producers wait for `acks=all`;
groups are of the classic protocol and of KIP-848. Small recordings of the operations that were
once accused are judged by `make test` (`tests/traces/data/everyday/`).

*Holds* counts the promises that hold. *Allowed* and *not checked* name checks of
[checks.md](checks.md); those that saw nothing to judge are left out.

| operation | what was run | what happened | verdicts |
|---|---|---|---|
"""

TAIL = """
## What has to be told

Some of it happens outside of all recorded clients. `record-scan` looks for it where it leaves
traces; what it finds it says in `meta.json`, where you may say it as well.

- **Offsets that somebody else commits**, deletes, or lets expire: `record-scan` reads
  `__consumer_offsets`, where every commit stands. Where it holds one that no recorded process
  made, `groups.NAME.committers` is `some`, and what members are answered afterwards (G6 to G10,
  T9, T10, C6) accuses nobody. Where the topic may not be read, it is `some` as well.
- **A transaction that an operator aborts** (`kafka-transactions abort`): a marker is written to one
  partition, past the coordinator, which may take the producer's commit all the same. Where a
  record of a transaction that was committed is not visible, and `__transaction_state` tells of no
  abort, `transaction_ends` is `some`: then a commit that was answered proves nothing of a single
  record, and what depends on it is not checked.
- **A setting that changes and changes back**: the settings of a topic are asked for when
  `record-scan` runs, and a recorded administrator tells those that it finds and sets. Of what
  somebody else sets in between and sets back no client can learn; write it into `earlier`.
- **A clock that is set back** changes timestamps alone: clients are recorded by
  CLOCK_MONOTONIC. Of a broker that stamps records (LogAppendTime) L17 tells it, and never calls it
  a violation.
"""


def page(played: Iterable[Played]) -> str:
    """The whole page; rows of what was not played now stay as they are."""
    now = {one.operation.title: _row(one) for one in played}
    before = PAGE.read_text("utf-8") if PAGE.exists() else ""
    kept = {row.split(" | ")[0].removeprefix("| "): row + "\n" for row in before.splitlines()}
    titles = sorted(one.title for one in OPERATIONS.values())
    return HEAD + "".join(now.get(title) or kept.get(title, "") for title in titles) + TAIL


def _row(one: Played) -> str:
    about = one.operation
    cells = (about.title, about.played, one.evidence, _verdicts(one))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _verdicts(one: Played) -> str:
    parts = [f"{len(one.named('holds'))} hold"]
    parts += [f"**violated {', '.join(named)}**" for named in [one.named("violated")] if named]
    parts += [f"allowed {', '.join(named)}" for named in [one.named("allowed")] if named]
    for reason, checks in one.undecided().items():
        named = ", ".join(checks) if len(checks) < MANY else f"{len(checks)} that may be about it"
        parts.append(f"not checked {named}: {reason}")
    return "; ".join(parts)
