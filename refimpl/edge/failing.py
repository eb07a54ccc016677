"""The answer of a node that refuses: for faults that fail a request without handling it."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import define

from refimpl.api.call import Served
from refimpl.broker import messages as m


def _produced(body: m.ProduceRequest, error: str) -> Any:
    return m.ProduceResponse([m.ProducedPartition(name, error, -1) for name, _ in body.batches])


def _fetched(body: m.FetchRequest, error: str) -> Any:
    return m.FetchResponse([m.FetchedPartition(one.partition, error) for one in body.partitions])


def _listed(body: m.ListOffsetsRequest, error: str) -> Any:
    return m.ListOffsetsResponse([m.ListedOffset(one[0], error) for one in body.partitions])


def _epoch_ends(body: m.OffsetForLeaderEpochRequest, error: str) -> Any:
    return m.OffsetForLeaderEpochResponse([(one[0], error, -1, -1) for one in body.partitions])


_REFUSED: Mapping[type, Callable[[Any, str], Any]] = {
    m.ProduceRequest: _produced,
    m.FetchRequest: _fetched,
    m.ListOffsetsRequest: _listed,
    m.OffsetForLeaderEpochRequest: _epoch_ends,
}


def refused(body: Any, error: str) -> Any:
    """A response that says this error everywhere. Raises KeyError for other requests."""
    return _REFUSED[type(body)](body, error)


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
