"""The reconciliation of a consumer group's member with its target assignment (KIP-848).

Spec: `Reconciled` in ConsumerGroup. First a member gives up partitions in its current epoch. Once
it has reported that, it gets the target's epoch, and all its target partitions that are free.
Kafka's CurrentAssignmentBuilder.
"""

from collections.abc import Callable
from typing import TypeAlias

from attrs import evolve

from refimpl.machines import consumer_group_errors as errors
from refimpl.machines.consumer_group import (
    STABLE,
    UNRELEASED,
    UNREVOKED,
    ConsumerMember,
    Owned,
    Partition,
)

Reported: TypeAlias = frozenset[Partition] | None
"""The partitions that a client reports to own; None if it reports nothing, and may own any."""
IsFree: TypeAlias = Callable[[Partition], bool]
"""True if no other member holds a partition."""


def reconcile(
    member: ConsumerMember,
    target: frozenset[Partition],
    target_epoch: int,
    reported: Reported,
    is_free: IsFree,
) -> ConsumerMember:
    """The member after a heartbeat; `target` is the part of the target assignment that it
    subscribes to.
    """
    if member.state not in (STABLE, UNREVOKED, UNRELEASED):
        if reported is None or reported:
            raise errors.UnknownState(member.member_id, member.state)
        member = evolve(member, epoch=target_epoch)
    waits = member.state == UNREVOKED and _may_own(reported, member.pending)
    if waits or member.is_reconciled_to(target_epoch):
        return member
    kept = {p: since for p, since in member.assigned.items() if p in target}
    out = {p: since for p, since in member.assigned.items() if p not in target}
    if out and _may_own(reported, out):
        return _revoking(member, kept, out)
    return _advanced(member, kept, target, target_epoch, is_free)


def drop_unsubscribed(
    member: ConsumerMember, subscribed: Callable[[Partition], bool], reported: Reported
) -> ConsumerMember:
    """The member without partitions that it no longer subscribes to, if nothing else is due."""
    gone = {p: since for p, since in member.assigned.items() if not subscribed(p)}
    if not gone:
        return member
    kept = {p: since for p, since in member.assigned.items() if p not in gone}
    pending = {**member.pending, **gone}
    if _may_own(reported, pending):
        return _revoking(member, kept, pending)
    return evolve(member, previous_epoch=member.epoch, assigned=kept)


def _may_own(reported: Reported, partitions: Owned) -> bool:
    return reported is None or any(p in partitions for p in reported)


def _revoking(member: ConsumerMember, kept: Owned, out: Owned) -> ConsumerMember:
    """The member with partitions to give up, in its current epoch."""
    return evolve(member, previous_epoch=member.epoch, state=UNREVOKED, assigned=kept, pending=out)


def _advanced(
    member: ConsumerMember,
    kept: Owned,
    target: frozenset[Partition],
    target_epoch: int,
    is_free: IsFree,
) -> ConsumerMember:
    """The member in the target's epoch, with all target partitions that are free."""
    new = sorted(p for p in target if p not in kept)
    free = {p: target_epoch for p in new if is_free(p)}
    return evolve(
        member,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        state=STABLE if len(free) == len(new) else UNRELEASED,
        assigned={**kept, **free},
        pending={},
    )
