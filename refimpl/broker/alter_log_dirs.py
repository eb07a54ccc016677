"""Moves of replicas between the log directories of one broker (KIP-113).

Kafka calls it ReplicaAlterLogDirsManager. A move goes on in pieces, between which the node does
everything else; the rule by which a future log follows the current one is FutureReplica's.
"""

from collections.abc import Callable

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.broker.errors import (
    LogDirNotFound,
    PartitionOffline,
    ReplicaNotAvailable,
    TopicNameTooLong,
    UnknownTopicOrPartition,
)
from refimpl.broker.log_manager import LogManager
from refimpl.errors import Refusal, StorageDamage, StorageOffline
from refimpl.machines.future_replica import FutureReplica
from refimpl.messages.broker import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    Request,
    TopicPartition,
)
from refimpl.storage.log.log_dir import future_name

LONGEST_FOLDER = 255


@define(eq=False)
class ReplicaAlterLogDirs:
    """The moves of one broker's replicas; `arm` has `work` called again."""

    context: Context
    storage: LogManager
    arm: Callable[[], None]
    moves: dict[TopicPartition, FutureReplica] = field(
        factory=dict[TopicPartition, FutureReplica], init=False
    )
    _armed: bool = field(default=False, init=False)

    def alter(self, request: Request) -> None:
        """AlterReplicaLogDirs: begin moves, change where they go, or end them."""
        body: AlterReplicaLogDirsRequest = request.body
        errors = [(name, self._alter(name, directory)) for name, directory in body.moves]
        self.context.respond(request, AlterReplicaLogDirsResponse(errors))
        self.resume()

    def _alter(self, name: TopicPartition, directory: int) -> str | None:
        try:
            self._begin(name, directory)
        except Refusal as refusal:
            self.context.refused("AlterReplicaLogDirs", refusal)
            return refusal.kafka_error
        return None

    def _begin(self, name: TopicPartition, directory: int) -> None:
        """Begin to move a replica, unless it is there; a move elsewhere ends. Raises a refusal.

        No log is created while a directory is offline: it may have one of the partition.
        """
        context, logs = self.context, self.storage.logs
        folder = future_name(name, "0" * 32)
        if len(folder) > LONGEST_FOLDER:
            raise TopicNameTooLong(len(folder), LONGEST_FOLDER)
        if directory < 0:
            raise LogDirNotFound(context.id)
        offline = logs.offline_directories()
        if directory in offline:
            raise StorageOffline(f"log directory {directory} has failed")
        if name in context.offline:
            raise PartitionOffline(context.id, name, context.offline[name])
        if name not in context.partitions:
            logs.prefer(name, directory)
            if name in context.known:
                raise ReplicaNotAvailable(context.id, name)
            raise UnknownTopicOrPartition(context.id, name)
        future = logs.futures().get(name)
        if future is not None and future.directory != directory:
            logs.stop_moving(name)
        if logs.directory_of(name) == directory or name in logs.futures():
            return
        if offline:
            raise StorageOffline("no log is created while a log directory is offline")
        logs.move(name, directory)

    def resume(self) -> None:
        """Go on with moves that were begun: now, or by an earlier process."""
        for name, future in self.storage.logs.futures().items():
            partition, known = self.context.partitions.get(name), self.moves.get(name)
            if partition is not None and (known is None or known.log is not future.log):
                self.moves[name] = FutureReplica(partition.replica, future.log)
        if self.moves and not self._armed:
            self._armed = True
            self.arm()

    def _drop_ended(self) -> None:
        """Forget moves whose partition is deleted or offline, and those whose directory failed."""
        going, here = self.storage.logs.futures(), self.context.partitions
        for name, move in list(self.moves.items()):
            future = going.get(name)
            if name not in here or future is None or future.log is not move.log:
                del self.moves[name]

    def work(self) -> bool:
        """Copy the next piece of each partition that moves; True if there is more to do.

        A partition whose current log fails leaves with that; where the future one fails, it stays.
        """
        context, config = self.context, self.context.config
        self._drop_ended()
        left = config.replica_fetch_response_max_bytes
        for name, future in list(self.moves.items()):
            if left <= 0:
                break
            before = future.log.end
            try:
                future.follow(config.replica_fetch_max_bytes)
                if future.has_caught_up:
                    self._replace(name, future)
            except StorageOffline as failure:
                context.refused("AlterReplicaLogDirs", failure)
            except (Refusal, StorageDamage):
                self._give_up(name)
            left -= config.replica_fetch_max_bytes if future.log.end > before else 0
            if name in self.moves:
                self.moves[name] = self.moves.pop(name)  # behind the others
        self.storage.write_epochs()
        self._drop_ended()
        self._armed = bool(self.moves)
        return self._armed

    def _give_up(self, name: TopicPartition) -> None:
        """Let a replica stay where it is whose log cannot be read, or not be written as it is."""
        try:
            self.storage.logs.stop_moving(name)
        except StorageOffline as failure:
            self.context.refused("AlterReplicaLogDirs", failure)

    def _replace(self, name: TopicPartition, future: FutureReplica) -> None:
        """Let the future log be the partition's. If that fails, the partition goes offline."""
        future.complete()
        partition = self.context.partitions[name]
        del self.moves[name]
        log = self.storage.logs.replace(name, partition.replica.high_watermark)
        partition.log = partition.replica.log = log
