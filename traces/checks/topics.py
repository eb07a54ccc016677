"""Topics: an id rather than a name, and one partition for each key."""

import numpy as np

from traces.checks.base import Found, check, witness
from traces.checks.partition import Partition
from traces.checks.rows import Rows
from traces.model.columns import Bools
from traces.model.context import Clause, Ints, Senders, clause
from traces.model.schema import NONE, Flag, Op


@check(
    "A1",
    "a topic made again is another topic",
    found="record{s} of a deleted topic came back in a new one of its name",
    formula="(v, i) sent, (v, j) read, i and j the topic's ids ⇒ i = j",
    needs="lives READS",
    closed="send.id send.topic producers producers.whole lives",
    kinds="topic-identity",
    scope="record",
    looks_at="records of topics that were deleted and made again (topic_ids)",
    uses="topic_id",
)
def old_records_in_a_new_topic(record: Rows) -> list[Found]:
    """A name can be used again, an id cannot (KIP-516): what was deleted does not come back.

    So the logs of one name with several ids are several logs. All other checks look at the last
    of them only.
    """
    sends = record.where(Op.SEND)
    reads = record.where(Op.POLL, Op.SCAN, Op.DUMP)
    ids = record.topic_id[sends]
    strange = reads[~np.isin(record.topic_id[reads], ids)] if len(sends) else reads[:0]
    first = strange[:1]
    found = witness(sends[: len(first)], first)
    anybody = record.context.senders[record.topic[found[:, 1]]] == Senders.ANYBODY
    unknown = clause(Clause.UNKNOWN, record.process[found[:, 1]])
    return [Found(len(reads), found, np.where(anybody, unknown, 0), "topic-identity")]


@check(
    "P6",
    "a key has one partition",
    found="record{s} of a key {is} in the wrong partition",
    formula="v sent with key k, the partition left to the producer ⇒ "
    "partition(v) = hash(k) mod partitions, the hash being that of producers.partitioner",
    needs="producers keyed.key keyed.partitions keyed.chosen left.partitioner",
    closed="keyed.partition",
    unless="the topic had fewer partitions then, or the producer did not know of more yet",
    kinds="wrong-partition",
    looks_at="keyed sends of producers whose partitioner is known, to topics of known size",
    uses="key detail",
)
def wrong_partitions(p: Partition) -> list[Found]:
    """Records of one key are in order because they are in one partition.

    Two partitions for one key is the same breach: at most one of them is the one that the hash
    names. Partitions may be added, and a producer learns of it later: `partitions` in meta.json is
    the number at the end. The producer knew of as many as the highest that it had used before, or
    as it reported (`partition_counts`). Nothing is wrong if the partition is right by each number
    that it may have known; if it is right by one of them, the check is undecided. A partition that
    the application chose is its own affair. Nobody is blamed if nobody tells who chose it.
    """
    partitions = int(p.context.partitions[p.t])
    if partitions <= 0:
        return [Found(0)]
    sends = p.where(Op.SEND)
    sends = sends[(p.key[sends] != NONE) & (p.detail[sends] != NONE) & p.ok[sends]]
    sends = sends[~(p.has(Flag.UNKNOWN_PARTITION) | p.has(Flag.CHOSEN))[sends]]
    wrong = sends[(p.detail[sends] & 0xFFFFFFFF) % partitions != p.partition[sends]]
    wrong = wrong[p.has(Flag.LEFT)[wrong]]
    some, every = _right_for_fewer(p, wrong, partitions)
    clauses = np.where(some, clause(Clause.UNKNOWN, p.t), 0)
    return [Found(len(sends), witness(wrong[~every]), clauses[~every], "wrong-partition")]


def _right_for_fewer(p: Partition, sends: Ints, partitions: int) -> tuple[Bools, Bools]:
    """Masks of those in the right place for a smaller number that the producer may have known.

    The first is of some such number, the second of every one.
    """
    some, every, sizes = np.zeros(len(sends), bool), np.zeros(len(sends), bool), p.context.sizes
    if sizes is None:
        return some, every
    for process in np.unique(p.process[sends]):
        mine = np.flatnonzero(p.process[sends] == process)
        rows = sends[mine]
        least, most = sizes.bounds(int(process), p.t, p.seq[rows])
        most = np.minimum(most, sizes.before_added(p.t, p.clock[rows], p.ret[rows]))
        least = np.minimum(least, most)  # of a key in a wrong place nobody learns more than is told
        hashes = p.detail[rows] & 0xFFFFFFFF
        for at, (low, high, number) in enumerate(zip(least, most, hashes, strict=True)):
            several = np.arange(max(int(low), 1), min(int(high), partitions) + 1)
            right = number % several == p.partition[rows[at]]
            some[mine[at]], every[mine[at]] = right.any(), right.all() and len(several) > 0
    return some, every
