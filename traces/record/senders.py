"""The senders of a run: all, or some if a record was read that no recorded process had sent.

A recorder sees its own clients alone. That others send to a topic shows in what is read there:
records without our id, with one of a process that is not in the run, or of another topic.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import orjson
from attrs import define, field

from traces.record.process import COUNTER_BITS

ALL, SOME = "all", "some"
Call = dict[str, Any]


@define
class TopicRecords:
    """The ids of the records of one topic, as numbers that stand for them."""

    sent: "array[int]" = field(factory=lambda: array("q"))
    read: "array[int]" = field(factory=lambda: array("q"))
    nameless: bool = False  # something was read that has no id


@define
class Seen:
    """The facts in the lines of a run about each topic's records.

    `own` are numbers of which the ids of recorded processes begin with, where the recorder makes
    the ids: a record with such an id that nobody sent is nobody else's.
    """

    own: frozenset[int] = frozenset()
    topics: dict[str, TopicRecords] = field(factory=dict[str, TopicRecords])

    def add(self, calls: Iterable[Call]) -> None:
        """The calls of a process."""
        for call in calls:
            op = call.get("op")
            if op in ("send", "poll", "scan"):
                for record in cast("list[Call]", call.get("records") or ()):
                    self._record(op == "send", record)

    def _record(self, sent: bool, record: Call) -> None:
        topic = self.topics.setdefault(record["topic"], TopicRecords())
        id = record.get("id")
        if id is not None:
            whole = type(id) is int and -(2**63) <= id < 2**63
            (topic.sent if sent else topic.read).append(id if whole else hash(id))
        elif not sent:
            topic.nameless = True

    def senders(self) -> dict[str, str]:
        """`some` for each topic that others send to, by what was read, `all` for the rest."""
        every = [np.array(topic.sent, np.int64) for topic in self.topics.values()]
        anywhere = np.concatenate([np.empty(0, np.int64), *every])
        return {
            name: SOME if self._others(topic, anywhere) else ALL
            for name, topic in sorted(self.topics.items())
        }

    def _others(self, topic: TopicRecords, anywhere: "np.ndarray[Any, Any]") -> bool:
        sent, read = (np.array(ids, np.int64) for ids in (topic.sent, topic.read))
        strange = np.setdiff1d(read, sent)
        if self.own:  # made by a recorded process, and sent nowhere: that is a breach
            ours = np.isin(strange >> COUNTER_BITS, np.array(sorted(self.own)))
            strange = strange[~ours | np.isin(strange, anywhere)]
        return topic.nameless or not len(sent) or len(strange) > 0


def calls_of(lines: Iterable[bytes]) -> Iterator[Call]:
    """The calls that whole lines tell of; what is no line is left to whoever reads the run."""
    for line in lines:
        try:
            found: Any = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield cast("Call", found)
