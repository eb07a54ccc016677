"""The segments that retention deletes: by time, by size, by the log start.

`retention.ms`, `retention.bytes`, KIP-107. The oldest go first, up to the first one that stays.
Nothing that is not replicated goes, and an empty active segment stays.
"""

from refimpl.storage.config import NO_LIMIT
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.segment import Segment


def expired(log: LocalLog, high_watermark: int, log_start: int, now_ms: int) -> int:
    """The number of the oldest segments to delete."""
    deletes = log.config.deletes
    surplus = log.size - log.config.retention_bytes
    limited = deletes and log.config.retention_bytes != NO_LIMIT
    count = 0
    for number, segment in enumerate(log.segments):
        following = log.segments[number + 1 : number + 2]
        end = following[0].base_offset if following else log.end_offset
        surplus -= segment.size
        goes = (
            (following and end <= log_start)
            or (limited and surplus >= 0)
            or (deletes and _too_old(segment, log.config.retention_ms, now_ms))
        )
        if not goes or end > high_watermark or (not following and segment.size == 0):
            break
        count += 1
    return count


def _too_old(segment: Segment, retention_ms: int, now_ms: int) -> bool:
    """True if the newest record is too old; without timestamps the segment's creation time
    counts.
    """
    newest = segment.largest_timestamp()[0]
    return (
        retention_ms >= 0
        and now_ms - (newest if newest >= 0 else segment.created_ms) > retention_ms
    )
