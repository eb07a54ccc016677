"""The log of a coordinator, at the leader of its partition."""

from collections.abc import Sequence
from typing import Protocol

from refimpl.coordinator.operation import TransactionalWrite
from refimpl.records.coordinators import CoordinatorRecord
from refimpl.records.transactional import Entry


class CoordinatorLog(Protocol):
    """The log of one partition, at its leader."""

    @property
    def start(self) -> int:
        """The log start offset."""
        ...

    @property
    def end(self) -> int:
        """The log end offset."""
        ...

    @property
    def high_watermark(self) -> int:
        """The offset below which every record is committed."""
        ...

    def append(
        self,
        now: int,
        records: Sequence[CoordinatorRecord],
        transaction: TransactionalWrite | None = None,
    ) -> int:
        """Append records as one batch, or a transaction's marker; return the offset of the last
        one.

        Raises a refusal, and has then appended nothing.
        """
        ...

    def read(self, offset: int, size: int) -> tuple[Sequence[tuple[int, Entry]], int]:
        """Records from an offset on, each with its offset, and the offset of the next read.

        It reads at least one batch, and about `size` bytes.
        """
        ...
