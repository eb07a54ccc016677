"""Topics that were deleted and created again: the life of its topic that each row belongs to.

A call may report the id of its topic (KIP-516), and an id is never used again. So between two calls
that report the same id there was one life, and a row of the same clock between them is of it.
Where ids do not tell, what recorded administrators did separates two lives: a deletion, and a
creation, for it shows that the topic was not there.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from traces.ingest.evidence import Evidence
from traces.model.columns import Bools, IntColumns, calls, firsts
from traces.model.context import NEVER, Ints
from traces.model.names import Names
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sorting import order_by

_SPAN = ("topic", "life", "clock", "low", "high")
_REPORT = ("topic", "topic_id", "clock", "inv", "ret", "op")


@frozen
class TopicLives:
    """The lives of topics that were made again, and which of them is the last.

    Each row of `spans` is a topic, the life, a clock, and two times: what began at the first or
    later and returned by the second was in this life.
    """

    newest: Mapping[int, int] = field(factory=dict[int, int])
    spans: Ints = field(factory=lambda: np.empty((0, len(_SPAN)), np.int64))

    def __bool__(self) -> bool:
        return bool(self.newest)

    def of(self, topics: Iterable[int]) -> "TopicLives":
        """The lives of these topics."""
        newest = {topic: self.newest[topic] for topic in topics if topic in self.newest}
        return TopicLives(newest, self.spans[np.isin(self.spans[:, 0], list(newest))])


def ids_reported(digest: IntColumns) -> Ints:
    """Topics, each with one of the ids that rows report."""
    pairs = np.stack([digest["topic"], digest["topic_id"]], axis=1)
    return np.unique(pairs[(pairs != NONE).all(axis=1)], axis=0)


def made_again(digest: IntColumns) -> set[int]:
    """Topics with several reported ids, or that were absent once, by a recorded administrator.

    That is so where one was deleted, or perhaps, and where one was created: it was not there.
    """
    topics, lives = np.unique(ids_reported(digest)[:, 0], return_counts=True)
    absent = digest["topic"][_absent(digest)]
    return {*topics[lives > 1].tolist(), *np.unique(absent[absent != NONE]).tolist()}


def _absent(columns: IntColumns) -> Bools:
    """Mask of the calls that show, or may show, that a topic was not there."""
    deleted = calls(columns, Op.DELETE_TOPICS) & (columns["outcome"] != Outcome.FAIL)
    return deleted | (calls(columns, Op.CREATE_TOPICS) & (columns["outcome"] == Outcome.OK))


def reported_in(columns: IntColumns, topics: Iterable[int]) -> Ints:
    """The reports on the lives of these topics: topic, id, clock, call, return, and op of each.

    Calls that show that a topic was not there have no id. Of calls that show that it was, the
    first of each clock is told, as a SEND. A call without an answer has no time of return.
    """
    mine = np.isin(columns["topic"], list(topics)) & (columns["inv"] != NONE)
    named = _reports(columns, mine & (columns["topic_id"] != NONE))
    made = named[:, 5] == Op.CREATE_TOPICS
    named[made, 3] = named[made, 4]  # it is there when it is made, and not when that is asked for
    named[:, 5] = Op.DESCRIBE_TOPICS
    absent = _reports(columns, mine & _absent(columns))
    absent[:, 1] = NONE
    there = mine & calls(columns, Op.SEND, Op.POLL, Op.SCAN) & (columns["outcome"] == Outcome.OK)
    there &= (columns["offset"] != NONE) & (columns["ret"] != NONE)
    signs = np.flatnonzero(there)
    signs = signs[order_by(columns["topic"][signs], columns["clock"][signs], columns["ret"][signs])]
    signs = signs[firsts(columns["topic"][signs], columns["clock"][signs])]
    shown = _reports(columns, signs)
    shown[:, 1], shown[:, 5] = NONE, Op.SEND
    return np.concatenate([named, absent, shown])


def _reports(columns: IntColumns, rows: Any) -> Ints:
    out = np.stack([columns[name][rows].astype(np.int64) for name in _REPORT], axis=1)
    out[columns["outcome"][rows] != Outcome.OK, 4] = NONE
    return out


def lives_of(reported: Ints, names: Names) -> TopicLives:
    """The lives that these rows report; where ids do not, times at which a topic was not there."""
    out: list[Ints] = []
    newest: dict[int, int] = {}
    for topic in np.unique(reported[:, 0]).tolist():
        mine = reported[reported[:, 0] == topic]
        ids = mine[mine[:, 1] != NONE]
        if len(np.unique(ids[:, 1])) > 1:
            spans = _by_ids(ids)
            last = int(spans[-1, 1])
            if len(np.unique(spans[:, 2])) == 1:  # nobody tells of a life before, nor of one after
                spans[0, 3], spans[-1, 4] = NONE, NEVER
        else:
            absences = _absences(mine)
            if not absences:
                continue
            spans = _between(mine, absences, names)
            if not len(spans):
                continue
            last = int(spans[-1 if absences[-1][1] != NEVER else -2, 1])
        newest[topic] = last
        out.append(spans)
    return TopicLives(newest, np.concatenate([np.empty((0, len(_SPAN)), np.int64), *out]))


def _absences(reported: Ints) -> list[tuple[int, int]]:
    """Periods in each of which a topic was not there for a moment, in order.

    A creation tells no more than the deletion before it. The first one shows that a topic was
    deleted before if it was used before. A deletion without an answer may be done at any time.
    """
    used = reported[reported[:, 5] == Op.SEND]
    absent = reported[np.isin(reported[:, 5], (Op.DELETE_TOPICS, Op.CREATE_TOPICS))]
    out: list[tuple[int, int]] = []
    deleted, unsure = False, NONE
    for _, _, clock, inv, ret, op in absent[np.argsort(absent[:, 3], kind="stable")].tolist():
        if op == Op.DELETE_TOPICS and ret == NONE:
            unsure = inv if unsure == NONE else unsure
            continue
        before = (used[:, 2] == clock) & (used[:, 4] < inv)
        known = op == Op.DELETE_TOPICS or (not deleted and bool(out or before.any()))
        if known and ret != NONE:
            out.append((inv if unsure == NONE else unsure, ret))
            unsure = NONE
        deleted = op == Op.DELETE_TOPICS
    return out if unsure == NONE else [*out, (unsure, NEVER)]


def _between(reported: Ints, absences: list[tuple[int, int]], names: Names) -> Ints:
    """A life lasts from the end of an absence to the beginning of the next; one may have an id.

    None are known if calls of several lives tell the same id.
    """
    topic, size = int(reported[0, 0]), len(absences) + 1
    absent = reported[np.isin(reported[:, 5], (Op.DELETE_TOPICS, Op.CREATE_TOPICS))]
    name = names.topics.name(topic)
    number = [names.topic_ids.number(f"{name}, made for the {n + 1}. time") for n in range(size)]
    ids = reported[reported[:, 1] != NONE]
    ends = np.array([end for _, end in absences])
    which = np.unique(np.searchsorted(ends, ids[:, 3], side="right"))
    if len(which) > 1:
        return np.empty((0, len(_SPAN)), np.int64)
    if len(which):
        number[int(which[0])] = int(ids[0, 1])
    low = np.r_[NONE, ends]
    high = np.r_[[begin for begin, _ in absences], NEVER]
    clocks = np.unique(absent[:, 2])
    clock = int(clocks[0]) if len(clocks) == 1 else NONE  # by several nobody knows their order
    return np.stack([np.full(size, topic), number, np.full(size, clock), low, high], axis=1)


def _by_ids(reported: Ints) -> Ints:
    """Spans of lives by each clock: from the first return of a call reporting it to the last call.

    They are in the order of their last calls.
    """
    reported = reported[order_by(reported[:, 1], reported[:, 2])]
    starts = np.flatnonzero(firsts(reported[:, 1], reported[:, 2]))
    timed = (reported[:, 3] != NONE) & (reported[:, 4] != NONE)
    low = np.minimum.reduceat(np.where(timed, reported[:, 4], NEVER), starts)
    high = np.maximum.reduceat(np.where(timed, reported[:, 3], NONE), starts)
    last = np.maximum.reduceat(reported[:, 3], starts)
    spans = np.stack([*reported[starts, :3].T, low, high], axis=1)
    return spans[np.lexsort((spans[:, 1], last))]


def tell_lives_apart(columns: dict[str, Ints], lives: TopicLives) -> None:
    """Write on the rows of topics that were made again which of their lives they are of."""
    columns["topic_id"] = filled(columns, lives)
    flags = np.array(columns["flags"])
    for topic, life in lives.newest.items():
        mine = columns["topic"] == topic
        flags[mine] |= Flag.REMADE
        flags[mine & (columns["topic_id"] != life)] |= Flag.FORMER
    columns["flags"] = flags


def filled(columns: IntColumns, lives: TopicLives) -> Ints:
    """The topic id of each row, reported or by its time; a subscription is to a name."""
    ids = np.array(columns["topic_id"])
    untold = np.isin(columns["topic"], list(lives.newest)) & (ids == NONE)
    for topic, life, clock, low, high in lives.spans.tolist():
        mine = untold & (columns["topic"] == topic) & (columns["clock"] == clock)
        mine &= (columns["inv"] != NONE) & (columns["inv"] >= low)
        returned = np.where(columns["ret"] == NONE, NEVER, columns["ret"])
        ids[mine & (returned <= high)] = life
    for topic, life in lives.newest.items():
        named = calls(columns, Op.SUBSCRIBE, Op.DELETE_TOPICS, Op.CREATE_TOPICS, Op.DESCRIBE_TOPICS)
        ids[named & (columns["topic"] == topic) & (ids == NONE)] = life
    return ids


def vague(columns: IntColumns, lives: TopicLives) -> dict[int, int]:
    """The number of rows, by topic, that may belong to any of the topic's lives."""
    ids = filled(columns, lives)
    rows = np.isin(columns["topic"], list(lives.newest)) & (ids == NONE)
    topics, counts = np.unique(columns["topic"][rows], return_counts=True)
    return dict(zip(topics.tolist(), counts.tolist(), strict=True))


def look_for_lives(evidence: Evidence, names: Names, counts: Mapping[int, int]) -> None:
    """Put into words that rows may be of another life than that which is judged."""
    for topic, rows in sorted(counts.items()):
        evidence.missing["lives"] = (
            f"topic {names.topics.name(topic)} was deleted and made again, and "
            f"{rows} rows tell neither its id (topic_ids) nor by their time which one they are of"
        )
