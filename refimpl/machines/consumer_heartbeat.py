"""The operations on a consumer group: heartbeats, and members that leave (KIP-848).

Spec: ConsumerGroup. Each operation has three steps. The member is created or changed, which may
open an epoch of the group. A target assignment is computed for a new epoch. The member is led to
its target. Nothing is changed here: an operation returns records, and `replay` applies them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

from attrs import evolve, frozen

from refimpl.machines import consumer_group as g
from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.consumer_draft import Decision, Draft
from refimpl.machines.consumer_group import ConsumerGroup, ConsumerMember, Partition
from refimpl.machines.consumer_reconciliation import Reported, drop_unsubscribed, reconcile
from refimpl.records import consumer_groups as r
from refimpl.records.schema import Uuid


@frozen(kw_only=True)
class Heartbeat:
    """A member's ConsumerGroupHeartbeat request; None means unchanged.

    `epoch` 0 joins, or comes back; above 0 it is the epoch of the last answer.
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int | None = None
    topic_names: frozenset[str] | None = None
    topic_regex: str | None = None
    assignor: str | None = None
    owned: Reported = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """True if every field is there: the sender does not know the outcome of its last
        heartbeat.
        """
        subscribed = self.topic_names is not None or self.topic_regex is not None
        return self.rebalance_timeout_ms is not None and subscribed and self.owned is not None


class TopicsOfCluster(Protocol):
    """The topics of the cluster."""

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        """The ids of these topics; topics that do not exist are left out."""
        ...

    def metadata_hash(self, names: frozenset[str]) -> int:
        """A hash of everything that an assignment depends on: ids, partitions, racks (KIP-1101)."""
        ...


Assign: TypeAlias = Callable[[ConsumerGroup], Mapping[str, frozenset[Partition]]]
"""An assignor: the target partitions of each member of the group."""


@frozen
class Rules:
    """The settings and functions that an operation needs beside group and request; times in ms."""

    topics: TopicsOfCluster
    assign: Assign
    now: int
    assignment_interval_ms: int = 0
    max_size: int = 2**31 - 1
    #: True if the topics may have changed since the group's last operation
    refresh: bool = True


def heartbeat(group: ConsumerGroup, request: Heartbeat, rules: Rules) -> Decision:
    """A member joins, comes back, or reports that it lives and which partitions it owns.

    Refused: a client that is not a member, an epoch that is over, an instance id of another member,
    and a new member of a full group.
    """
    if len(group.members) >= rules.max_size and request.member_id not in group.members:
        raise errors.GroupMaxSizeReached(rules.max_size)
    draft = Draft(group)
    before = _sender(draft, request)
    after = led(draft, before, _said(before.said, request), request.owned, rules)
    news = request.epoch == 0 or request.is_full or after.assigned != before.assigned
    return draft.decided(after.member_id, after.assigned if news else None)


def led(
    draft: Draft,
    before: ConsumerMember,
    said: r.ConsumerGroupMemberMetadata,
    owned: Reported,
    rules: Rules,
) -> ConsumerMember:
    """The member after a request of either protocol.

    Its metadata is written, an epoch opened and a target computed if due, and the member is led to
    its target.
    """
    member = evolve(before, said=said)
    if member.member_id not in draft.group.members or member != before:
        draft.write(g.MEMBER, draft.key(member.member_id), member.said)
    regex = _regex_news(draft, before.regex, member.regex)
    names = set(member.said.subscribed_topic_names) != set(before.said.subscribed_topic_names)
    target_due(draft, rules, resubscribed=names or regex == "resolved")
    after = _reconciled(draft.group, member, owned, rules, resubscribed=names or regex != "none")
    if after != member:
        draft.write_current(after)
    return after


def target_due(draft: Draft, rules: Rules, *, resubscribed: bool = False) -> None:
    """Open an epoch if members or topics have changed, and compute its target if due."""
    if resubscribed or rules.refresh:
        _open_epoch(draft, rules, force=resubscribed)
    if may_compute(draft.group, rules):
        draft.write_target(rules.assign(draft.group), rules.now)


def leave(group: ConsumerGroup, request: Heartbeat, rules: Rules) -> Decision:
    """A member leaves. A static one that leaves for a while (-2) keeps its partitions."""
    if request.instance_id is None:
        member = group.member(request.member_id)
    else:
        member = static_member(group, request.member_id, request.instance_id)
        if request.epoch == g.LEAVE_FOR_A_WHILE:
            kept = dict.fromkeys(member.assigned, 0)
            draft = Draft(group)
            draft.write_current(evolve(member, epoch=request.epoch, assigned=kept, pending={}))
            return draft.decided(member.member_id)
    return fence(group, [member.member_id], rules)


def fence(group: ConsumerGroup, member_ids: Iterable[str], rules: Rules) -> Decision:
    """Remove members that leave, or whose session or rebalance timeout has expired."""
    draft = Draft(group)
    for member_id in member_ids:
        regex = group.member(member_id).regex
        draft.remove(member_id)
        if regex in group.regexes and not draft.group.subscribers(regex):
            draft.write(g.REGEX, r.RegularExpressionKey(group.group_id, regex))
    _open_epoch(draft, rules, force=True)
    return draft.decided()


def resolve(
    group: ConsumerGroup, resolved: Mapping[str, r.RegularExpression], rules: Rules
) -> Decision:
    """Take regular expressions with the topics that match them (KAFKA-19899)."""
    draft, news = Draft(group), False
    for regex, value in resolved.items():
        if group.subscribers(regex):
            old = group.regexes.get(regex)
            news = news or frozenset(value.topics) != frozenset(() if old is None else old.topics)
            draft.write(g.REGEX, r.RegularExpressionKey(group.group_id, regex), value)
    _open_epoch(draft, rules, force=news)
    return draft.decided()


def may_compute(group: ConsumerGroup, rules: Rules) -> bool:
    """True if a target is due: the epoch is newer than the last target, and that one is old
    enough.

    A target of the future is one of a coordinator whose clock was ahead: it does not hold up this
    one.
    """
    interval, computed = rules.assignment_interval_ms, group.target_timestamp
    rested = not computed or not computed <= rules.now < computed + interval
    return group.target_epoch < group.epoch and rested


def compute_target(group: ConsumerGroup, rules: Rules) -> Decision:
    """Compute a target assignment for the group's epoch."""
    draft = Draft(group)
    draft.write_target(rules.assign(draft.group), rules.now)
    return draft.decided()


# The sender of a request


def _sender(draft: Draft, request: Heartbeat) -> ConsumerMember:
    """The sender of a heartbeat; a static member that was away gets its new id."""
    group, instance_id = draft.group, request.instance_id
    if request.epoch != 0:
        if instance_id is None:
            member = group.member(request.member_id)
        else:
            member = static_member(group, request.member_id, instance_id)
        _check_epoch(member, request)
        return member
    holder = group.instance(instance_id)
    if instance_id is None or holder is None:
        return group.members.get(request.member_id) or ConsumerMember(request.member_id)
    if holder.epoch == g.LEAVE_FOR_A_WHILE or holder.is_classic:  # KAFKA-17228
        return replace(draft, holder, request.member_id)
    if holder.member_id != request.member_id:
        raise errors.UnreleasedInstanceId(request.member_id, instance_id, holder.member_id)
    return holder


def static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The member of an instance id; refused if the instance id is another member's, or unknown."""
    holder = group.instance(instance_id)
    if holder is None:
        raise errors.UnknownInstance(instance_id)
    if holder.member_id != member_id:
        raise errors.FencedInstanceId(member_id, instance_id, holder.member_id)
    return holder


def _check_epoch(member: ConsumerMember, request: Heartbeat) -> None:
    """Refuse an epoch that is not current.

    The epoch before is accepted from a member that missed an answer, and owns no more than it
    should.
    """
    epoch, owned = request.epoch, request.owned
    if epoch == member.epoch:
        return
    missed = member.previous_epoch == epoch < member.epoch
    if not missed or owned is None or not owned <= member.assigned.keys():
        raise errors.FencedMemberEpoch(member.member_id, epoch, member.epoch)


def replace(draft: Draft, holder: ConsumerMember, member_id: str) -> ConsumerMember:
    """Let the next process of a static member take over its predecessor's state."""
    target = draft.group.target.get(holder.member_id, frozenset[Partition]())
    member = evolve(holder, member_id=member_id, epoch=0, previous_epoch=0)
    draft.remove(holder.member_id)
    draft.write(g.MEMBER, draft.key(member_id), member.said)
    draft.write_target_of(member_id, target)
    draft.write_current(member)
    return member


def _said(
    before: r.ConsumerGroupMemberMetadata, request: Heartbeat
) -> r.ConsumerGroupMemberMetadata:
    """A member's own metadata after a request, in which None means unchanged."""
    said: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "server_assignor": request.assignor,
        "subscribed_topic_regex": request.topic_regex,
    }
    if request.topic_names is not None:
        said["subscribed_topic_names"] = tuple(sorted(request.topic_names))
    return evolve(
        before,
        **{name: value for name, value in said.items() if value is not None},
        client_id=request.client_id,
        client_host=request.client_host,
        classic_member_metadata=None,
    )


# Records


def _regex_news(draft: Draft, old: str, new: str) -> Literal["none", "changed", "resolved"]:
    """The change of a member's regular expression: "none", "changed", or "resolved" if the topics
    of the new one are known already.
    """
    if old == new:
        return "none"
    if old and not draft.group.subscribers(old) and old in draft.group.regexes:
        draft.write(g.REGEX, r.RegularExpressionKey(draft.group.group_id, old))
    return "resolved" if not new or new in draft.group.regexes else "changed"


def _open_epoch(draft: Draft, rules: Rules, *, force: bool) -> None:
    """Open the group's next epoch, if forced or if the topics have changed."""
    group = draft.group
    topics = rules.topics.metadata_hash(group.subscribed_topics())
    if force or topics != group.metadata_hash:
        value = r.ConsumerGroupMetadata(epoch=group.epoch + 1, metadata_hash=topics)
        draft.write(g.GROUP, r.GroupKey(group.group_id), value)


def _reconciled(
    group: ConsumerGroup,
    member: ConsumerMember,
    owned: Reported,
    rules: Rules,
    *,
    resubscribed: bool,
) -> ConsumerMember:
    """The member, led to its target; partitions that it does not subscribe to are left out."""
    if not resubscribed and member.is_reconciled_to(group.target_epoch):
        return member
    ids, member_id = rules.topics.ids(group.topic_names(member)), member.member_id
    target = frozenset(p for p in group.target.get(member_id, ()) if p[0] in ids)
    after = reconcile(
        member, target, group.target_epoch, owned, lambda p: group.is_free(p, member_id)
    )
    if after is member and resubscribed:
        return drop_unsubscribed(member, lambda p: p[0] in ids, owned)
    return after
