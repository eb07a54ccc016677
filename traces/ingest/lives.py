"""Topics that were deleted and created again: the life of its topic that each row belongs to.

A call may report the id of its topic (KIP-516), and an id is never used again. So between two calls
that report the same id there was one life, and a row of the same clock between them is of it.
Without ids, a recorded deletion separates two lives.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from attrs import field, frozen

from traces.ingest.evidence import Evidence
from traces.model.columns import IntColumns, calls, firsts
from traces.model.context import NEVER, Ints
from traces.model.names import Names
from traces.model.schema import NONE, Flag, Op, Outcome
from traces.model.sorting import order_by

_SPAN = ("topic", "life", "clock", "low", "high")


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
    """Topics with several reported ids, or with a recorded deletion and no id."""
    topics, lives = np.unique(ids_reported(digest)[:, 0], return_counts=True)
    deleted = digest["topic"][calls(digest, Op.DELETE_TOPICS) & (digest["outcome"] == Outcome.OK)]
    nameless = np.setdiff1d(deleted[deleted != NONE], topics)
    return {*topics[lives > 1].tolist(), *nameless.tolist()}


def reported_in(columns: IntColumns, topics: Iterable[int]) -> Ints:
    """The reports on the lives of these topics: topic, id, clock, call and return of each.

    A deletion has no id, and ends a life. A call without an answer has an id, and no time of
    return.
    """
    deleted = calls(columns, Op.DELETE_TOPICS) & (columns["outcome"] == Outcome.OK)
    deleted &= columns["ret"] != NONE
    known = (columns["topic_id"] != NONE) | deleted
    rows = np.flatnonzero(np.isin(columns["topic"], list(topics)) & known)
    names = ("topic", "topic_id", "clock", "inv", "ret")
    reported = np.stack([columns[name][rows].astype(np.int64) for name in names], axis=1)
    reported[columns["outcome"][rows] != Outcome.OK, 4] = NONE
    return reported


def lives_of(reported: Ints, names: Names) -> TopicLives:
    """The lives that these rows report; of a topic without ids its deletions count them."""
    out: list[Ints] = []
    newest: dict[int, int] = {}
    for topic in np.unique(reported[:, 0]).tolist():
        mine = reported[reported[:, 0] == topic]
        ids = mine[mine[:, 1] != NONE]
        spans = _by_ids(ids) if len(ids) else _by_deletions(mine, names)
        newest[topic] = int(spans[-1, 1])
        alone = len(np.unique(spans[:, 2])) == 1
        if alone:  # nobody tells of a life before the first, nor of one after the last
            spans[0, 3], spans[-1, 4] = NONE, NEVER
        out.append(spans)
    return TopicLives(newest, np.concatenate([np.empty((0, len(_SPAN)), np.int64), *out]))


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


def _by_deletions(reported: Ints, names: Names) -> Ints:
    """A life lasts from the return of a deletion to the call of the next one."""
    reported = reported[np.argsort(reported[:, 3], kind="stable")]
    topic, clock = int(reported[0, 0]), int(reported[0, 2])
    size = len(reported) + 1
    name = names.topics.name(topic)
    number = [names.topic_ids.number(f"{name}, made for the {n + 1}. time") for n in range(size)]
    low, high = np.r_[NONE, reported[:, 4]], np.r_[reported[:, 3], NEVER]
    return np.stack([np.full(size, topic), number, np.full(size, clock), low, high], axis=1)


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
