"""Settings that topics had before those at the end, by the calls of recorded administrators.

A cluster tells the settings that a topic has when it is asked. What changed and changed back in
between is known only where an administrator's client was recorded.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from traces.record.contents import lines_of, process_files
from traces.record.process import clock_domain, now
from traces.record.topic_settings import FIELD, Settings


@frozen
class Change:
    """A setting that a topic was told to have, or had when somebody asked."""

    topic: str
    name: str
    value: Any
    since: int
    until: int
    clock: str
    made: bool  # it was set here, and the broker said so


def changes(run: Path) -> Iterator[Change]:
    """Settings that recorded administrators set or were told, by the process files of a run."""
    for file in process_files(run):
        for line in lines_of(file, f'"{FIELD}"'.encode()):
            if line["outcome"] == "fail":
                continue
            made = line["op"] == "alter_configs" and line["outcome"] == "ok"
            until = line.get("returned_ns", 2**63 - 1)
            times = line["invoked_ns"], until, line.get("clock", "host")
            for topic, settings in line[FIELD].items():
                for name, value in settings.items():
                    yield Change(topic, name, value, *times, made)


def earlier(run: Path, at_the_end: Mapping[str, Settings]) -> dict[str, list[Settings]]:
    """For each topic the values that settings had before those at the end, each with its end.

    A value ends when the last one is set, if it was set by a recorded client after all that
    differ. Who else has changed it nobody knows, so otherwise it may have lasted until now.
    """
    found: dict[tuple[str, str], list[Change]] = {}
    for one in changes(run):
        if one.name in at_the_end.get(one.topic, {}):
            found.setdefault((one.topic, one.name), []).append(one)
    topics: dict[str, list[Settings]] = {}
    for (topic, name), several in sorted(found.items(), key=lambda item: item[0]):
        last = at_the_end[topic][name]
        others = [one for one in several if one.value != last]
        ended = _set_back(several, others, last)
        for value in sorted({one.value for one in others}, key=str):
            topics.setdefault(topic, []).append({name: value} | ended)
    return topics


def _set_back(several: Iterable[Change], others: Collection[Change], last: Any) -> Settings:
    """When the last value was set for good, as `until_ns` and its clock."""
    latest = max((one.until for one in others), default=0)
    clocks = {one.clock for one in several}
    back = [one for one in several if one.made and one.value == last and one.since >= latest]
    if back and len(clocks) == 1:
        return {"until_ns": min(one.until for one in back), "clock": clocks.pop()}
    return {"until_ns": now(), "clock": clock_domain()}
