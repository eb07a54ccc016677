"""How a member of a consumer group is led to its target assignment (KIP-848).

Spec: `Reconciled` in ConsumerGroup. First a member gives up what it must, in the epoch that it has;
when it has said so it gets the target's epoch, and what nobody else holds. Kafka's
CurrentAssignmentBuilder.
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
"""What a client says that it owns; None: it says nothing, and may own anything."""
IsFree: TypeAlias = Callable[[Partition], bool]
"""Whether nobody else holds a partition."""


def reconcile(
    member: ConsumerMember,
    target: frozenset[Partition],
    target_epoch: int,
    reported: Reported,
    is_free: IsFree,
) -> ConsumerMember:
    """The member after a heartbeat; `target` is what it subscribes to of the target assignment."""
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
    """The member without what it does not subscribe to any more, where nothing else is due."""
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
    """Told to give something up, in the epoch that it has."""
    return evolve(member, previous_epoch=member.epoch, state=UNREVOKED, assigned=kept, pending=out)


def _advanced(
    member: ConsumerMember,
    kept: Owned,
    target: frozenset[Partition],
    target_epoch: int,
    is_free: IsFree,
) -> ConsumerMember:
    """In the target's epoch, with as much of the target as is free."""
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
