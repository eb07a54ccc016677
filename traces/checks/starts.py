"""Log starts only grow: a deleted head of a log stays deleted."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.model.columns import Bools, firsts, last_upto, running_max
from traces.model.context import UNSET, Clause, Ints, clause
from traces.model.schema import NONE, Flag, Op
from traces.model.sorting import order_by

NO_PAIRS: Ints = np.empty((0, 2), np.int64)
POSITIONED = (Op.ASSIGN, Op.ASSIGNED, Op.SEEK, Op.RESET)


def reported(p: Partition, *ops: Op) -> Ints:
    """Answers of brokers to clients about this partition."""
    rows = p.where(*ops)
    return rows[p.ok[rows] & (p.offset[rows] != NONE)]


def lower(p: Partition, rows: Ints) -> Ints:
    """Pairs: what one client was told by one replica in one leader epoch, and then less.

    A client without a rack asks the leader, of which there is one in an epoch: which broker that
    was need not be told.
    """
    node = np.where(_asks_leaders(p, rows), NONE, p.node[rows])
    order = order_by(p.process[rows], node, p.epoch[rows], rows)
    rows, node = rows[order], node[order]
    one, two = rows[:-1], rows[1:]
    same = (p.process[one] == p.process[two]) & (node[:-1] == node[1:])
    back = same & (p.epoch[one] == p.epoch[two]) & (p.offset[two] < p.offset[one])
    return witness(one[back], two[back])


def _asks_leaders(p: Partition, rows: Ints) -> Bools:
    """True for rows of clients that read from leaders only: they have no rack (KIP-392)."""
    return p.context.racked[p.process[rows]] == 0


def of_one_replica(p: Partition, pairs: Ints) -> Ints:
    """True for pairs that one replica surely told: of others nobody knows.

    It is sure where the calls tell the broker that answered, and for a client without a rack: such
    a client asks leaders only (KIP-392), of which there is one in an epoch.
    """
    process = p.process[pairs[:, 0]]
    one_node = (p.node[pairs] != NONE).all(axis=1) | p.context.jepsen
    leaders = _asks_leaders(p, pairs).all(axis=1)
    return np.where(one_node | leaders, 0, clause(Clause.UNKNOWN, process))


def asked_after(p: Partition, rows: Ints) -> Ints:
    """When the broker was asked, at the earliest, for what each row tells; NONE: nobody knows.

    A consumer fetches ahead, so a poll may return what came long before the poll began; but not
    before the consumer was given its position. Scans and queries are asked when they begin.
    """
    whole = np.arange(len(p))
    moved = last_upto(np.isin(p.op, POSITIONED) & p.ok)
    mine = (moved >= 0) & (p.process[moved] == p.process[whole])
    at = np.where(mine, p.inv[moved], NONE)
    call = np.cumsum(firsts(p.process, p.seq))
    scans = call[p.where(Op.SCAN, Op.SCAN_END)]
    direct = np.isin(call, scans) | np.isin(p.op, (Op.EARLIEST, Op.LATEST, Op.DELETE_RECORDS))
    return np.where(direct, p.inv, at)[rows]


@check(
    "L13",
    "the log start does not go back",
    found="log start{s} went back, or a record below was read",
    formula="log starts told to one client in one leader epoch do not decrease, and no record that "
    "a poll asked for after one was told in the same epoch is below it",
    needs="log_starts starting.log_start placed_start.node answering GIVEN poll.inv "
    "log_start.ret one_clock",
    closed="log_start.epoch moved.topic moved.inv",
    unless="the client reads from followers (consumers.rack), and two replicas told it",
    kinds="log-start-regression read-below-log-start",
    looks_at="log starts that polls report, with their leader epoch",
    uses="epoch node",
)
def log_start_back(p: Partition) -> list[Found]:
    """The start is raised by retention and by DeleteRecords, and a leader never lowers it.

    A later leader may be behind with its own retention, and so may a follower that is read from:
    only what one replica says in one leader epoch is compared.
    """
    starts = reported(p, Op.LOG_START)
    if not len(starts):
        return [Found(0)]
    starts = starts[p.epoch[starts] != NONE]
    back, below = lower(p, starts), _read_below(p, starts)
    return [
        Found(len(starts), back, of_one_replica(p, back), "log-start-regression"),
        Found(0, below, of_one_replica(p, below), "read-below-log-start"),
    ]


def _read_below(p: Partition, starts: Ints) -> Ints:
    """Pairs: a log start, and a poll that was given a record below it by the same replica later.

    The second of a pair is the record. The broker that sent it is the one whose log start stands
    in the same poll; in a run in which some polls lack theirs, nothing holds. Two clients without
    a rack were both given theirs by the leader of the epoch, whether or not they tell which.
    """
    call = np.cumsum(firsts(p.process, p.seq))
    start_of = np.full(len(call) + 2, NONE)
    start_of[call[starts]] = starts
    given = p.given[p.ok[p.given]]
    reads = given[start_of[call[given]] != NONE]
    own = start_of[call[reads]]
    leading, led = _asks_leaders(p, starts), _asks_leaders(p, own)
    answered = np.stack([p.epoch[own], p.node[own], p.clock[own], led], 1)
    found = [NO_PAIRS]
    for one in np.unique(answered, axis=0):
        epoch, node, clock, leader = one
        same = (p.epoch[starts] == epoch) & (p.clock[starts] == clock)
        same &= (p.node[starts] == node) | (leading & bool(leader))
        mine = (answered == one).all(axis=1)
        found.append(_earlier_and_above(p, starts[same], reads[mine]))
    return np.concatenate(found)


def _earlier_and_above(p: Partition, said: Ints, rows: Ints) -> Ints:
    """Pairs: who said the highest start before a row was asked for, where the row is below it."""
    said = said[p.ret[said] != NONE]
    said = said[np.argsort(p.ret[said], kind="stable")]
    since = asked_after(p, rows)
    rows, since = rows[since != NONE], since[since != NONE]
    before = np.searchsorted(p.ret[said], since, side="left") - 1
    rows, before = rows[before >= 0], before[before >= 0]
    best, at = running_max(p.offset[said])
    below = p.offset[rows] < best[before] if len(said) else np.zeros(len(rows), bool)
    return witness(said[at[before[below]]], rows[below]) if len(said) else NO_PAIRS


@check(
    "A2",
    "deleted records are gone",
    found="deleted record{s} {was} there again",
    formula="DeleteRecords up to o answered ≺ a log start is told or a record read ⇒ it is ≥ o",
    needs="deleted.offset deleted.ret GIVEN scan read.inv list_offsets.inv list_offsets.offset "
    "log_starts log_starts.any starting.log_start one_clock",
    closed="deleted.topic moved.topic moved.inv",
    unless="topics.unclean_leader_election is true, or a crash loses what was not flushed "
    "(topics.flush_loses); undecided is what was told before the final scan",
    kinds="deleted-but-read",
    looks_at="answered calls of DeleteRecords, and what was told of the partition afterwards",
    uses="",
)
def deleted_but_there(p: Partition) -> list[Found]:
    """DeleteRecords is answered when every live replica has raised its log start (KIP-107).

    So whoever may lead next has it as well. A replica that was away learns of it when it comes
    back, unless it is elected uncleanly; and a log start that no broker had time to write down is
    forgotten when all of them crash. A leader that nobody waited for, because it was cut off from
    the controller, may still answer readers: only who made the final scan, when the cluster had
    healed, has certainly asked one that knows.
    """
    deletes = p.where(Op.DELETE_RECORDS)
    deletes = deletes[p.ok[deletes] & (p.offset[deletes] != NONE) & (p.ret[deletes] != NONE)]
    if not len(deletes):
        return [Found(0)]
    later = np.concatenate([reported(p, Op.LOG_START, Op.EARLIEST), p.given[p.ok[p.given]]])
    found, seen = [NO_PAIRS], 0
    for clock in np.unique(p.clock[deletes]):
        mine = deletes[p.clock[deletes] == clock]
        rows = later[p.clock[later] == clock]
        seen += int((asked_after(p, rows) > p.ret[mine].min()).sum())
        found.append(_earlier_and_above(p, mine, rows))
    pairs = np.concatenate(found)
    unknown = clause(Clause.UNKNOWN, np.full(len(pairs), p.t))
    clauses = np.where(_when_healed(p, pairs[:, 1]), _forgotten(p, len(pairs)), unknown)
    return [Found(seen, pairs, clauses, "deleted-but-read")]


def _when_healed(p: Partition, rows: Ints) -> Bools:
    """Mask of the rows of the final scan, and of questions that were asked since it began."""
    scans = p.where(Op.SCAN, Op.SCAN_END)
    scans = scans[p.ok[scans] & p.has(Flag.FINAL)[scans] & (p.inv[scans] != NONE)]
    began = p.inv[scans].min(initial=np.iinfo(np.int64).max)
    asked = (p.op[rows] == Op.EARLIEST) & (p.inv[rows] >= began)
    return (asked | p.has(Flag.FINAL)[rows]) & p.context.complete


def _forgotten(p: Partition, count: int) -> Ints:
    unclean, topic = int(p.context.unclean[p.t]), np.int64(p.t)
    if int(p.context.loss_until[p.t]) != UNSET:  # of other settings than those at the end
        return np.full(count, clause(Clause.UNKNOWN, topic))
    if unclean == 1:
        return np.full(count, clause(Clause.UNCLEAN, topic))
    if int(p.context.unflushed[p.t]) == 1:
        return np.full(count, clause(Clause.FLUSH, topic))
    return np.full(count, clause(Clause.UNKNOWN, topic) if unclean == -1 else 0)
