"""Commits of others for a group: `__consumer_offsets` holds every commit, whoever made it.

A tool that resets a group that is down, a member that nobody recorded, an expiry, a deleted topic:
none of them stands in a process file, and each explains what members are answered afterwards.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from traces.record.contents import group_calls
from traces.record.coordinator_logs import (
    SHORT,
    messages,
    partition_of,
    since_ms,
    string,
)
from traces.record.process import clock_domain
from traces.record.scan import Library

TOPIC = "__consumer_offsets"
SENT_ONCE_NS = 50_000_000  # of an answer that came later, the client may have sent a second request
INT, LONG = struct.Struct(">i"), struct.Struct(">q")
COMMIT_KEYS = (0, 1)  # versions of a key of an offset; others are of groups
SETTING = ("commit", "txn_offsets", "alter_offsets")
GONE = -1  # the value of a tombstone, as an offset

Commit = tuple[str, str, int]  # group, partition by name, offset


@define
class RecordedCommits:
    """Commits and deletions of recorded processes for groups, and the time of the first call."""

    groups: set[str] = field(factory=set[str])
    commits: Counter[Commit] = field(factory=Counter[Commit])
    repeated: set[Commit] = field(factory=set[Commit])  # their clients may have sent them again
    deletions: Counter[str] = field(factory=Counter[str])  # of whole groups
    began_ns: int | None = None  # None: by a clock that is not ours


def recorded_commits(run: Path) -> RecordedCommits:
    """All commits of a run's process files that may have been taken."""
    found, clocks = RecordedCommits(), set[str]()
    for line in group_calls(run):
        group = line.get("group")
        began = line.get("invoked_ns")
        if group is None:
            continue
        found.groups.add(group)
        clocks.add(line.get("clock", ""))
        if began is not None:
            found.began_ns = min(began, found.began_ns or began)
        if line["outcome"] == "fail":
            continue
        if line["op"] in SETTING:
            _add(found, group, line)
        elif line["op"] == "delete_offsets":
            found.commits.update((group, name, GONE) for name in line.get("partitions", ()))
        elif line["op"] == "delete_groups":
            found.deletions[group] += 1
    if clocks != {clock_domain()}:
        found.began_ns = None
    return found


def _add(found: RecordedCommits, group: str, line: Mapping[str, Any]) -> None:
    took = line.get("returned_ns", line["invoked_ns"] + 2 * SENT_ONCE_NS) - line["invoked_ns"]
    once = line["outcome"] == "ok" and took <= SENT_ONCE_NS
    for partition, offset in line.get("offsets", {}).items():
        commit = group, partition, offset
        found.commits[commit] += 1
        if not once:
            found.repeated.add(commit)


def commits_of_others(
    used: Library, reader: Any, known: RecordedCommits, partitions: int
) -> dict[str, list[Commit]]:
    """For each group the commits in the log that no recorded process made.

    `reader` also reads what an open transaction holds back, and `partitions` is how many
    `__consumer_offsets` has. Raises the library's error, or `TimeoutError`, where it cannot be
    read.
    """
    others: dict[str, list[Commit]] = {group: [] for group in sorted(known.groups)}
    left = Counter(known.commits)
    for commit in _logged(used, reader, known, partitions):
        left[commit] -= 1
        # A group that is deleted loses every offset that it had.
        more = known.deletions[commit[0]] if commit[2] == GONE else 0
        if left[commit] + more < 0 and commit not in known.repeated:
            others[commit[0]].append(commit)
    return others


def _logged(
    used: Library, reader: Any, known: RecordedCommits, partitions: int
) -> Iterator[Commit]:
    """The commits of these groups since the run began, in the order of their logs."""
    since = since_ms(known.began_ns)
    for number in sorted({partition_of(group, partitions) for group in known.groups}):
        for message in messages(reader, used, TOPIC, number, since):
            commit = decoded(message.key(), message.value())
            if commit is not None and commit[0] in known.groups:
                yield commit


def decoded(key: bytes | None, value: bytes | None) -> Commit | None:
    """A record of `__consumer_offsets` as a commit, or nothing where it is of something else."""
    if key is None or SHORT.unpack_from(key)[0] not in COMMIT_KEYS:
        return None
    group, at = string(key, SHORT.size)
    topic, at = string(key, at)
    (partition,) = INT.unpack_from(key, at)
    offset = GONE if value is None else LONG.unpack_from(value, SHORT.size)[0]
    return group, f"{topic}:{partition}", offset


def reported(group: str, commits: Iterable[Commit]) -> str:
    """One sentence for a person."""
    commits = list(commits)
    shown = ", ".join(
        f"{name} {'deleted' if offset == GONE else f'at {offset}'}"
        for _, name, offset in commits[:3]
    )
    more = ", …" if len(commits) > 3 else ""
    return f"group {group}: {len(commits)} commits of others than recorded: {shown}{more}"
