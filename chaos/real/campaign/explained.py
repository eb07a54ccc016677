"""Explains ends that do not come by a known finding, and only by evidence of the run."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from chaos.real.campaign.forgotten import NAME, by_a_forgetful_leader


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


_OUT_OF_ORDER = re.compile(r"OUT_OF_ORDER_SEQUENCE_NUMBER.*ProduceRequest for (\S+) \[(\d+)\]")


def explained(stuck: Sequence[str], folder: Path) -> Iterator[tuple[str, str]]:
    """Each sentence, with the name of the finding that explains it, or nothing.

    `folder` is the run's, with the brokers' logs in `cluster` and the clients' trace in `run`.
    """
    names = {sentence: _name(sentence, folder) for sentence in stuck}
    first = next((name for name in names.values() if name), "")
    for sentence, name in names.items():
        yield sentence, first if sentence.startswith(FOLLOWS) else name


def _name(sentence: str, folder: Path) -> str:
    if (refused := _OUT_OF_ORDER.search(sentence)) is not None:
        topic, partition = refused.groups()
        stored = by_a_forgetful_leader(folder / "run", topic, int(partition))
        return NAME if stored else ""
    for one in KNOWN:
        if (found := one.find.search(sentence)) is not None:
            partition = re.compile(rf"\b{re.escape(found['topic'])}-{found['partition']}\b")
            for file in sorted((folder / "cluster").glob("node-*/output.log")):
                for line in file.read_text("utf-8", errors="replace").splitlines():
                    if one.line in line and partition.search(line):
                        return one.name
    return ""
