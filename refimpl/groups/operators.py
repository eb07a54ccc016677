"""Operators' requests about groups: ListGroups, DescribeGroups, ConsumerGroupDescribe,
DeleteGroups.

Descriptions show committed state, and are answered at once.
"""

from collections.abc import Mapping

from attrs import define, field

from refimpl.coordinator.operation import Answer, Handler, Outcome, Token
from refimpl.groups.errors import GroupIdNotFound
from refimpl.groups.offsets import tombstones
from refimpl.groups.store import GroupStore
from refimpl.messages import group as m

EMPTY, DEAD = "Empty", "Dead"


@define(eq=False)
class GroupOperators:
    """The groups of one coordinator, as operators see them."""

    store: GroupStore
    handlers: Mapping[type, Handler] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Map each type of request to its handler."""
        self.handlers = {
            m.DescribeGroupRequest: self.describe,
            m.ConsumerGroupDescribeRequest: self.describe_consumer,
            m.DeleteGroupRequest: self.delete,
        }

    def listed(self, request: m.ListGroupsRequest) -> list[m.ListedGroup]:
        """The groups in one of these states and of one of these types; no names mean all."""
        states = {one.strip().lower() for one in request.states}
        types = {one.strip().lower() for one in request.types}
        found = map(self._listed, self.store.group_ids(committed=True))
        return [
            one
            for one in found
            if (not states or one.state.lower() in states)
            and (not types or one.type.lower() in types)
        ]

    def _listed(self, group_id: str) -> m.ListedGroup:
        group = self.store.groups.committed(group_id)
        if group is None:
            return m.ListedGroup(group_id, "", EMPTY, m.CLASSIC)
        logic = self.store.logic_of(group)
        return m.ListedGroup(group_id, *logic.listed(group), logic.group_type)

    def describe(self, now: int, token: Token, request: m.DescribeGroupRequest) -> Outcome:
        """Describe a classic group; one that does not exist is Dead (KIP-1043)."""
        group_id = request.group_id
        group = self.store.groups.committed(group_id)
        logic = None if group is None else self.store.logic_of(group)
        if logic is not None and logic.group_type == m.CLASSIC:
            body = logic.described(group_id, group)
        elif logic is None and self.store.is_simple(group_id, committed=True):
            body = m.DescribeGroupResponse(group_id, None, state=EMPTY)
        else:
            what = "not found." if logic is None else "is not a classic group."
            why = f"Group {group_id} {what}"
            body = m.DescribeGroupResponse(group_id, "GROUP_ID_NOT_FOUND", why, DEAD)
        return Outcome(answers=(Answer(token, body),), waits=False)

    def describe_consumer(
        self, now: int, token: Token, request: m.ConsumerGroupDescribeRequest
    ) -> Outcome:
        """Describe a consumer group."""
        group_id = request.group_id
        group = self.store.groups.committed(group_id)
        logic = None if group is None else self.store.logic_of(group)
        if logic is not None and logic.group_type == m.CONSUMER:
            body = logic.described(group_id, group)
        else:
            known = logic is not None or self.store.is_simple(group_id, committed=True)
            why = f"Group {group_id} " + ("is not a consumer group." if known else "not found.")
            body = m.ConsumerGroupDescribeResponse(group_id, "GROUP_ID_NOT_FOUND", why)
        return Outcome(answers=(Answer(token, body),), waits=False)

    def delete(self, now: int, token: Token, request: m.DeleteGroupRequest) -> Outcome:
        """Delete a group without members, and its offsets."""
        group_id = request.group_id
        group = self.store.groups.get(group_id)
        records = tombstones(self.store, group_id)
        if group is not None:
            records += self.store.logic_of(group).deletion(group_id, group)
        elif not records and group_id not in self.store.emptied:
            raise GroupIdNotFound(group_id)
        self.store.emptied.pop(group_id, None)
        return Outcome(records, (Answer(token, m.DeleteGroupResponse(group_id, None)),))
