"""The differences between our answers and Kafka's to generated requests.

A row has a reason, and must still describe a difference. What is not mended yet is listed by API
and label in a file beside Kafka's answers: whatever leaves that list may not come back.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from tests.wire.generated import FOLDER, Answer, Answers
from tests.wire.recording import differences

OPEN = FOLDER / "open.json"


@frozen
class Row:
    """Requests whose answers differ, by regular expressions of the API, the label and the path.

    `hangs` says that Kafka never answers.
    """

    api: str
    label: str
    path: str
    reason: str
    hangs: bool = False

    def covers(self, api: str, label: str, path: str, theirs: Any) -> bool:
        """True if this difference is one of these."""
        return (
            re.fullmatch(self.api, api) is not None
            and re.search(self.label, label) is not None
            and re.search(self.path, path) is not None
            and (theirs == "hangs") == self.hangs
        )


ROWS: tuple[Row, ...] = (
    Row(".*", "", "^$", "Kafka 4.3.1 never answers; we answer or refuse", hangs=True),
    Row(
        "CreateTopics|DescribeConfigs",
        "",
        r"configs\[min\.insync\.replicas\]|configs\[0\]",
        "a cluster that Kafka 4.1 or newer has laid out keeps `min.insync.replicas` as a dynamic "
        "default of all brokers (KIP-966)",
    ),
    Row(
        "ApiVersions",
        "",
        r"^\.(api_keys|supported_features|finalized_features)",
        "announced is what is served, and there are levels of `transaction.version` alone",
    ),
    Row("ApiVersions", "v-1", "^$", "the answer lists the versions of ApiVersions as well"),
    Row(
        "CreateAcls",
        r" 1$",
        r"error_(code|message)$",
        "an ACL of ANY: Kafka fails with `UNKNOWN_SERVER_ERROR`; we say what is wrong with it",
    ),
    Row(
        "IncrementalAlterConfigs",
        "config_operation",
        r"error_(code|message)$",
        "an operation that does not exist: Kafka fails with `UNKNOWN_SERVER_ERROR`; we say what "
        "is wrong with it",
    ),
    Row(
        "DescribeLogDirs",
        "",
        r"(total|usable)_bytes$|\.results",
        "without `--data` nobody knows how much room there is",
    ),
    Row(
        "Produce",
        "",
        r"(error_message|log_start_offset)$",
        "a batch that is refused: Kafka gives a reason with few errors; we give one with each, "
        "and no log start",
    ),
)


def unexplained(
    api: str, theirs: Mapping[str, Answers], ours: Mapping[str, Answers], used: set[Row]
) -> Iterator[tuple[str, str, str, Any, Any]]:
    """The chunk, label, path and both values of each difference of which no row speaks."""
    for chunk, answers in theirs.items():
        assert answers.keys() == ours[chunk].keys(), chunk
        for label, answer in answers.items():
            for path, one, other in differences_of(answer, ours[chunk][label]):
                rows = [row for row in ROWS if row.covers(api, label, path, one)]
                used.update(rows)
                if not rows:
                    yield chunk, label, path, one, other


def differences_of(theirs: Answer, ours: Answer) -> Iterator[tuple[str, Any, Any]]:
    """The differences of two answers; as a whole where one of them is none."""
    if isinstance(theirs, str) or isinstance(ours, str):
        if theirs != ours:
            yield "", theirs, ours
        return
    yield from differences(theirs, ours)


def still_open() -> dict[str, list[str]]:
    """The labels of requests that are answered otherwise, by API."""
    return json.loads(OPEN.read_text())


def keep_open(labels: Mapping[str, list[str]]) -> None:
    """Write the list anew, an API a line."""
    lines = ",\n".join(f"{json.dumps(api)}: {json.dumps(of)}" for api, of in labels.items())
    OPEN.write_text(f"{{\n{lines}\n}}\n")
