"""A run under watch: what comes in is judged batch by batch."""

from collections import defaultdict
from pathlib import Path

import attrs
import numpy as np
from attrs import define, field

from traces.checks.base import Check
from traces.checks.catalogue import CHECKS
from traces.engines.scopes import SCOPES
from traces.ingest.evidence import Evidence
from traces.model.columns import MutableColumns
from traces.model.configured import context
from traces.model.context import Context, Ints
from traces.model.memberships import Moves, lives, moves
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.schema import NONE, Op
from traces.watch.finality import EARLY, TO_COME
from traces.watch.folder import Batch, Folder, FollowedProcess
from traces.watch.ledger import Ledger, ReportedFinding, view
from traces.watch.rows import Transactions, rows_of
from traces.watch.windows import ROWS, RunWindows

_NOBODY: Ints = np.empty(0, np.int64)
_FILES = frozenset(("producers", "consumers"))


@define
class BatchOutcome:
    """The outcome of one batch."""

    batch: Batch
    findings: list[ReportedFinding] = field(factory=list[ReportedFinding])
    #: Checks whose violations no longer stand: the configuration is another, or a line lacks what
    #: they need, and then nothing can be said of them in the end either.
    withdrawn: list[str] = field(factory=list[str])


@define
class Watch:
    """One run while it is written. `step` looks at it once; nothing here waits."""

    path: Path
    strict: bool = False
    keep: int = ROWS  # so many rows of each partition
    folder: Folder = field(init=False)
    names: Names = field(factory=Names.counted)
    ledger: Ledger = field(factory=Ledger)
    calls: int = 0
    rows: int = 0
    _windows: RunWindows = field(init=False)
    _transactions: Transactions = field(factory=Transactions)
    _evidence: Evidence = field(factory=Evidence)
    _configured: Meta = field(factory=Meta)
    _senders: set[int] = field(factory=set[int])
    _processing: set[int] = field(factory=set[int])
    _clocks: set[int] = field(factory=set[int])
    _moves: list[Moves] = field(factory=list[Moves])
    _last: dict[int, int] = field(factory=dict[int, int])  # the last time of each process
    _shown: set[str] = field(factory=set[str])

    def __attrs_post_init__(self) -> None:
        self.folder, self._windows = Folder(self.path), RunWindows(self.keep)

    def step(self) -> BatchOutcome:
        """Read what was appended, and judge again what it belongs to."""
        step = BatchOutcome(self.folder.look())
        for process, calls in step.batch.calls:
            file = process.source.path.name
            state = (self._transactions, process.made)
            self._take(process, rows_of(self.names, process.name, file, calls, *state))
            self.calls += len(calls)
        self._evidence.settle()
        if step.batch.meta_changed:
            step.withdrawn = self._reconfigure()
        step.findings = self._judge()
        shown = {id for id in EARLY if self.ledger.count(id) and not self.blocked(id)}
        step.withdrawn += sorted(self._shown - shown - set(step.withdrawn))
        self._shown = shown
        return step

    @property
    def violated(self) -> bool:
        """True if a violation was found that is final."""
        return any(self.ledger.count(id) and not self.blocked(id) for id in EARLY)

    def blocked(self, id: str) -> list[str]:
        """Why nothing may be said of this check, whatever is found; as at the end."""
        check = CHECKS[id]
        missing = self._evidence.reasons(n for n in check.closed if n not in TO_COME)
        if EARLY[id].times and len(self._clocks) > 1:
            missing.append("times of several clocks do not compare")
        holed = [p.name for p in self.folder.processes.values() if p.holed]
        if holed and _FILES & set(check.closed):
            missing.append(f"lines are missing in the file of {', '.join(sorted(holed))}")
        return missing

    def _take(self, process: FollowedProcess, columns: MutableColumns) -> None:
        self.rows += len(columns["op"])
        self._evidence.look_at(columns, members=_NOBODY, unanswered=_NOBODY)
        self._senders |= set(np.unique(columns["process"][columns["op"] == Op.SEND]).tolist())
        self._processing |= set(np.unique(columns["group"][columns["op"] == Op.PROCESS]).tolist())
        self._clocks |= set(np.unique(columns["clock"]).tolist())
        self._moves.append(moves(columns))
        for name in ("inv", "ret"):
            number = int(columns["process"][0])
            last = int(columns[name].max(initial=NONE))
            self._last[number] = max(self._last.get(number, NONE), last)
        self._windows.add(columns)
        if np.isin(columns["op"], (Op.TXN_COMMIT, Op.TXN_ABORT)).any():
            self._windows.ended(int(columns["process"][0]))
        self.names.files[int(columns["process"][0])] = process.source.path.name

    def _reconfigure(self) -> list[str]:
        """Judge again under another configuration; a setting that changed takes verdicts back."""
        # What says that the run is over is no setting: it ends the watch.
        now = attrs.evolve(self.folder.configured, complete=False, processes=None, faults=())
        before, self._configured = self._configured, now
        if now == before:
            return []
        self._windows.all_changed()
        if _contains(now, before):
            return []
        shown = [id for id in EARLY if self.ledger.count(id)]
        self.ledger.clear()
        return shown

    def _judge(self) -> list[ReportedFinding]:
        changed, self._windows.changed = sorted(self._windows.changed), set()
        if not changed:
            return []
        checks = self._checks()
        known = self._context()
        strong = self._strong(known)
        findings: list[ReportedFinding] = []
        for key in changed:
            if mine := checks[key[0]]:
                columns = dict(self._windows.by_key[key].columns())
                self._transactions.write(columns)
                rows = view(SCOPES[key[0]].view, columns, known)
                findings += self.ledger.judge(key, rows, mine, self.strict, strong)
        return findings

    def _checks(self) -> dict[str, list[Check]]:
        """The checks that say something now, by scope."""
        checks: dict[str, list[Check]] = defaultdict(list)
        for id in EARLY:
            check = CHECKS[id]
            if not self.blocked(id):
                checks[check.scope].append(check)
        return checks

    def _context(self) -> Context:
        holed = [
            self.names.processes.number(process.name)
            for process in self.folder.processes.values()
            if process.holed
        ]
        known = lives(self._moves, self._last, holed)
        return context(self._configured, self.names, self._processing - {NONE}, lives=known)

    def _strong(self, known: Context) -> bool:
        """True if all producers, configured or seen to send, wait for all replicas."""
        configured = self._configured.producers.values()
        senders = np.array(sorted(self._senders), dtype=np.int64)
        safe = all(producer.acks in ("all", "-1") for producer in configured)
        return safe and bool(len(senders)) and not np.any(known.weak_acks[senders])


def _contains(now: Meta, before: Meta) -> bool:
    """True if all earlier configuration is unchanged, so that something was only added."""
    maps = ((now.topics, before.topics), (now.producers, before.producers))
    maps = (*maps, (now.consumers, before.consumers), (now.share_groups, before.share_groups))
    return all(more.get(name) == value for more, less in maps for name, value in less.items())
