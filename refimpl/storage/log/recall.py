"""The batches of producers that a snapshot leaves out, read from the log before it.

A snapshot in Kafka's format has the last batch of each producer alone. Up to five of them may be in
flight. A leader that has forgotten an earlier one refuses it as out of order, and its producer
gives up, or writes it twice. So whoever reads a snapshot reads the heads of batches before it, too.

A start may not read whole segments. The heads of at most `INTERVALS` intervals of the offset index
are read, in however many segments, and of at most `BATCHES` batches. Small batches share an
interval of 4,096 bytes (`index.interval.bytes`); larger ones have one each. The reading ends
earlier once each producer in these intervals has its five, or has sequence 0.

Of a batch further back nothing is known, as in Kafka. A batch of sequence 0 is taken for the first
of its epoch: one before it, of the largest sequence, is recalled if its interval is read anyway.
"""

from collections.abc import Iterator
from itertools import islice

from refimpl.errors import StorageDamage
from refimpl.machines.producer import Producer, SeenBatch
from refimpl.machines.producer_state import ProducerState
from refimpl.storage.format.batch import BatchHeader
from refimpl.storage.format.offset_index import Interval
from refimpl.storage.log.local_log import LocalLog
from refimpl.storage.log.segment import Segment

INTERVALS, BATCHES = 64, 1024


def recall_batches(log: LocalLog, state: ProducerState, end: int, log_start: int) -> None:
    """Remember the batches below `end` that are right before those of a snapshot taken there.

    Damage ends it: what is read here no start needs, and whoever reads the records will meet it.
    """
    known = {id: one for id, one in state.producers.items() if one.last_sequence >= 0}
    if not known or end <= log_start:
        return
    intervals = _intervals(log, end)
    low = max(log_start, intervals[-1][1].low_offset if intervals else end)
    wanted = {id: one for id, one in known.items() if one.seen[0].first_offset > low}
    if not wanted:
        return
    try:
        for header in _newest_first(intervals, end, wanted):
            if header.last_offset < log_start:
                break
            producer = wanted.get(header.producer_id)
            if producer is not None and not _goes_on(producer, header, state.window):
                del wanted[header.producer_id]
    except StorageDamage:
        return


def _goes_on(producer: Producer, header: BatchHeader, window: int) -> bool:
    """Recall a batch of the producer; False if those before it do not count."""
    if header.base_offset >= producer.seen[0].first_offset:
        return True
    if header.is_control:
        return header.producer_epoch == producer.epoch
    batch = SeenBatch(
        *(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset),
        timestamp_ms=header.max_timestamp,
    )
    return producer.recall(header.producer_epoch, batch) and len(producer.seen) < window


def _intervals(log: LocalLog, end: int) -> list[tuple[Segment, Interval]]:
    """The intervals that may be read, back from this offset."""
    found: list[tuple[Segment, Interval]] = []
    for segment in reversed(log.segments):
        if segment.base_offset < end and len(found) < INTERVALS:
            intervals = segment.intervals(end, INTERVALS - len(found))
            found += [(segment, interval) for interval in intervals]
    return found


def _newest_first(
    intervals: list[tuple[Segment, Interval]], end: int, wanted: dict[int, Producer]
) -> Iterator[BatchHeader]:
    """The batches below `end`, as long as a producer is wanted.

    Offsets grow in a log. Where they do not, an index that has no checksum has misled.
    """
    left, below = BATCHES, end
    for number, (segment, interval) in enumerate(intervals):
        if number > 0 and not any(one.seen[0].first_sequence for one in wanted.values()):
            return
        found = list(islice(segment.batches_of(interval), left + 1))
        left -= len(found)
        if left < 0:
            return
        for header in reversed(found):
            if header.base_offset >= end == below:
                continue
            if not header.base_offset <= header.last_offset < below:
                return
            below = header.base_offset
            yield header
