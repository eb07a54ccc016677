"""A `LogDirectory` of several directories, one of which may fail while the others go on.

KIP-112 keeps the logs of a broker in `log.dirs`. A new log goes where the fewest are, as in Kafka's
LogManager. A directory that fails takes its partitions offline until the next start.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field

from refimpl.broker.file_logs import FileLogs
from refimpl.broker.logs import Found
from refimpl.errors import StorageOffline
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class SeveralLogs:
    """The logs of one broker, each in one of its directories."""

    directories: Sequence[FileLogs]
    #: The directories of partitions that are prepared, and not yet opened
    _chosen: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int], init=False)
    #: The reason why a directory cannot be read since the start, until all is told that there is
    _unread: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Note if a directory has failed before anybody used it."""
        self._unread = next((why for one in self.directories if (why := one.failure())), None)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that are in the directories."""
        return [partition for one in self.directories for partition in one.partitions()]

    def directory_of(self, partition: TopicPartition) -> int:
        """The number of the directory that has the partition's log; -1 for none."""
        for number, one in enumerate(self.directories):
            if partition in one.directory.logs or partition in one.directory.damaged:
                return number
        return -1

    def offline_directories(self) -> Collection[int]:
        """The numbers of the directories that have failed."""
        numbered = enumerate(self.directories)
        return [number for number, one in numbered if one.failure() is not None]

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Create the folders of new partitions."""
        for partition in partitions:
            if self.directory_of(partition) < 0 and self._unread is None:
                self._chosen[partition] = self._next()
        chosen = {one: self._chosen[one] for one in partitions if one in self._chosen}
        self._each(lambda number, one: one.prepare([p for p, at in chosen.items() if at == number]))

    def open(self, partition: TopicPartition) -> Found:
        """The recovered log, or a new one in the directory that has the fewest.

        Raises StorageOffline for a partition that is not new, if a directory cannot be read that
        may have its log: an empty one in its place would lack records.
        """
        number = self.directory_of(partition)
        if number < 0 and self._unread is not None:
            raise StorageOffline(self._unread)
        if number < 0:
            number = self._chosen.pop(partition, -1)
        if number < 0:
            number = self._next()
        return self.directories[number].open(partition)

    def told(self) -> None:
        """All partitions are known that there are; those that come later are new."""
        self._unread = None

    def begin_epochs(self, epochs: Mapping[TopicPartition, int]) -> None:
        """Write to the checkpoints that these logs begin their leader epochs."""
        self._each(lambda number, one: one.begin_epochs(epochs))

    def write_epochs(self) -> None:
        """Write the epochs that followers have taken to the checkpoints."""
        self._each(lambda number, one: one.write_epochs())

    def delete(self, partition: TopicPartition) -> None:
        """Rename the folder out of the way; its files go after file.delete.delay.ms."""
        number = self.directory_of(partition)
        if number >= 0:
            self.directories[number].delete(partition)

    def offline(self) -> Mapping[TopicPartition, str]:
        """The partitions of failed directories, and damaged ones."""
        found: dict[TopicPartition, str] = {}
        for one in self.directories:
            found |= one.offline()
        return found

    def failure(self) -> str | None:
        """The last failure once every directory has failed; None while one serves."""
        failures = [one.failure() for one in self.directories]
        return None if None in failures else failures[-1]

    def flush(self) -> None:
        """Flush every log."""
        self._each(lambda number, one: one.flush())

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks to the checkpoints, each to that of its directory."""
        self._each(lambda number, one: one.checkpoint(_of(one, high_watermarks)))

    def apply_retention(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Delete records that exceed retention, and files whose delete delay is over."""
        self._each(lambda number, one: one.apply_retention(_of(one, high_watermarks)))

    def expire_producers(self) -> None:
        """Remove producers that have been silent for too long."""
        self._each(lambda number, one: one.expire_producers())

    def clean(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Compact the dirtiest log of each directory, if any needs it."""
        self._each(lambda number, one: one.clean(_of(one, high_watermarks)))

    def close(self, broker_epoch: int) -> None:
        """Flush everything and leave the mark of a controlled shutdown; none where it failed."""
        self._each(lambda number, one: one.close(broker_epoch))

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch that the marks of all directories name, or -1 (KIP-966)."""
        epochs = {one.clean_shutdown_epoch() for one in self.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    def _next(self) -> int:
        """The directory with the fewest logs, of those that serve. Raises StorageOffline."""
        serving = [number for number, one in enumerate(self.directories) if one.failure() is None]
        if not serving:
            raise StorageOffline(str(self.failure()))
        chosen = list(self._chosen.values())

        def logs(number: int) -> int:
            there = self.directories[number].directory
            return len(there.logs) + len(there.damaged) + chosen.count(number)

        return min(serving, key=logs)

    def _each(self, work: Callable[[int, FileLogs], None]) -> None:
        """Do this in every directory that serves. Raises StorageOffline if one fails by that, after
        the others have done it.
        """
        failed: str | None = None
        for number, one in enumerate(self.directories):
            if one.failure() is not None:
                continue
            try:
                work(number, one)
            except StorageOffline as failure:
                failed = str(failure)
        if failed is not None:
            raise StorageOffline(failed)


def _of(logs: FileLogs, high_watermarks: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    there = logs.directory.logs
    return {one: offset for one, offset in high_watermarks.items() if one in there}
