"""The rebalance listener that kafka-python and aiokafka are given, in front of the user's own."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from traces.record.wrapper import Fields


class Rebalanced(Protocol):
    """A recorded consumer, as its listener sees it."""

    def write_assigned(self, partitions: Any) -> None:
        """A rebalance gave partitions to this member."""
        ...

    def giving_up(self, op: str, partitions: Any) -> AbstractContextManager[None]:
        """A rebalance takes them; the line follows what the application still does with them."""
        ...


def listener(kind: type, consumer: Rebalanced, user: Any, awaited: bool) -> Any:
    """A listener of the library's own kind; its methods are coroutines where it awaits them."""
    methods = _awaited(consumer, user) if awaited else _called(consumer, user)
    return type("RecordedListener", (kind,), methods)()


def _nothing(_: Any) -> None:
    """A listener for a user that gave none."""


def _users(user: Any, *names: str) -> Callable[[Any], Any]:
    found = (getattr(user, name, None) for name in names)
    return next((method for method in found if method is not None), _nothing)


ASSIGNED = "on_partitions_assigned"
REVOKED = "on_partitions_revoked"
LOST = "on_partitions_lost"


def _called(consumer: Rebalanced, user: Any) -> Fields:
    def assigned(_: Any, partitions: Any) -> None:
        consumer.write_assigned(partitions)
        _users(user, ASSIGNED)(partitions)

    def revoked(_: Any, partitions: Any) -> None:
        with consumer.giving_up("revoked", partitions):
            _users(user, REVOKED)(partitions)

    def lost(_: Any, partitions: Any) -> None:
        with consumer.giving_up("lost", partitions):
            _users(user, LOST, REVOKED)(partitions)

    return {ASSIGNED: assigned, REVOKED: revoked, LOST: lost}


def _awaited(consumer: Rebalanced, user: Any) -> Fields:
    async def assigned(_: Any, partitions: Any) -> None:
        consumer.write_assigned(partitions)
        await _if_needed(_users(user, ASSIGNED)(partitions))

    async def revoked(_: Any, partitions: Any) -> None:
        with consumer.giving_up("revoked", partitions):
            await _if_needed(_users(user, REVOKED)(partitions))

    async def lost(_: Any, partitions: Any) -> None:
        with consumer.giving_up("lost", partitions):
            await _if_needed(_users(user, LOST, REVOKED)(partitions))

    return {ASSIGNED: assigned, REVOKED: revoked, LOST: lost}


async def _if_needed(answer: Any) -> None:
    if inspect.isawaitable(answer):
        await answer
