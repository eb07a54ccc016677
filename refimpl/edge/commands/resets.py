"""`highwater groups --reset-offsets`: where a group shall go on, by Kafka's own options."""

import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from refimpl.edge.commands.connection import CommandRefused
from refimpl.edge.commands.group_admin import GroupAdmin
from refimpl.edge.commands.group_describe import Partition

#: The options of which one says where to go on
SCENARIOS = (
    "to_earliest",
    "to_latest",
    "to_current",
    "to_offset",
    "shift_by",
    "to_datetime",
    "by_duration",
)
DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
COLUMNS = ("group", "topic", "partition", "new_offset")


def time_of(text: str) -> int:
    """A time in ms, of `2026-01-31T12:30:00.000`, in UTC unless it says otherwise."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise CommandRefused(
            f"expected a time such as 2026-01-31T12:30:00.000, found {text!r}"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def before_now(text: str) -> int:
    """The time in ms that lies so long ago: `P1DT2H30M`."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise CommandRefused(f"expected a duration such as P1DT2H30M, found {text!r}")
    days, hours, minutes, seconds = (float(one or 0) for one in found.groups())
    ago = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return round((time.time() - ago.total_seconds()) * 1000)


def of_topics(admin: GroupAdmin, group: str, options: Mapping[str, Any]) -> list[Partition]:
    """The partitions of `--topic T` or `--topic T:0,1`, or all that the group has committed."""
    if options["all_topics"]:
        return sorted(admin.committed(group))
    found: list[Partition] = []
    for one in options["topics"]:
        topic, colon, numbers = one.partition(":")
        every = admin.partitions(topic)
        wanted = [(topic, int(n)) for n in numbers.split(",") if n.isdecimal()] if colon else every
        if not wanted or not set(wanted) <= set(every):
            raise CommandRefused(f"--topic {one}: expected TOPIC or TOPIC:0,1 of its partitions")
        found += wanted
    return found


def new_offsets(admin: GroupAdmin, group: str, options: Mapping[str, Any]) -> dict[Partition, int]:
    """The offsets that the group shall have, each within its log."""
    partitions = of_topics(admin, group, options)
    first, end = admin.offsets(partitions, "EARLIEST"), admin.offsets(partitions, "LATEST")
    for topic, number in partitions:
        if (topic, number) not in first or (topic, number) not in end:
            raise CommandRefused(f"{topic}-{number} has no leader that tells its offsets")
    wanted = _wanted(admin, group, partitions, (first, end), options)
    return {one: min(max(offset, first[one]), end[one]) for one, offset in wanted.items()}


def _wanted(
    admin: GroupAdmin,
    group: str,
    partitions: list[Partition],
    bounds: tuple[dict[Partition, int], dict[Partition, int]],
    options: Mapping[str, Any],
) -> dict[Partition, int]:
    first, end = bounds
    if options["to_earliest"]:
        return first
    if options["to_latest"]:
        return end
    if options["to_offset"] is not None:
        to_offset: int = options["to_offset"]
        return dict.fromkeys(partitions, to_offset)
    if options["to_datetime"] or options["by_duration"]:
        duration, at = options["by_duration"], options["to_datetime"]
        return end | admin.offsets(partitions, before_now(duration) if duration else time_of(at))
    committed = admin.committed(group)
    if options["to_current"]:
        return end | {one: committed[one] for one in partitions if one in committed}
    for topic, number in partitions:
        if (topic, number) not in committed:
            raise CommandRefused(
                f"--shift-by: group {group} has committed nothing of {topic}-{number}"
            )
    return {one: committed[one] + options["shift_by"] for one in partitions}
