"""The configuration of a run laid out by number: from meta.json, and of Jepsen's histories."""

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import field, frozen

from traces.model.client_settings import of_groups, of_processes
from traces.model.context import UNSET, Clause, Context, Order, Senders, Setting, same, setting
from traces.model.lacking import Lacking
from traces.model.lives import GroupLives
from traces.model.meta import Meta, Topic
from traces.model.names import Names
from traces.model.sizes import Sizes
from traces.model.topic_settings import coordinator_clause, of_topics

OFFSETS_TOPIC = "__consumer_offsets"
MINUTE = 60_000_000_000
# Of a Jepsen history: what would excuse a finding does not, and what nobody tells is not set.
_EXCUSES = ("weak_acks", "retries", "unclean", "unflushed", "processes", "late_requests", "others")
_UNKNOWN_IN_HISTORIES = (
    *("loss_until", "loss_clock", "partitioner", "racked", "append_time", "compaction_lag"),
    *("delete_retention", "reset_latest", "committed_only", "session_timeout", "txn_timeout"),
    *("partitions", "ended", "lock", "delivery_limit", "share_committed_only", "stuck"),
)


@frozen
class Known:
    """The evidence of a run that is told to its end, and the parts that lack some."""

    senders: bool = False  # no producer's file, and no id in it, is missing
    readers: bool = False  # the same of those who read
    consumers_whole: bool = False  # no file of a consumer is missing or cut off
    starts: bool = False  # who polls tells log starts, to the end
    scanned: bool = True  # the final scan that `complete` promises is there
    lacking: Lacking = field(factory=Lacking)


def context(
    meta: Meta,
    names: Names,
    processing: Iterable[int],
    known: Known = Known(),
    ended: Mapping[int, int] | None = None,
    lives: GroupLives | None = None,
    sizes: Sizes | None = None,
    senders: Mapping[int, Senders] | None = None,
) -> Context:
    """Lay the configuration out by number.

    `processing` groups tell what they processed; `ended` tells when processes closed or crashed.
    `lives` tells when groups had members, `sizes` how many partitions producers knew of, and
    `senders` whether others than recorded processes may have sent to a topic; where it does not,
    nobody has.
    """
    return Context(
        jepsen=False,
        complete=meta.complete and known.scanned,
        positions_known=True,
        lacking=known.lacking,
        senders_known=known.senders,
        readers_known=known.readers,
        consumers_whole=known.consumers_whole,
        readers_whole=known.readers and known.consumers_whole,
        starts_known=known.starts,
        **of_processes(meta, names),
        **of_topics(meta, names),
        **of_groups(meta, names, set(processing)),
        senders=_by_number(senders or {}, Senders.ALL),
        ended=_by_number(ended or {}, UNSET),
        ends_known=meta.transaction_ends != "some",
        group_log=int(coordinator_clause(meta.internal_topics.get(OFFSETS_TOPIC, Topic()))),
        group_retention_ns=UNSET if meta.group_retention is None else meta.group_retention * MINUTE,
        lives=lives,
        sizes=sizes,
    )


def history_context(*, subscribed: bool, compacted: bool) -> Context:
    """Assumptions of every Jepsen history: acks=all, clean elections, no excuse for anything.

    A class counts whatever the settings of the clients are, so they are those that excuse nothing.
    When consumers get their partitions by subscription, their positions are not known.
    """
    values = {"idempotent": 1, "in_flight": 1, "min_isr": 2, "classic": 1}
    values |= {"compacted": compacted, "deletes": not compacted, "order": Order.UNKNOWN}
    values |= dict.fromkeys(_EXCUSES, 0) | dict.fromkeys(_UNKNOWN_IN_HISTORIES, UNSET)
    settings: dict[str, Any] = {name: same(int(value)) for name, value in values.items()}
    return Context(
        jepsen=True,
        complete=True,
        positions_known=not subscribed,
        lacking=Lacking(),
        senders_known=True,
        readers_known=True,
        consumers_whole=True,
        readers_whole=True,
        starts_known=True,
        senders=same(Senders.ALL),
        ends_known=True,
        group_log=int(Clause.NOT),
        **settings,
    )


def _by_number(values: Mapping[int, int], other: int) -> Setting:
    known = sorted(values.items())
    return setting([number for number, _ in known], [value for _, value in known], other)
