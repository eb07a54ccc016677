"""A rebalance on demand: a member of nobody's joins a group, and leaves it again.

So a group rebalances by its own rules, whatever its protocol is.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from attrs import define, field

from refimpl.edge.server.cues import Cue, Event
from refimpl.edge.server.host import BrokerHost
from refimpl.machines.classic_group import ClassicGroup
from refimpl.machines.consumer_group import ConsumerGroup
from refimpl.messages import group as g

NAME = "highwater-rebalance"
SESSION_MS = 300_000

Hosts = Mapping[int, BrokerHost]


def coordinator_of(hosts: Hosts, group: str) -> int:
    """The broker that coordinates a group. Raises LookupError."""
    for number, host in hosts.items():
        if _of(host, group) is not None:
            return number
    raise LookupError(f"no broker knows of a group {group!r}")


def group_of(hosts: Hosts, group: str) -> Any:
    """A group as its coordinator has it; None if there is none."""
    return next((found for one in hosts.values() if (found := _of(one, group)) is not None), None)


def _of(host: BrokerHost, group: str) -> Any:
    """A group that this broker coordinates."""
    coordinators = host.node.groups.coordinators.by_partition.values() if host.up else ()
    groups = (one.shard.store.groups.get(group) for one in coordinators)
    return next((one for one in groups if one is not None), None)


@define(eq=False)
class Phantom:
    """The member that joins and leaves."""

    hosts: Hosts
    group: str
    stays: bool = field(default=False, init=False)
    _host: BrokerHost = field(init=False)
    _id: str = field(init=False)
    _epoch: int = field(default=0, init=False)

    def join(self) -> None:
        """Join; in a classic group leave again at once, for now all members have to join anew.

        Raises LookupError for a group that has no members.
        """
        self._host = self.hosts[coordinator_of(self.hosts, self.group)]
        found = group_of(self.hosts, self.group)
        members = getattr(found, "members", {})
        if not members:
            raise LookupError(f"group {self.group!r} has no members")
        if isinstance(found, ClassicGroup):
            self._join_classic(found)
        elif isinstance(found, ConsumerGroup):
            self._join_consumer(found)

    def _join_classic(self, found: ClassicGroup) -> None:
        like = next(iter(found.members.values()))
        self._ask(
            g.JoinGroupRequest(
                self.group,
                like.session_ms,
                like.rebalance_ms,
                "",
                None,
                found.protocol_type or "consumer",
                like.protocols,
                NAME,
                requires_known_member_id=False,
            )
        )
        joined = group_of(self.hosts, self.group).members.keys() - found.members.keys()
        leaving = [g.LeavingMember(one) for one in joined]
        self._ask(g.LeaveGroupRequest(self.group, leaving))

    def _join_consumer(self, found: ConsumerGroup) -> None:
        like = next(iter(found.members.values())).said
        self.stays, self._id = True, str(uuid4())
        self._ask(
            g.ConsumerGroupHeartbeatRequest(
                self.group,
                self._id,
                0,
                rebalance_timeout_ms=SESSION_MS,
                subscribed_topic_names=tuple(like.subscribed_topic_names),
                subscribed_topic_regex=like.subscribed_topic_regex or None,
                topic_partitions=(),
                client_id=NAME,
            )
        )
        self._epoch = group_of(self.hosts, self.group).epoch

    def cue(self) -> Cue:
        """Leave when all others have come to the epoch in which it joined."""
        cue = _Reconciled("reconciled", {}, 1, self._leave, required=False)
        cue.phantom = self
        return cue

    def is_due(self) -> bool:
        """True if all others have come so far, or are gone."""
        found = group_of(self.hosts, self.group)
        others = [one for id, one in getattr(found, "members", {}).items() if id != self._id]
        return all(one.is_reconciled_to(max(one.epoch, self._epoch)) for one in others)

    async def _leave(self, event: Event) -> None:
        """Once the coordinator has said what it was about to say."""
        self._ask(g.ConsumerGroupHeartbeatRequest(self.group, self._id, g.UNKNOWN_GENERATION))

    def _ask(self, body: Any) -> None:
        self._host.ask(body, lambda answer: None)


@define(eq=False, repr=False)
class _Reconciled(Cue):
    phantom: Phantom = field(init=False)

    def fits(self, event: Event) -> bool:
        """True if the phantom may leave."""
        return event.group == self.phantom.group and self.phantom.is_due()
