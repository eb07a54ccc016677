"""The end of a recording: journals become process files, the log is read, meta.json is written."""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from attrs import field, frozen

from traces.record.cluster import describe, library
from traces.record.contents import SCANNER, Contents, contents, scan_files
from traces.record.ids import IdOf
from traces.record.journal import SUFFIX
from traces.record.meta import merged, read, write
from traces.record.process import open_process
from traces.record.run import TAKEN
from traces.record.scan import Library, Progress, Scan
from traces.record.settling import Settled, StillRunningError, settle

ISOLATIONS = {"read_uncommitted": "scan-ru", "read_committed": "scan-rc"}


def settle_all(run: Path) -> tuple[list[Settled], list[str]]:
    """Make process files of what killed processes left; answers who is still running as well.

    Raises NotAJournalError.
    """
    settled: list[Settled] = []
    running: list[str] = []
    for journal in sorted(run.glob(f"*{SUFFIX}")):
        try:
            settled.append(settle(journal))
        except StillRunningError:
            running.append(journal.name.removesuffix(SUFFIX))
    return settled, running


def isolations(found: Contents) -> list[str]:
    """How a run is read by itself: also committed, where it has transactions."""
    return list(ISOLATIONS) if found.transactional else ["read_uncommitted"]


@frozen
class Scanned:
    """What was read, and what the run lacks to be complete."""

    processes: int
    partitions: Mapping[str, int]
    running: Collection[str]
    headless: Collection[str]
    unread: Collection[str]

    @property
    def complete(self) -> bool:
        """Whether a record that is not in the run is lost."""
        return not (self.running or self.headless or self.unread)


def _no_progress(isolation: str) -> AbstractContextManager[Progress]:
    return nullcontext(lambda records: None)


@frozen(kw_only=True)
class FinalScan:
    """How the final scan of a run is made. `conf` is librdkafka's; `showing` shows progress."""

    run: Path
    conf: Mapping[str, str]
    topics: Collection[str]
    isolations: Collection[str]
    id_of: IdOf | None = None
    stalled_after_s: float = 30.0
    showing: Callable[[str], AbstractContextManager[Progress]] = field(default=_no_progress)

    def read(self, found: Contents, running: Collection[str]) -> Scanned:
        """Read what the log holds, after which the run can be judged.

        `running` are the processes that were left out, for they go on. Raises NoLibraryError,
        ClusterError, BadMetaError.
        """
        run, before = self.run, read(self.run)
        used = library()
        cluster = describe(used, self.conf, self.topics)
        for file in scan_files(run):
            file.unlink()  # it was not the final scan after all
        counts = {name: topic["partitions"] for name, topic in cluster.topics.items()}
        unread: list[str] = []
        for isolation in self.isolations:
            unread += self._scan(isolation, used, found.hashes, counts)
        again = contents(run)
        names = [*again.names, *(_name(file) for file in scan_files(run))]
        scanned = Scanned(len(again.names), counts, running, cluster.headless, unread)
        write(run, merged(before, run.name, again.processes, names, cluster, scanned.complete))
        return scanned

    def _scan(
        self, isolation: str, used: Library, hashes: bool, counts: Mapping[str, int]
    ) -> list[str]:
        head: dict[str, Any] = {"role": "scan", "client": SCANNER, "configured": {}}
        process = open_process(self.run, ISOLATIONS[isolation], head, TAKEN, settle)
        with self.showing(isolation) as progress:
            how = (self.conf, self.id_of, hashes, self.stalled_after_s, progress)
            return Scan(used, process, isolation, *how).run(counts)


def _name(file: Path) -> str:
    return file.name.removesuffix(".gz").removesuffix(".ndjson")
