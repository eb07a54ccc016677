"""Consumers that read what a cluster holds when a run is over: one for each isolation."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from attrs import define, field

from traces.record.scan import Library

NAME = "highwater-record-scan"  # as a group never joined, never committed for: one must be named

SHORT_MS = 10
"""The wait of a broker at the end of its partitions: a reader has others to read then."""


@define
class Readers:
    """A reader is opened when it is asked for, and closed with the others.

    The final scan and the readers of coordinators' logs follow each other, and share one.
    """

    library: Library
    conf: Mapping[str, Any]
    _opened: dict[str, Any] = field(factory=dict[str, Any])

    def of(self, isolation: str) -> Any:
        """The reader of this isolation."""
        if isolation not in self._opened:
            self._opened[isolation] = self.library.consumer(
                {
                    "client.id": NAME,
                    "fetch.wait.max.ms": SHORT_MS,
                    **self.conf,
                    "group.id": NAME,
                    "isolation.level": isolation,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "auto.offset.reset": "error",
                }
            )
        return self._opened[isolation]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for reader in self._opened.values():
            reader.close()
