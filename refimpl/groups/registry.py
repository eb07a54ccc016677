"""The types of groups that a coordinator serves, each with its logic."""

from collections.abc import Callable
from typing import TypeAlias

from refimpl.coordinator.log import CoordinatorLog
from refimpl.groups.classic import ClassicGroups
from refimpl.groups.config import GroupConfig
from refimpl.groups.consumer import ConsumerGroups
from refimpl.groups.logic import GroupLogic
from refimpl.groups.shard import GroupCoordinator, coordinator_of
from refimpl.groups.share import ShareGroups
from refimpl.groups.store import GroupStore
from refimpl.groups.topics import Topics

NewId: TypeAlias = Callable[[], str]
"""Makes ids that are never repeated."""

NewLogic: TypeAlias = Callable[[GroupStore, GroupConfig, Topics, NewId], GroupLogic]

LOGICS: tuple[NewLogic, ...] = (ClassicGroups, ConsumerGroups, ShareGroups)
"""The types of groups that are served."""


def new_coordinator(
    partition: int, log: CoordinatorLog, config: GroupConfig, topics: Topics, new_id: NewId
) -> GroupCoordinator:
    """The coordinator of a partition, which has yet to be loaded."""
    store = GroupStore()
    store.serve(tuple([new(store, config, topics, new_id) for new in LOGICS]))
    return coordinator_of(partition, log, store, config)
