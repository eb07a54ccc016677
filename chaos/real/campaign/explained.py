"""Explains what does not end by a known finding, and only by evidence in logs of brokers."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen


@frozen
class Evidence:
    """A finding of docs/findings, and the line of a broker that shows it.

    `find` is matched with the sentence of what does not end; its groups `topic` and `partition` are
    demanded in the line as well.
    """

    name: str
    find: "re.Pattern[str]"
    line: str


KNOWN = (
    Evidence(
        "marker-dropped",
        re.compile(r"a transaction in (?P<topic>\S+):(?P<partition>\d+) does not end"),
        "these partitions are likely deleted already and hence can be skipped",
    ),
)
#: The consequence of a transaction that does not end: its client waits for ever.
FOLLOWS = "transactional clients do not go on"


def explained(stuck: Sequence[str], cluster: Path) -> Iterator[tuple[str, str]]:
    """Each sentence, with the name of the finding that explains it, or nothing."""
    names = {sentence: _name(sentence, cluster) for sentence in stuck}
    first = next((name for name in names.values() if name), "")
    for sentence, name in names.items():
        yield sentence, first if sentence.startswith(FOLLOWS) else name


def _name(sentence: str, cluster: Path) -> str:
    for one in KNOWN:
        if (found := one.find.search(sentence)) is not None:
            partition = re.compile(rf"\b{re.escape(found['topic'])}-{found['partition']}\b")
            for file in sorted(cluster.glob("node-*/output.log")):
                for line in file.read_text("utf-8", errors="replace").splitlines():
                    if one.line in line and partition.search(line):
                        return one.name
    return ""
