"""Known bugs of share groups, each an edit of a machine or of the broker.

`python -m tests.chaos.share_mutants SEEDS FIRST [NAME]` puts one in after the other, and prints
which oracles find each, in how many seeds. Those with a number F1 to F11 are Kafka's
(docs/share-groups.md). Five of them have no place here: a fetch begins at the computed start, so no
record below it is asked for or given (F6, F10); each record has a state of its own, so no batch is
split (F7); each write has a request of its own (F9); and the log start is the leader's own, which
no epoch asks for (F3). A late write that takes the lag back (F11)
needs writes in one order and no write after them: `tests/refimpl/machines/test_share_state.py`.
"""

import sys
from typing import Any

from tests.chaos.transaction_mutants import TransactionBug, report

PARTITION = "refimpl.machines.share_partition:SharePartition"
STATE = "refimpl.machines.share_state"
LEADER = "refimpl.broker.share_partitions:SharePartitions"

PLAIN: dict[str, Any] = {
    **{"share_members": 2, "transactions": False, "deletes": False, "files": False, "store": False},
    **{"static_members": False, "reconfigures": False, "follower_reads": False},
    **{"fault_ms": 3000, "calm_ms": 15_000, "events": 250_000},
}
ABORTS: dict[str, Any] = {
    **{"transactions": True, "transactional_ids": 2, "applications": 0, "share_locks": 10},
    **{"share_isolation": "read_committed"},
}


def share_bug(*of: Any, **settings: Any) -> TransactionBug:
    """A bug in runs with a share group: name, reason, function, old, new, oracle and seed."""
    more = settings.pop("more", None)
    return TransactionBug(*of, settings={**PLAIN, **settings}, more=more)


BUGS = (
    share_bug(
        "the_start_goes_back",
        "F1: the share coordinator takes the start that was written last.",
        f"{STATE}:written",
        "max(known.start, write.start)",
        "write.start",
        "StartAscends",
        11,
    ),
    share_bug(
        "aborted_records_fill_the_window",
        "F2: the start does not move when a fetch archives.",
        f"{PARTITION}._pass_over",
        "self._move_start()",
        "pass",
        "Progress",
        0,
        more=(f"{PARTITION}.acquire", "nothing_known and not is_record", "False"),
        **ABORTS,
    ),
    share_bug(
        "a_hole_is_fetched_for_ever",
        "F4: what a fetch finds to hold nothing stays unknown.",
        f"{PARTITION}._pass_over",
        "self.deliveries[offset] = InFlightState(ARCHIVED, count)",
        "return",
        "Progress",
        0,
        more=(f"{PARTITION}.acquire", "nothing_known and not is_record", "False"),
        **ABORTS,
    ),
    share_bug(
        "the_log_start_is_not_heard_of",
        "F5: a fetch asks for what the log has deleted.",
        f"{PARTITION}.log_starts",
        "offset > self.start",
        "False",
        "Progress",
        0,
        deletes=True,
    ),
    share_bug(
        "a_late_initialisation_wipes_the_state",
        "F8: an initialisation of the same state epoch begins anew.",
        f"{STATE}:initialised",
        "state_epoch > current.state_epoch",
        "state_epoch >= current.state_epoch",
        "StartAscends",
        26,
        duplicate=0.1,
        stray=0.05,
    ),
    share_bug(
        "a_record_is_with_two_members",
        "S1: a fetch takes records that somebody holds.",
        "refimpl.machines.share_partition:InFlightState.is_free",
        "self.state is AVAILABLE and self.target is None",
        "self.state in (AVAILABLE, ACQUIRED) and self.target is None",
        "OneHolder",
        0,
    ),
    share_bug(
        "an_acknowledgement_is_answered_before_it_is_written",
        "S2: the leader moves, and the next one gives the record again.",
        f"{LEADER}._acknowledge",
        "write is None",
        "self._write(now, shared, write) is None if write else True",
        "AnsweredIsStored",
        0,
    ),
    share_bug(
        "a_write_settles_that_of_the_next_holder",
        "S2: a lock's end is written, and taken for the acceptance that came after it.",
        "refimpl.machines.share_partition:_awaits",
        "(known.target, known.count) == (state, count)",
        "known.target is not None",
        "EndIsFinal",
        224,
        static_members=True,
        reconfigures=True,
        calm_ms=40_000,
    ),
    share_bug(
        "the_start_passes_what_is_not_stored",
        "S2: a lock is over at the limit, and its member is answered success.",
        f"{PARTITION}._over",
        "evolve(held, target=ARCHIVED)",
        "InFlightState(ARCHIVED, held.count)",
        "AnsweredIsStored",
        50,
        more=(
            f"{PARTITION}.expire",
            "self._freed(over)",
            "self._freed(over) or self._move_start()",
        ),
    ),
    share_bug(
        "a_record_is_given_for_ever",
        "S3: nothing is archived at the delivery limit.",
        f"{PARTITION}._released",
        "held.count >= self.delivery_limit",
        "False",
        "CountsDeliveries",
        2,
        share_delivery_limit=2,
    ),
    share_bug(
        "a_state_is_told_before_it_is_committed",
        "S5: the next leader reads what its coordinator has loaded, and an election takes it back.",
        "refimpl.coordinator.runtime:Coordinator._answer",
        "not waits or self.log.high_watermark >= self.written",
        "True",
        "ReadIsCommitted",
        0,
    ),
    share_bug(
        "a_needed_snapshot_is_pruned",
        "S2: the state log begins behind the last snapshot of a share partition.",
        f"{STATE}:needed_from",
        "return min(snapshots, default=end)",
        "return max(snapshots, default=end)",
        "NeededIsKept",
        0,
        share_prune_ms=100,
        share_snapshot_updates=2,
        partitions=2,
    ),
    share_bug(
        "a_snapshot_that_is_not_committed_lets_others_go",
        "S2: the log is pruned up to the newest snapshots, and an election takes those back.",
        "refimpl.shares.shard:ShareShard.needed_from",
        "committed = map(self.states.committed, self.states.committed_keys())",
        "committed = self.states.current.values()",
        "NeededIsKept",
        0,
        share_prune_ms=20,
        share_snapshot_updates=2,
    ),
    share_bug(
        "an_assignment_is_told_once",
        "S4: its answer is lost, and the member reads on what it had.",
        "refimpl.groups.share:ShareGroups.heartbeat",
        "epoch != member.epoch",
        "epoch == 0 or member != group.members.get(member_id)",
        "Progress",
        9,
    ),
    share_bug(
        "the_start_passes_records_that_nobody_has",
        "S4: a record that somebody holds counts as done with.",
        f"{PARTITION}._move_start",
        "known.state in TERMINAL",
        "known.state is not AVAILABLE",
        "NothingLost",
        39,
    ),
)


if __name__ == "__main__":
    numbers = [int(one) for one in sys.argv[1:3]]
    report(BUGS, *numbers, only="".join(sys.argv[3:4]))
