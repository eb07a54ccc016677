"""The answer of a node that refuses: for faults that fail a request without handling it.

What a handler asks its node is refused before the node hears of it; what it answers by itself has
its error codes replaced, all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import define

from refimpl.api.call import Answer, Served
from refimpl.messages import broker as m
from refimpl.messages import controller as c
from refimpl.messages import group as g
from refimpl.messages import share as s
from refimpl.messages import transaction_coordination as t
from refimpl.messages import transactions as markers


def _produced(body: m.ProduceRequest, error: str) -> Any:
    return m.ProduceResponse([m.ProducedPartition(name, error, -1) for name, _ in body.batches])


def _fetched(body: m.FetchRequest, error: str) -> Any:
    return m.FetchResponse([m.FetchedPartition(one.partition, error) for one in body.partitions])


def _listed(body: m.ListOffsetsRequest, error: str) -> Any:
    return m.ListOffsetsResponse([m.ListedOffset(one[0], error) for one in body.partitions])


def _epoch_ends(body: m.OffsetForLeaderEpochRequest, error: str) -> Any:
    return m.OffsetForLeaderEpochResponse([(one[0], error, -1, -1) for one in body.partitions])


def _deleted(body: m.DeleteRecordsRequest, error: str) -> Any:
    return m.DeleteRecordsResponse([m.DeletedPartition(one[0], error) for one in body.partitions])


def _producers(body: m.DescribeProducersRequest, error: str) -> Any:
    return m.DescribeProducersResponse(
        [m.DescribedProducers(one, error) for one in body.partitions]
    )


def _marked(body: markers.WriteTxnMarkersRequest, error: str) -> Any:
    return markers.WriteTxnMarkersResponse(
        {one.producer_id: dict.fromkeys(one.partitions, error) for one in body.markers}
    )


def _coordinators(body: g.FindCoordinatorRequest, error: str) -> Any:
    return g.FindCoordinatorResponse([g.FoundCoordinator(key, error) for key in body.keys])


_REFUSED: Mapping[type, Callable[[Any, str], Any]] = {
    m.ProduceRequest: _produced,
    m.FetchRequest: _fetched,
    m.ListOffsetsRequest: _listed,
    m.OffsetForLeaderEpochRequest: _epoch_ends,
    m.DeleteRecordsRequest: _deleted,
    m.DescribeProducersRequest: _producers,
    markers.WriteTxnMarkersRequest: _marked,
    m.AlterReplicaLogDirsRequest: lambda body, error: m.AlterReplicaLogDirsResponse(
        [(partition, error) for partition, _ in body.moves]
    ),
    m.DescribeLogDirsRequest: lambda body, error: m.DescribeLogDirsResponse((), error),
    m.MetadataRequest: lambda body, error: m.MetadataResponse(()),
    c.InitProducerIdRequest: lambda body, error: c.InitProducerIdResponse(error),
    g.FindCoordinatorRequest: _coordinators,
    g.ListGroupsRequest: g.refused,
    **dict.fromkeys(g.REQUESTS, g.refused),
    **dict.fromkeys((*s.STATE_REQUESTS, s.ShareFetchRequest, s.ShareAcknowledgeRequest), s.refused),
    t.ListTransactionsRequest: t.refused,
    **dict.fromkeys(t.REQUESTS, t.refused),
}


def refused(body: Any, error: str) -> Any:
    """A response that says this error everywhere."""
    kind: type[Any] = body.__class__
    known = _REFUSED.get(kind)
    return c.ControlResponse(error) if known is None else known(body, error)


def with_errors(answer: Answer, error: str) -> Answer:
    """The same answer, but with this error wherever there is a place for one."""
    if not isinstance(answer, Mapping):
        return answer
    return {**{name: _within(value, error) for name, value in answer.items()}, "error_code": error}


def _within(value: Any, error: str) -> Any:
    if isinstance(value, Mapping):
        return with_errors(cast("Mapping[str, Any]", value), error)
    if isinstance(value, list | tuple):
        return [_within(one, error) for one in cast("list[Any]", value)]
    return value


def failing(broker: Served, error: str) -> Served:
    """A broker that refuses everything with one error, before its node hears of it."""
    return cast("Served", _Failing(broker, error))


@define(eq=False)
class _Failing:
    broker: Served
    error: str

    def __getattr__(self, name: str) -> Any:
        """Everything else is the broker's."""
        return getattr(self.broker, name)

    def ask(self, body: Any, then: Callable[[Any], None]) -> None:
        """Refuse."""
        then(refused(body, self.error))
