"""Where our answers are not Kafka's, and why: every row must still be one, or it goes."""

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

ANY = object()


@frozen
class Row:
    """Answers to some requests that differ in some fields, and the reason.

    `apis` and `path` are regular expressions; `theirs` and `ours` the values, if they are always
    the same.
    """

    apis: str
    path: str
    reason: str
    theirs: Any = ANY
    ours: Any = ANY

    def covers(self, step: Mapping[str, Any], path: str, theirs: Any, ours: Any) -> bool:
        """Whether this difference is one of these."""
        return (
            re.fullmatch(self.apis, step["api"]) is not None
            and re.search(self.path, path) is not None
            and self.theirs in (ANY, theirs)
            and self.ours in (ANY, ours)
        )


MIN_ISR = "min.insync.replicas"
OF_NO_CLUSTER = (
    "A cluster that Kafka 4.1 or newer has laid out keeps min.insync.replicas as a dynamic default "
    "of all brokers, for KIP-966; here it is the file's or the default"
)

ROWS: tuple[Row, ...] = (Row("CreateTopics", r"configs\[21\]\.config_source", OF_NO_CLUSTER, 3, 5),)
