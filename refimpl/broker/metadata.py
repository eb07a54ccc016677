"""A broker's metadata of the cluster, and its answers to clients."""

from collections.abc import Mapping, Sequence

from attrs import define, field

from refimpl.broker.context import Context
from refimpl.messages.broker import (
    MetadataResponse,
    PartitionMetadata,
    Request,
)
from refimpl.messages.cluster import Change, ClusterMetadata, PartitionRegistration
from refimpl.messages.controller import UpdateMetadataRequest


@define(eq=False)
class Metadata(ClusterMetadata):
    """All metadata that this broker has received, and its answers to clients."""

    context: Context = field(kw_only=True)
    controller_epoch: int = -1
    #: The newest version that this broker has heard of
    heard_version: int = -1

    @property
    def is_current(self) -> bool:
        """True if no update is missing before one that this broker has heard of."""
        return self.metadata_version >= self.heard_version

    def take(self, news: UpdateMetadataRequest) -> Sequence[Change]:
        """Apply an update; return the changes that concern us, and the subjects that a full update
        lacks.

        A decision about a partition concerns us even if it may be an old one: the replica decides
        that.

        A newer controller begins with a full update (KAFKA-4443); an older controller is ignored.
        In an update that is out of order only partitions count, because they bear epochs. The rest
        comes again, because a heartbeat reports our version to the controller.
        """
        if news.controller_epoch < self.controller_epoch:
            return ()
        newer = news.controller_epoch > self.controller_epoch
        if news.is_full:
            if not newer and news.metadata_version < self.metadata_version:
                return self._partitions_of(news)
            changes = (*self.gone(news.changes), *news.changes)
        elif newer:
            return ()
        elif news.metadata_version != self.metadata_version + 1:
            self.heard_version = max(self.heard_version, news.metadata_version)
            return self._partitions_of(news)
        else:
            changes = news.changes
        self.controller_epoch, self.metadata_version = news.controller_epoch, news.metadata_version
        self.heard_version = max(self.heard_version, news.metadata_version) if not newer else -1
        self.controller_id, self.cluster_id = news.controller_id, news.cluster_id
        return [change for change in changes if self.apply(change)]

    def _partitions_of(self, news: UpdateMetadataRequest) -> Sequence[Change]:
        partitions = [one for one in news.changes if isinstance(one, PartitionRegistration)]
        return [one for one in partitions if self.apply(one)]

    def answer(self, request: Request, errors: Mapping[str, str]) -> None:
        """Answer a Metadata request: the leaders of the topics asked for."""
        wanted = request.body.topics
        partitions = [
            PartitionMetadata(
                one.partition,
                "LEADER_NOT_AVAILABLE" if one.decision.leader is None else None,
                -1 if one.decision.leader is None else one.decision.leader,
                one.decision.leader_epoch,
                one.decision.isr,
            )
            for one in self.partitions.values()
            if wanted is None or one.partition.topic in wanted
        ]
        self.context.respond(request, MetadataResponse(tuple(partitions), errors))
