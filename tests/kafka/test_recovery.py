"""The same torn and flipped directories, opened by Kafka's own classes and by us.

Both are asked what they found (where the log starts and ends, epochs, producers, aborted
transactions) and what they left on disk. Each difference has a reason, which docs/storage.md
explains; a difference without one fails.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random

from attrs import evolve, frozen

from chaos.real.kafka.judge import Judge
from refimpl.errors import RefusedBatch, StorageDamage
from refimpl.storage.cleaner.compaction import compact
from refimpl.storage.config import LogConfig
from refimpl.storage.disk.crashing import CrashDisk
from refimpl.storage.disk.files import FileDisk
from refimpl.storage.format.batch import BatchHeader, batches
from refimpl.storage.format.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_offsets,
)
from refimpl.storage.log.log_dir import LogDir
from refimpl.storage.log.partition_log import PartitionLog
from tests.refimpl.storage.cleaner.compacted import CONFIG as COMPACTED
from tests.refimpl.storage.cleaner.compacted import Compacted
from tests.refimpl.storage.cleaner.test_compaction_crashes import (
    log_of_two_epochs,
    plain,
    states,
    tombstones,
    transactions,
)
from tests.refimpl.storage.log.crash_states import (
    CONFIG,
    FOLDER,
    NOW_MS,
    PARTITION,
    Image,
    Promise,
    disk_of,
    explore,
)
from tests.refimpl.storage.log.test_crashes import STORIES, Story

BATCH = 50
TOPIC_ID = bytes(range(16))
#: The rows of the table in docs/storage.md, which says why.
EXPLAINED = {
    "none",
    "flushed data are damaged",
    "a foreign file",
    "an offset out of order",
    "an empty log has no epoch",
    "producers before the log start",
    "a transaction index is believed",
    "transactions without records",
}
#: The refusals of a start that tries to split a segment, for an offset is far ahead
SPLITS = "NoSuchElementException", "IllegalArgumentException: Split operation"
TORN, FLIPPED, COMPACTING = 500, 400, 100


@frozen
class Found:
    """The result of a start on a directory: its messages, and the files that are left."""

    opened: bool
    why: str = ""
    end: int = -1
    start: int = -1
    epochs: tuple[str, ...] = ()
    producers: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    log: bytes = b""
    indexes: Mapping[str, bytes] = {}


@frozen
class Case:
    """A directory, and what was done to it."""

    image: Image
    config: LogConfig
    damage: str = "torn"

    @property
    def clean(self) -> bool:
        return CLEAN_SHUTDOWN in self.image[0]

    def marks(self) -> tuple[int, int]:
        """The recovery point and the log start that its checkpoints name."""
        disk, files = disk_of(self.image), self.image[0]
        recovery, start = (
            read_offsets(disk, path).get(PARTITION, 0) if path in files else 0
            for path in (RECOVERY_POINTS, LOG_STARTS)
        )
        return recovery, start


def torn(count: int) -> Iterator[Case]:
    """Directories after crashes, out of workloads of all kinds."""
    found: list[Image] = []

    def keep(image: Image, _promise: Promise) -> None:
        if any(name.startswith(f"{FOLDER}/") and name.endswith(".log") for name in image[0]):
            found.append(image)

    for story in STORIES:
        explore(story, keep, every=25)
    seed = 0
    while len(found) < count:
        explore(Story(seed), keep, every=60)
        seed += 1
    for image in Random(1).sample(found, count):
        yield Case(image, CONFIG)


def flipped(cases: list[Case], count: int) -> Iterator[Case]:
    """One bit of one file is another: of a log, of an index, of a snapshot."""
    dice = Random(2)
    kinds = (".log", ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    while count:
        case, kind = dice.choice(cases), dice.choice(kinds)
        files, folders = case.image
        names = [name for name, data in files.items() if name.endswith(kind) and data]
        if not names:
            continue
        name = dice.choice(sorted(names))
        content = bytearray(files[name])
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
        yield evolve(case, image=({**files, name: bytes(content)}, folders), damage=kind)
        count -= 1


def compacting(count: int) -> Iterator[Case]:
    """Directories after crashes in the middle of a compaction."""
    found: list[Case] = []
    for prepare in (plain, tombstones, transactions):
        disk = CrashDisk()
        model = Compacted(disk=disk, config=COMPACTED)
        prepare(model)
        model.log.flush()
        point = f"0\n1\norders 0 {model.log.local.recovery_point}\n".encode()
        for files, folders in states(disk, model.clean):
            found.append(Case(({**files, RECOVERY_POINTS: point}, folders), COMPACTED))
    yield from Random(3).sample(found, min(count, len(found)))
    disk = CrashDisk()
    log = log_of_two_epochs(disk)
    point = b"0\n1\norders 0 10\n"
    for files, folders in states(disk, lambda: compact(log, 0, NOW_MS)):
        yield Case(({**files, RECOVERY_POINTS: point}, folders), COMPACTED)


def laid_out(case: Case, folder: Path) -> FileDisk:
    """The case as files."""
    for name, data in case.image[0].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    for name in case.image[1]:
        (folder / name).mkdir(parents=True, exist_ok=True)
    return FileDisk(folder)


def left_in(folder: Path, segments: tuple[str, ...]) -> tuple[bytes, dict[str, bytes]]:
    """The log's bytes, and the content of each index that has any."""
    names = [f"{int(base):020d}" for base in segments]
    log = b"".join((folder / FOLDER / f"{name}.log").read_bytes() for name in names)
    indexes = {
        name + suffix: path.read_bytes()
        for name in names
        for suffix in (".index", ".timeindex", ".txnindex")
        if (path := folder / FOLDER / f"{name}{suffix}").exists() and path.stat().st_size
    }
    return log, indexes


def ours(case: Case, folder: Path) -> Found:
    directory = LogDir.open(laid_out(case, folder), NOW_MS, case.config)
    if PARTITION in directory.damaged:
        return Found(opened=False, why=str(directory.damaged[PARTITION]))
    log = directory.logs.get(PARTITION)
    if log is None:  # it was only begun, and is created as if for the first time
        log = directory.create(PARTITION, TOPIC_ID, NOW_MS)
    found = described(log)
    directory.close()
    data, indexes = left_in(folder, found.segments)
    return evolve(found, log=data, indexes=indexes)


def described(log: PartitionLog) -> Found:
    epochs = zip(log.epochs.epochs, log.epochs.starts, strict=True)
    producers = (
        f"{number}:{one.epoch}:{one.last_sequence}"
        f":{one.seen[-1].last_offset if one.seen else -1}"
        f":{one.first_offset}"
        for number, one in sorted(log.producers.producers.items())
    )
    try:
        told = log.aborted_transactions(log.log_start_offset, log.end_offset)
    except StorageDamage as damage:
        return Found(opened=False, why=str(damage))
    return Found(
        opened=True,
        end=log.end_offset,
        start=log.log_start_offset,
        epochs=tuple(f"{epoch}:{start}" for epoch, start in epochs),
        producers=tuple(producers),
        aborted=tuple(f"{txn.producer_id}:{txn.first_offset}:{txn.last_offset}" for txn in told),
        segments=tuple(str(segment.base_offset) for segment in log.local.segments),
    )


def theirs(judge: Judge, cases: list[Case], folder: Path) -> Iterator[Found]:
    """Kafka's classes, many directories at a time."""
    config = cases[0].config
    arguments: list[str | Path] = []
    for number, case in enumerate(cases):
        laid_out(case, folder / str(number))
        recovery, start = case.marks()
        partition = folder / str(number) / FOLDER
        arguments += [partition, str(recovery), str(start), "true" if case.clean else "false"]
    settings = [str(NOW_MS), str(config.index_interval_bytes), ",".join(config.cleanup_policy)]
    answer = judge.run("Recover", *settings, *arguments)
    assert answer.status == 0, answer
    said = ("opened\t", "refused\t")
    lines = [line for line in answer.out.splitlines() if line.startswith(said)]
    assert len(lines) == len(cases), answer
    for number, line in enumerate(lines):
        yield read(line, folder / str(number))


def read(line: str, folder: Path) -> Found:
    word, *fields = line.split("\t")
    if word == "refused":
        return Found(opened=False, why=fields[0])
    end, start, *lists = fields
    epochs, producers, aborted, segments = (tuple(filter(None, one.split(","))) for one in lists)
    log, indexes = left_in(folder, segments)
    return Found(True, "", int(end), int(start), epochs, producers, aborted, segments, log, indexes)


def headers(log: bytes) -> Iterator[BatchHeader]:
    """The batches of a log, up to where a flipped bit hides what follows."""
    try:
        for _, header in batches(log):
            yield header
    except RefusedBatch:
        return


def left_out(found: Found) -> list[int]:
    """The batches with records that a reader of committed records is told to leave out."""
    txns = [tuple(map(int, one.split(":"))) for one in found.aborted]
    return [
        header.base_offset
        for header in headers(found.log)
        if header.is_transactional and not header.is_control and header.record_count
        if header.base_offset >= found.start
        if any(p == header.producer_id and f <= header.base_offset <= t for p, f, t in txns)
    ]


def since_the_start(found: Found) -> list[str]:
    """The producers that have written something behind the log's start."""
    known = [list(map(int, one.split(":"))) for one in found.producers]
    return [
        f"{number} {epoch} {sequence} {max(first, -1) if first >= found.start else -1}"
        for number, epoch, sequence, last, first in known
        if last >= found.start
    ]


def differences(case: Case, ours: Found, kafka: Found) -> Iterator[str]:
    """The differences between the two starts, each by its row in docs/storage.md.

    A difference without a row is returned in capitals, and fails.
    """
    if not kafka.opened and not ours.opened:
        return
    if not kafka.opened:
        if "Unexpected aborted transaction version" in kafka.why:
            yield "a transaction index is believed"
        elif kafka.why.startswith(SPLITS) and is_far_ahead(case, ours):
            yield "an offset out of order"
        else:
            yield "KAFKA REFUSES"
    elif not ours.opened:
        foreign = "this is not a log of Kafka's" in ours.why or "message format" in ours.why
        yield "a foreign file" if foreign else "flushed data are damaged"
        assert foreign or case.damage != "torn", ours.why
    elif (ours.end, ours.log) != (kafka.end, kafka.log):
        cut = case.damage == ".log" and ours.end < kafka.end and kafka.log.startswith(ours.log)
        yield "an offset out of order" if cut else "ANOTHER LOG"
    else:
        yield from derived(case, ours, kafka)


def is_far_ahead(case: Case, ours: Found) -> bool:
    """True if our start has cut the last segment before an offset that its index cannot hold."""
    last = f"{FOLDER}/{int(ours.segments[-1]):020d}.log"
    before = sum(
        len(data) for name, data in case.image[0].items() if name.endswith(".log") and name < last
    )
    offset = int.from_bytes(case.image[0][last][len(ours.log) - before :][:8])
    return offset - int(ours.segments[-1]) >= 1 << 31


def derived(case: Case, ours: Found, kafka: Found) -> Iterator[str]:
    """Differences in what is made from the batches, where those are the same."""
    for name in ("start", "segments"):
        if getattr(ours, name) != getattr(kafka, name):
            yield name.upper()
    if ours.epochs != kafka.epochs:
        yield "EPOCHS" if ours.end > ours.start else "an empty log has no epoch"
    if ours.producers != kafka.producers:
        same = since_the_start(ours) == since_the_start(kafka)
        yield "producers before the log start" if same and ours.start else "PRODUCERS"
    if left_out(ours) != left_out(kafka):
        yield "a transaction index is believed" if case.damage == ".txnindex" else "ABORTED"
    elif ours.aborted != kafka.aborted:
        yield "transactions without records"
    names = {*ours.indexes, *kafka.indexes}
    unequal = {Path(n).suffix for n in names if ours.indexes.get(n) != kafka.indexes.get(n)}
    if unequal - {".txnindex"}:
        yield "AN INDEX"


def compared(judge: Judge, cases: list[Case], folder: Path) -> Iterator[tuple[Case, Found, Found]]:
    for at in range(0, len(cases), BATCH):
        some = cases[at : at + BATCH]
        for number, kafka in enumerate(theirs(judge, some, folder / "kafka")):
            here = ours(some[number], folder / "ours" / str(number))
            yield some[number], here, kafka
        shutil.rmtree(folder / "kafka")
        shutil.rmtree(folder / "ours")


def test_both_recover_the_same_or_the_difference_is_explained(judge: Judge, tmp_path: Path) -> None:
    crashed = list(torn(TORN))
    groups = crashed, list(flipped(crashed, FLIPPED)), list(compacting(COMPACTING))
    cases: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    for group in groups:
        for case, here, kafka in compared(judge, group, tmp_path):
            cases[case.damage] += 1
            found = list(differences(case, here, kafka))
            unexplained = [one for one in found if one.isupper()]
            assert not unexplained, f"{unexplained}\n{case.damage}: {here}\n{kafka}"
            seen.update(found or ["none"])
    print(f"\n{sum(cases.values())} directories: {dict(cases)}")
    print(f"what differs: {dict(seen.most_common())}")
    assert set(seen) <= EXPLAINED, seen
    assert seen["none"] > 500
    assert cases["torn"] >= 500
