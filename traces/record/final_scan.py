"""The end of a recording: journals become process files, the log is read, meta.json is written."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from traces.record.aborts import ended, ended_by_others
from traces.record.altered import earlier
from traces.record.cluster import Cluster, describe, library
from traces.record.committers import TOPIC, commits_of_others, recorded_commits, reported
from traces.record.contents import SCANNER, Contents, contents, opened, process_files, scan_files
from traces.record.entries import DamagedError
from traces.record.ids import IdOf
from traces.record.journal import SUFFIX
from traces.record.meta import merged, read, write
from traces.record.process import COUNTER_BITS, open_process
from traces.record.readers import Readers
from traces.record.run import TAKEN
from traces.record.scan import Progress, Scan
from traces.record.senders import Seen, calls_of
from traces.record.settling import Settled, StillRunningError, settle

UNCOMMITTED = "read_uncommitted"
ISOLATIONS = {UNCOMMITTED: "scan-ru", "read_committed": "scan-rc"}


@frozen
class Journals:
    """The journals of a run: those that became process files, processes that still run, and for
    each journal that cannot be read even in part the reason."""

    settled: Collection[Settled] = ()
    running: Collection[str] = ()
    damaged: Mapping[str, str] = {}


def settle_all(run: Path) -> Journals:
    """Make process files of the journals that killed processes left."""
    settled: list[Settled] = []
    running: list[str] = []
    damaged: dict[str, str] = {}
    for journal in sorted(run.glob(f"*{SUFFIX}")):
        name = journal.name.removesuffix(SUFFIX)
        try:
            settled.append(settle(journal))
        except StillRunningError:
            running.append(name)
        except DamagedError as damage:
            damaged[name] = str(damage)
    return Journals(settled, running, damaged)


def isolations(found: Contents) -> list[str]:
    """The isolations by default: also read_committed, if the run has transactions."""
    return list(ISOLATIONS) if found.transactional else [UNCOMMITTED]


@frozen
class Scanned:
    """The result of a scan, and the parts that the run lacks to be complete."""

    processes: int
    partitions: Mapping[str, int]
    running: Collection[str]
    damaged: Mapping[str, str]
    headless: Collection[str]
    unread: Collection[str]
    #: Sentences about others than recorded clients, who committed or ended transactions
    notes: Collection[str] = ()

    @property
    def complete(self) -> bool:
        """True if a record that is not in the run is lost."""
        return not (self.running or self.damaged or self.headless or self.unread)


def _no_progress(isolation: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda records: None)


@frozen(kw_only=True)
class FinalScan:
    """The options of a final scan. `conf` is librdkafka's; `showing` shows progress.

    `admin_of` makes an admin client of a `conf`, for a caller that has one open already.
    """

    run: Path
    conf: Mapping[str, str]
    topics: Collection[str]
    isolations: Collection[str]
    id_of: IdOf | None = None
    stalled_after_s: float = 30.0
    #: Whether `all` or `some` who sent were recorded, where the caller knows
    senders: str | None = None
    showing: Callable[[str], AbstractContextManager[Progress]] = field(default=_no_progress)
    admin_of: Callable[[Mapping[str, Any]], Any] | None = None
    #: Another way to make a record of a message than the recorder's
    record_of: Callable[[Any], dict[str, Any]] | None = None

    def read(self, found: Contents, left: Journals) -> Scanned:
        """Read what the log holds, after which the run can be judged.

        Processes that still run, and damaged journals, are known to be missing. Raises
        NoLibraryError, ClusterError, BadMetaError.
        """
        used = library()
        if self.admin_of is not None:
            used = evolve(used, admin=self.admin_of)
        with Readers(used, self.conf) as readers:
            return self._read(found, left, readers)

    def _read(self, found: Contents, left: Journals, readers: Readers) -> Scanned:
        run, before = self.run, read(self.run)
        before |= {} if self.senders is None else {"senders": self.senders}
        cluster = describe(readers.library, self.conf, self.topics, found.lasted_ns)
        for file in scan_files(run):
            file.unlink()  # it was not the final scan after all
        counts = {name: topic["partitions"] for name, topic in cluster.topics.items()}
        unread: list[str] = []
        for isolation in self.isolations:
            unread += self._scan(isolation, readers, found.hashes, cluster)
        notes: list[str] = []
        committers = self._committers(readers, cluster, notes)
        # A scan that did not come to its end tells nothing of what is not visible.
        asks = found.transactional and not unread
        enders = self._enders(readers, notes) if asks else None
        again = contents(run)
        if "senders" not in before:
            for topic, who in _senders(run, again).items():
                cluster.topics.get(topic, {})["senders"] = who
        names = {*again.names, *(_name(file) for file in scan_files(run))}
        names |= {*left.running, *left.damaged}
        lacking = left.running, left.damaged, cluster.headless, unread
        scanned = Scanned(len(again.names), counts, *lacking, notes)
        altered = earlier(run, cluster.topics)
        said = (before, run.name, again.processes, names, cluster, scanned.complete)
        said = (*said, committers, altered)
        write(run, merged(*said) | ({"transaction_ends": enders} if enders else {}))
        return scanned

    def _committers(self, readers: Readers, cluster: Cluster, notes: list[str]) -> dict[str, str]:
        """For each group of the run whether `all` who committed for it were recorded, or `some`."""
        known = recorded_commits(self.run)
        internal = cluster.internal.get(TOPIC)
        if internal is None or not known.groups:
            return {}
        try:
            reader = readers.of(UNCOMMITTED)
            others = commits_of_others(readers.library, reader, known, internal["partitions"])
        except Exception as error:  # of a library that is loaded when it is called for; a time-out
            notes.append(f"nobody knows who else commits: {TOPIC} cannot be read: {error}")
            return dict.fromkeys(sorted(known.groups), "some")
        notes += [reported(group, commits) for group, commits in others.items() if commits]
        return {group: "some" if commits else "all" for group, commits in others.items()}

    def _enders(self, readers: Readers, notes: list[str]) -> str | None:
        """`some`, if an operator aborted what a producer had committed."""
        try:
            names = ended_by_others(readers.library, readers.of(UNCOMMITTED), ended(self.run))
        except Exception as error:  # of a library that is loaded when it is called for; a time-out
            notes.append(f"nobody knows who else ends transactions: {error}")
            return None
        if names:
            notes.append(f"aborted by nobody's producer or coordinator: {', '.join(names)}")
        return "some" if names else None

    def _scan(self, isolation: str, readers: Readers, hashes: bool, cluster: Cluster) -> list[str]:
        counts = {name: topic["partitions"] for name, topic in cluster.topics.items()}
        head: dict[str, Any] = {"role": "scan", "client": SCANNER, "configured": {}}
        process = open_process(self.run, ISOLATIONS[isolation], head, TAKEN, settle)
        with self.showing(isolation) as progress:
            how = (self.id_of, hashes, self.stalled_after_s, progress, cluster.ids)
            how = (*how, cluster.headless, self.record_of)
            client = readers.of(isolation)
            return Scan(readers.library, client, process, isolation, *how).run(counts)


def _senders(run: Path, found: Contents) -> dict[str, str]:
    """The senders to each topic, by the process files and the scans."""
    made = {process.ids >> COUNTER_BITS for process in found.processes if process.ids is not None}
    seen = Seen(frozenset() if found.own_ids else frozenset(made))
    for file in process_files(run):
        with opened(file) as lines:
            seen.add(calls_of(lines))
    return seen.senders()


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".ndjson")
