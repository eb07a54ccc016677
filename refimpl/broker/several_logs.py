"""A `LogDirectory` of several directories, one of which may fail while the others go on.

KIP-112 keeps the logs of a broker in `log.dirs`. A new log goes where the fewest are, as in Kafka's
LogManager, and can be moved (KIP-113). A directory that fails takes its partitions offline until
the next start.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from attrs import define, field

from refimpl.broker.file_logs import NO_ID, FileLogs
from refimpl.broker.logs import BrokerLog, Found, Future
from refimpl.errors import StorageOffline
from refimpl.messages.broker import TopicPartition


@define(eq=False)
class SeveralLogs:
    """The logs of one broker, each in one of its directories."""

    directories: Sequence[FileLogs]
    #: The directories of partitions that are prepared, and not yet opened
    _chosen: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int], init=False)
    #: The directories that operators want partitions in that are not here yet
    _preferred: dict[TopicPartition, int] = field(factory=dict[TopicPartition, int], init=False)
    _futures: dict[TopicPartition, Future] = field(factory=dict[TopicPartition, Future], init=False)
    #: The reason why a directory cannot be read since the start, until all is told that there is
    _unread: str | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        """Note if a directory has failed before anybody used it, and go on with moves."""
        self._unread = next((why for one in self.directories if (why := one.failure())), None)
        for number, one in enumerate(self.directories):
            for partition in [TopicPartition(*name) for name in one.directory.futures]:
                if self._is_replaced(partition, one):
                    self._settled_in(number, partition, 0)
                elif partition in self._futures:
                    one.directory.delete_future(partition, one.now_ms())
                else:
                    self._note(number, partition)

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
                self._chosen[partition] = self._next(partition)
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
            self.stop_moving(partition)
            number = self._chosen.pop(partition, -1)
        if number < 0:
            number = self._next(partition)
        self._preferred.pop(partition, None)
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
        self.stop_moving(partition)

    # Moves between directories (KIP-113)

    def futures(self) -> Mapping[TopicPartition, Future]:
        """The partitions that move to another directory, one that has not failed."""
        if self._futures:
            failed = self.offline_directories()
            for partition, future in list(self._futures.items()):
                if future.directory in failed:
                    del self._futures[partition]
                    self._resume_cleaning(partition)
        return self._futures

    def move(self, partition: TopicPartition, directory: int) -> Future:
        """An empty log in that directory; the cleaner leaves the current one alone meanwhile."""
        source, target = self.directories[self.directory_of(partition)], self.directories[directory]
        config = source.directory.logs[partition].config
        topic_id, now = source.topic_ids.get(partition.topic, NO_ID), target.now_ms()
        target.directory.create_future(partition, topic_id, f"{now:032x}", config, now)
        return self._note(directory, partition)

    def _note(self, number: int, partition: TopicPartition) -> Future:
        one, there = self.directories[number], self.directory_of(partition)
        log = one.replica_log(one.directory.futures[partition])
        future = self._futures[partition] = Future(log, number)
        if there >= 0:
            self.directories[there].cleaner.paused.add(partition)
        return future

    def stop_moving(self, partition: TopicPartition) -> None:
        """Delete what was copied."""
        future = self.futures().get(partition)
        if future is not None:
            del self._futures[partition]
            self._resume_cleaning(partition)
            one = self.directories[future.directory]
            one.directory.delete_future(partition, one.now_ms())

    def _resume_cleaning(self, partition: TopicPartition) -> None:
        there = self.directory_of(partition)
        if there >= 0:
            self.directories[there].cleaner.paused.discard(partition)

    def replace(self, partition: TopicPartition, high_watermark: int) -> BrokerLog:
        """Delete the current log and give the future one its name.

        All of the future log is on disk before that. Both have the same unique part in their names
        in between, so that a start after a crash knows which one is whole.
        """
        number = self._futures[partition].directory
        source, target = self.directories[self.directory_of(partition)], self.directories[number]
        clean_to = source.cleaner.clean_to(partition)
        unique = target.directory.settle(partition, high_watermark)
        source.directory.delete(partition, unique, source.now_ms())
        source.cleaner.forget(partition)
        del self._futures[partition]
        return self._settled_in(number, partition, clean_to)

    def _settled_in(self, number: int, partition: TopicPartition, clean_to: int) -> BrokerLog:
        one = self.directories[number]
        log = one.directory.replace(partition, one.now_ms())
        one.cleaner.take(partition, clean_to)
        one.directory.checkpoint()
        return one.replica_log(log)

    def _is_replaced(self, partition: TopicPartition, by: FileLogs) -> bool:
        """True if the current log was deleted for this one, and a crash came in between."""
        unique = by.directory.unique_of(partition)
        return self.directory_of(partition) < 0 and any(
            one.directory.was_replaced(partition, unique) for one in self.directories
        )

    def prefer(self, partition: TopicPartition, directory: int) -> None:
        """Put the partition into this directory, once it is created here."""
        self._preferred[partition] = directory

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

    def _next(self, partition: TopicPartition) -> int:
        """The directory that is preferred for a partition, or the one with the fewest logs, of
        those that serve. Raises StorageOffline.
        """
        serving = [number for number, one in enumerate(self.directories) if one.failure() is None]
        if not serving:
            raise StorageOffline(str(self.failure()))
        if self._preferred.get(partition, -1) in serving:
            return self._preferred[partition]
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
