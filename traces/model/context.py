"""The configuration of a run as the kernels see it: settings by the numbers in the rows.

`Clause` is the reason why a finding is no violation. It is decided row by row inside the kernels,
because one run may hold producers that were promised different things.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from traces.model.lacking import (
    FILES,
    LOG_STARTS,
    NOTHING,
    PARTITION,
    READERS,
    SCANNED,
    SENDERS,
    Lacking,
    Needs,
)
from traces.model.lives import GroupLives
from traces.model.sizes import Sizes

Ints = NDArray[np.int64]
NEVER = int(np.iinfo(np.int64).max)
UNSET = -1  # a setting that meta.json does not hold


class Clause(IntEnum):
    """The line of the configuration that permits a finding; NOT means that none does."""

    NOT = 0
    UNKNOWN = 1
    ACKS = 2
    UNCLEAN = 3
    MIN_ISR = 4
    IDEMPOTENCE = 5
    IN_FLIGHT = 6
    RESENT = 7
    COMMIT_ORDER = 8
    ISOLATION = 9
    FLUSH = 10
    PROGRESS = 12  # what only comes too late is no breach of safety, and never called violated
    SESSION = 13  # nor is what idempotence does not promise
    SILENCE = 14  # a member that its group may have given up
    UNACKNOWLEDGED = 15  # a share group's delivery that may be forgotten
    OFFSETS = 16  # what a group's coordinator knew may be lost with its log
    REPLACED = 17  # a share group's delivery by a leader that may have been replaced
    CLOCK = 20  # a leader's clock, by which it stamps
    OTHERS = 21  # somebody who was not recorded commits for the group, too
    FENCE = 22  # nor is everybody recorded who may fence a producer


# What these permit is told, and never called a violation, however strictly.
INFORMATION = (Clause.PROGRESS, Clause.SESSION, Clause.CLOCK, Clause.FENCE)
# What is found is no breach and is not permitted: it may be either.
UNDECIDED = (Clause.UNKNOWN, Clause.OTHERS)


class Order(IntEnum):
    """When a group commits, relative to processing."""

    UNKNOWN = -1
    NONE = 0
    PROCESS_THEN_COMMIT = 1
    COMMIT_THEN_PROCESS = 2
    AUTO = 3
    TRANSACTION = 4  # offsets go with the outputs of a transaction


class Senders(IntEnum):
    """Senders to a topic besides the processes that were recorded."""

    ANYBODY = 0  # others, who may have sent a record that was recorded, too
    STRANGERS = 1  # others, who sent records of their own
    ALL = 2  # nobody


SUBJECT_BITS = 32


def clause(code: int, subject: Ints | np.int64 | int) -> Ints:
    """A clause and the number of the process, topic or group that it is about, in one integer."""
    return np.asarray((np.int64(code) << SUBJECT_BITS) | np.maximum(subject, 0))


def code(clauses: Ints) -> Ints:
    """The clause without its subject."""
    return clauses >> SUBJECT_BITS


@frozen(eq=False)
class Setting:
    """One setting of every process, topic or group: `setting[numbers]` is that of each of them."""

    numbers: Ints  # sorted, each once
    values: Ints  # one more: of all others

    def __getitem__(self, numbers: Ints | np.int64 | int) -> Ints:
        known, at = self.numbers, np.asarray(numbers)
        if not len(known):
            found = False
        elif known[0] == 0 and known[-1] == len(known) - 1:  # counted, as most names are
            found = (at >= 0) & (at < len(known))
        else:
            at = np.searchsorted(known, numbers)
            found = known.take(at, mode="clip") == numbers
        return self.values[np.where(found, at, len(known))]


def setting(numbers: Iterable[int], values: Iterable[Any], other: int = UNSET) -> Setting:
    """The settings of these numbers, which ascend; one that is None is not set."""
    filled = [UNSET if value is None else int(value) for value in values]
    return Setting(np.fromiter(numbers, np.int64), np.array([*filled, other], dtype=np.int64))


def same(value: int) -> Setting:
    """A setting that is the same for all."""
    return setting((), (), value)


@frozen
class Context:
    """Facts about a run that the kernels need besides its rows; small, and sent to every worker."""

    jepsen: bool
    complete: bool
    positions_known: bool
    lacking: Lacking  # what is not told of some partitions, groups or producers
    senders_known: bool  # every attempt to send a record is told
    readers_known: bool  # every record that anybody was given is told
    consumers_whole: bool  # no consumer's file is missing or cut off
    readers_whole: bool  # both: nobody may have been given more
    starts_known: bool  # every log start that brokers reported is told, nor may there be more
    senders: Setting  # by topic: who besides the recorded processes may send to it
    weak_acks: Setting
    idempotent: Setting
    in_flight: Setting
    retries: Setting
    unclean: Setting
    min_isr: Setting
    loss_until: Setting  # by topic: when it last had settings that permit another loss than these
    loss_clock: Setting  # by topic: the clock of that time
    compacted: Setting
    deletes: Setting
    partitioner: Setting
    racked: Setting
    append_time: Setting
    compaction_lag: Setting
    delete_retention: Setting
    unflushed: Setting
    order: Setting
    reset_latest: Setting
    classic: Setting  # by group: 0 for the protocol of KIP-848
    processes: Setting
    committed_only: Setting
    session_timeout: Setting
    txn_timeout: Setting
    partitions: Setting
    ended: Setting
    lock: Setting
    delivery_limit: Setting
    share_committed_only: Setting
    stuck: Setting  # by share group: how long records may wait beyond a lock, in ms
    late_requests: Setting  # whether a request may come again, or late, without its client's doing
    ends_known: bool  # nobody ends a transaction but its producer
    others: Setting  # by group: 1 where not all who commit for it were recorded
    group_log: int  # the clause by which coordinators may lose what they knew of groups
    group_retention_ns: int = UNSET  # after so long a group without members has expired
    lives: GroupLives | None = None  # when groups had members; without it, all the time
    sizes: Sizes | None = None  # how many partitions producers knew of; without it, all


def context_at(context: Context, needs: Needs) -> Context:
    """The context of partitions that lack these needs beside what all lack."""
    needs |= context.lacking.everywhere.get(PARTITION, NOTHING)
    readers, whole = needs.isdisjoint(READERS), needs.isdisjoint(FILES)
    return evolve(
        context,
        complete=needs.isdisjoint(SCANNED),
        senders_known=needs.isdisjoint(SENDERS),
        readers_known=readers,
        consumers_whole=whole,
        readers_whole=readers and whole,
        starts_known=needs.isdisjoint((*LOG_STARTS, *FILES)),
    )
