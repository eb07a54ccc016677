"""A future replica: a replica's log in another directory of its broker, which is to be its log.

KIP-113. It follows the current log as a follower does its leader's: it compares epochs before it
copies (KIP-101), because the current log may be truncated meanwhile. It has no part in the ISR.
"""

from attrs import define

from refimpl.errors import OutsideLog
from refimpl.machines.replica import Replica
from refimpl.machines.replica_errors import NotCaughtUpWithCurrent, UndefinedEpoch
from refimpl.machines.replica_log import UNDEFINED, UNDEFINED_EPOCH, ReplicaLog


@define(eq=False)
class FutureReplica:
    """The log of one replica in the directory that it moves to."""

    current: Replica
    log: ReplicaLog

    @property
    def has_caught_up(self) -> bool:
        """True if this log has the records of the current one, from its start to its end."""
        ours, current = self.log, self.current.log
        if (ours.start, ours.end) != (current.start, current.end):
            return False
        try:
            return self.current.diverging(self.log.end, self.log.latest_epoch) is None
        except (OutsideLog, UndefinedEpoch):
            return False

    def follow(self, limit: int) -> None:
        """Copy the next records of the current log; where both diverge, truncate instead.

        If the current log has truncated all of our latest epoch, they are compared by its own. If
        they cannot be compared, it has deleted what this one lacks, or has lost all that this one
        has: then this one begins anew at its start. So it does where the current log has begun anew
        below our start.
        """
        ours, current = self.log, self.current
        if ours.start > current.log.start:
            ours.restart_at(current.log.start)
            return
        last = current.log.latest_epoch
        try:
            if UNDEFINED_EPOCH < last < ours.latest_epoch:
                leaves = current.log.end_of(last)
            else:
                leaves = current.diverging(ours.end, ours.latest_epoch)
        except (OutsideLog, UndefinedEpoch):
            ours.restart_at(current.log.start)
            return
        if leaves is not None:
            known = ours.end_of(leaves.epoch)
            ours.truncate_to(leaves.end if known == UNDEFINED else min(leaves.end, known.end))
            return
        ours.extend(current.log.slice(ours.end, limit))
        if ours.start < current.log.start:
            ours.advance_start(min(current.log.start, ours.end))

    def complete(self) -> None:
        """Take over what no record bears: the epoch that the current log has begun at its end.

        Raises a refusal unless the records are all here.
        """
        ours, current = self.log, self.current.log
        if not self.has_caught_up:
            raise NotCaughtUpWithCurrent(ours.end, current.end)
        if current.latest_epoch > ours.latest_epoch:
            ours.assign_epoch(current.latest_epoch)
