"""A broker's descriptions of its own logs: their producers and their sizes."""

from collections.abc import Iterable, Mapping

from attrs import define

from refimpl.broker.context import Context
from refimpl.broker.logs import LogDirectory
from refimpl.errors import Refusal
from refimpl.machines.producer import Producer
from refimpl.messages.broker import (
    ActiveProducer,
    DescribedLog,
    DescribedProducers,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    Request,
    TopicPartition,
)


@define(eq=False)
class Descriptions:
    """The answers to DescribeProducers and DescribeLogDirs."""

    context: Context
    logs: LogDirectory

    def producers(self, request: Request) -> None:
        """DescribeProducers: who writes, as far as this replica knows, leader or not (KIP-664)."""
        body: DescribeProducersRequest = request.body
        found = tuple(map(self._producers_of, body.partitions))
        self.context.respond(request, DescribeProducersResponse(found))

    def _producers_of(self, name: TopicPartition) -> DescribedProducers:
        try:
            partition = self.context.partition(name)
        except Refusal as refusal:
            return DescribedProducers(name, refusal.kafka_error)
        return DescribedProducers(name, None, _active(partition.log.producers.producers))

    def log_dirs(self, request: Request) -> None:
        """DescribeLogDirs: the logs of these partitions that are here (KIP-113)."""
        body: DescribeLogDirsRequest = request.body
        here = self.context.partitions
        names: Iterable[TopicPartition] = here if body.partitions is None else body.partitions
        error = "KAFKA_STORAGE_ERROR" if self.context.offline and not here else None
        logs = tuple(log for name in names if name in here for log in self._logs(name))
        offline = self.logs.offline_directories()
        self.context.respond(request, DescribeLogDirsResponse(logs, error, offline))

    def _logs(self, name: TopicPartition) -> Iterable[DescribedLog]:
        partition = self.context.partitions[name]
        lag = max(partition.replica.high_watermark - partition.log.end, 0)
        yield DescribedLog(name, partition.log.size, lag, self.logs.directory_of(name))
        future = self.logs.futures().get(name)
        if future is not None:
            log, directory = future
            lag = max(partition.log.end - log.end, 0)
            yield DescribedLog(name, log.size, lag, directory, is_future=True)


def _active(producers: Mapping[int, Producer]) -> tuple[ActiveProducer, ...]:
    return tuple(
        ActiveProducer(
            *(producer_id, one.epoch, one.last_sequence, one.timestamp_ms),
            *(one.coordinator_epoch, one.first_offset),
        )
        for producer_id, one in producers.items()
    )
