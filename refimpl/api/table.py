"""Which APIs are served, in which versions, and by which module of this folder.

An API that is not here is not announced, and a client that sends it is disconnected, as by Kafka.
Modules are imported with the first request for them, so that a start costs little.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from attrs import frozen


@frozen
class Api:
    """One API: its key, its name as Kafka writes it, first and last version, and its module."""

    key: int
    name: str
    first: int
    last: int
    module: str

    @property
    def handle(self) -> Callable[..., Any]:
        """The module's `handle`."""
        return _module(self.module).handle

    @property
    def codec(self) -> Any | None:
        """The module's own `read(data, position, version)`, where records are in the message."""
        return getattr(_module(self.module), "read", None)


@cache
def _module(name: str) -> Any:
    return import_module(f"refimpl.api.{name}")


APIS: Mapping[int, Api] = {
    api.key: api
    for api in (
        Api(0, "Produce", 3, 13, "produce"),
        Api(1, "Fetch", 4, 18, "fetch"),
        Api(2, "ListOffsets", 1, 11, "list_offsets"),
        Api(3, "Metadata", 0, 13, "metadata"),
        Api(18, "ApiVersions", 0, 4, "api_versions"),
        Api(21, "DeleteRecords", 0, 2, "delete_records"),
        Api(22, "InitProducerId", 0, 5, "init_producer_id"),
        Api(23, "OffsetForLeaderEpoch", 2, 4, "offset_for_leader_epoch"),
    )
}
