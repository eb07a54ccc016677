"""Draw the conclusions of a whole run from its pieces, and write them back to their rows.

A change to the rows of a piece is small (which transactions, which topics). It is kept until all
are known, so that a piece is written anew at most once.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen

from traces.ingest.columns import narrow
from traces.ingest.counting import counts_of
from traces.ingest.crossing import CrossingPatch, patches
from traces.ingest.evidence import Evidence, is_asked
from traces.ingest.files import diagnose, together
from traces.ingest.lines import Piece
from traces.ingest.lives import (
    TopicLives,
    lives_of,
    look_for_lives,
    made_again,
    reported_in,
    tell_lives_apart,
    vague,
)
from traces.ingest.locations import Locations, locate_what_follows, several_clocks
from traces.ingest.logs import (
    look_for_dumps,
    look_for_whole_logs,
)
from traces.ingest.process_file import ProcessFile
from traces.ingest.scans import look_for_scans, look_for_sizes, partitions_of
from traces.ingest.senders import look_for_senders, senders_of
from traces.ingest.sharing import look_for_share_groups
from traces.ingest.summary import DIGEST, LAST, Absent, Counts, Summary, of_unknown_partition
from traces.ingest.transactions import SENT, alone, attempts, prove, shown, undecided
from traces.model.columns import Bools, MutableColumns
from traces.model.configured import context
from traces.model.context import Context, Ints, Senders
from traces.model.known_sizes import sizes_known
from traces.model.lacking import SENDERS, Key
from traces.model.lives import GroupLives
from traces.model.memberships import lives
from traces.model.meta import Meta
from traces.model.names import Names
from traces.model.problems import Problems
from traces.model.schema import NONE, Flag, Op
from traces.model.sizes import Sizes

# As the builtin `map`: wherever the work is done, the answers come in order.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


class Store(Protocol):
    """A place that the pieces' rows are loaded from and saved to."""

    def load(self, summary: Summary, names: Sequence[str] | None = None) -> MutableColumns:
        """The rows of a piece as they were read; all columns or these."""
        ...

    def save(self, summary: Summary, columns: MutableColumns | None, kind: str = "") -> None:
        """Put rows in place of those that were read, if any; with a kind, beside them."""
        ...


@frozen
class RowChanges:
    """The changes to the rows of one piece that follow from the whole run."""

    patch: CrossingPatch = field(factory=CrossingPatch)
    proved: frozenset[int] = frozenset()  # units
    lives: TopicLives = field(factory=TopicLives)

    def __bool__(self) -> bool:
        return bool(self.patch or self.proved or self.lives)

    def apply(self, columns: MutableColumns) -> MutableColumns:
        """Write it on the rows."""
        self.patch.apply(columns)
        prove(columns, self.proved)
        if self.lives:
            tell_lives_apart(columns, self.lives)
        return columns


@define
class Whole:
    """A run whose pieces have all been read."""

    meta: Meta
    names: Names
    files: list[ProcessFile]
    pieces: list[Summary]
    store: Store
    map: Map
    evidence: Evidence = field(factory=Evidence)
    digest: MutableColumns = field(factory=dict[str, Ints])
    changes: dict[Piece, RowChanges] = field(factory=dict[Piece, RowChanges])
    unproved: bool = False  # some transactions are decided by who read them alone
    remade: set[int] = field(factory=set[int])  # topics made again of which some rows tell no id
    unproved_in: set[Key] = field(factory=set[Key])  # the partitions that they wrote to
    unended: bool = False  # of some of those nobody knows whether they were aborted
    senders: Mapping[int, Senders] = field(factory=dict[int, Senders])  # by topic

    def settle(self) -> None:
        """Settle the outcomes of all rows, and the missing evidence."""
        for summary in self.pieces:
            self.names.learn(summary.names)
        self.digest = joined_digests([summary.digest for summary in self.pieces])
        self.senders = senders_of(self.meta, self.names, self.digest)
        self._follow_transactions()
        self._prove_transactions()
        self._tell_lives_apart()
        copied = self._copy_sends()
        list(self.map(partial(rewrite, self.store), [(t, self._change(t)) for t in self.pieces]))
        self._weigh(copied)

    def lives(self) -> GroupLives:
        """When groups had no members."""
        holed = [self.names.processes.number(file.name) for file in self.files if file.gaps]
        last: dict[int, int] = {}
        for piece in self.pieces:
            process = self.names.processes.number(piece.process)
            last[process] = max(last.get(process, NONE), piece.last_time)
        return lives((piece.moves for piece in self.pieces), last, holed)

    def sizes(self) -> Sizes:
        """The numbers of partitions that each producer knew."""
        return sizes_known(piece.sizes for piece in self.pieces)

    def _change(self, summary: Summary) -> RowChanges:
        return self.changes.get(summary.piece, RowChanges())

    def _follow_transactions(self) -> None:
        whole = {file.file: file.whole for file in self.files}
        by_file = groupby(self.pieces, key=lambda summary: summary.piece.file)
        work = [(several, whole[file]) for file, group in by_file for several in (list(group),)]
        work = [(several, all_here) for several, all_here in work if len(several) > 1]
        for patched in self.map(partial(patches_of, self.store), work):
            self.changes |= {piece: RowChanges(patch) for piece, patch in patched}

    def _prove_transactions(self) -> None:
        """Decide commits that nobody answered: one record seen as committed proves them whole.

        It must be the transaction's own: read where it was acknowledged, or sent by nobody else.
        """
        open_ones = [(t, self._change(t)) for t in self.pieces if t.undecided or self._change(t)]
        found = list(self.map(partial(undecided_of, self.store), open_ones))
        sends = np.concatenate([*found, np.empty((0, len(SENT)), np.int64)])
        if not len(sends):
            return
        self.unproved = True
        where = np.unique(sends[:, [SENT.index("topic"), SENT.index("partition")]], axis=0)
        self.unproved_in = {(topic, partition) for topic, partition in where.tolist()}
        sends = sends[sends[:, SENT.index("end_inv")] != NONE]  # nobody knows of the others' ends
        # After a commit without an answer may come an abort with one: the file must tell of it.
        whole = [self.names.processes.number(file.name) for file in self.files if file.whole]
        ended = np.isin(sends[:, SENT.index("process")], whole)
        self.unended, sends = not ended.all(), sends[ended]
        readers = [summary for summary in self.pieces if summary.committed_reads]
        seen = list(self.map(partial(shown_by, self.store, sends), readers))
        sure, maybe = (
            np.unique(np.concatenate([rows[n] for rows in seen] or [np.empty(0, np.int64)]))
            for n in range(2)
        )
        hit = np.concatenate([sends[sure], self._alone(sends[maybe])])
        units = frozenset((process, unit) for process, unit in hit[:, 3:5].tolist())
        for summary in self.pieces:
            number = self.names.processes.number(summary.process)
            if mine := frozenset(u for p, u in units if p == number and summary.holds(u)):
                self.changes[summary.piece] = RowChanges(self._change(summary).patch, mine)

    def _alone(self, sends: Ints) -> Ints:
        """Those of these sends whose records nobody else can have stored."""
        if not len(sends):
            return sends
        files = Evidence()
        files.look_for_files(self.meta, self.files, self._done())
        nameless = [location for summary in self.pieces for location in nameless_sends(summary)]
        if files.reasons(SENDERS):
            return sends[:0]
        anybody = [topic for topic, who in self.senders.items() if who == Senders.ANYBODY]
        sends = sends[~np.isin(sends[:, SENT.index("topic")], anybody)]
        sends = sends[_apart(sends, set(nameless))]
        others = list(self.map(partial(attempts_of, self.store, sends), self.pieces))
        return sends[alone(sends, np.concatenate(others))]

    def _tell_lives_apart(self) -> None:
        remade = made_again(self.digest)
        if not remade:
            return
        pieces = [piece for piece in self.pieces if not remade.isdisjoint(piece.digest["topic"])]
        reported = list(self.map(partial(lives_reported, self.store, remade), pieces))
        lives = lives_of(np.concatenate([np.empty((0, 6), np.int64), *reported]), self.names)
        counts: dict[int, int] = {}
        for found in self.map(partial(vague_in, self.store, lives), pieces):
            counts = {t: counts.get(t, 0) + found.get(t, 0) for t in counts.keys() | found.keys()}
        look_for_lives(self.evidence, self.names, counts)
        self.remade = set(counts)
        for piece in pieces:
            change = self._change(piece)
            mine = lives.of(set(piece.digest["topic"]))
            self.changes[piece.piece] = RowChanges(change.patch, change.proved, mine)

    def _copy_sends(self) -> list[tuple[Summary, tuple[Counts, Absent]]]:
        """Copy sends whose partition is unknown to each that they may have reached."""
        topics = np.unique(self.digest["topic"]).tolist()
        count = {t: partitions_of(t, self.digest, self.meta, self.names) for t in topics if t >= 0}
        lost = [summary for summary in self.pieces if summary.of_unknown_partition]
        work = [(summary, self._change(summary)) for summary in lost]
        settings = context(self.meta, self.names, ())
        counts = self.map(partial(copy_sends, self.store, settings, count), work)
        return list(zip(lost, counts, strict=True))

    def _weigh(self, copied: list[tuple[Summary, tuple[Counts, Absent]]]) -> None:
        """Put into words what is missing, and find out where."""
        marks: dict[str, set[str]] = {}
        for summary in self.pieces:
            marks.setdefault(summary.process, self._configured(summary.process)).update(
                summary.marks
            )
        for summary in self.pieces:
            self.evidence.add(summary.counts, marks[summary.process])
        for summary, (counts, _) in copied:
            self.evidence.add(counts, marks[summary.process])
        evidence, names, meta = self.evidence, self.names, self.meta
        locations = self._locations(
            marks, {summary.piece: absent for summary, (_, absent) in copied}
        )
        evidence.settle()
        evidence.look_for_files(meta, self.files, self._done())
        if self.unproved:
            evidence.ask_for_proof(unended=self.unended)
        if meta.transaction_ends == "some":
            evidence.doubt_ends()
        look_for_dumps(evidence, locations, names, meta, self.files)
        clocks = several_clocks(locations)
        if any(clocks.values()):
            evidence.missing["one_clock"] = "times of several clocks do not compare"
        for scope, keys in clocks.items():
            locations.put("one_clock", scope, keys)
        unfinished = [file.name for file in self.files if file.unfinished]
        look_for_scans(evidence, locations, meta, names, unfinished)
        look_for_senders(evidence, meta, names, self.digest, self.senders)
        look_for_whole_logs(evidence, locations, names, meta)
        look_for_sizes(evidence, locations, meta, names)
        look_for_share_groups(evidence, locations, meta, names)
        locations.put_same("lives", self.remade)
        unproved = None if meta.transaction_ends == "some" else self.unproved_in
        locate_what_follows(evidence, locations, unproved)
        evidence.lacking = locations.lacking(evidence.missing)

    def _locations(
        self, marks: Mapping[str, Collection[str]], copied: Mapping[Piece, Absent]
    ) -> Locations:
        """Locate the rows that lack the counted fields."""
        locations, start = Locations(self.digest, self._groups_of), 0
        for summary in self.pieces:
            size = len(summary.digest.get("topic", ()))
            for need, lines in summary.absent.items():
                if is_asked(need, marks[summary.process]):
                    locations.add(need, start + np.array(lines, np.int64))
            for need in copied.get(summary.piece, ()):
                if is_asked(need, marks[summary.process]):
                    locations.add(need, start + _unlocated_sends(summary))
            start += size
        locations.settle()
        return locations

    def _groups_of(self, process: int) -> list[int]:
        group = self.meta.consumer(self.names.processes.name(process)).group
        return [] if group is None else [self.names.groups.number(group)]

    def _done(self) -> dict[str, set[int]]:
        """The calls of each process."""
        process, op = self.digest["process"], self.digest["op"]
        return {
            file.name: set(op[process == self.names.processes.number(file.name)].tolist())
            for file in self.files
        }

    def _configured(self, process: str) -> set[str]:
        """The marks that the configuration gives a process."""
        grouped = self.meta.consumer(process).group is not None
        unanswered = self.meta.producer(process).acks == "0"
        marks = {"member_of": grouped, "answered": not unanswered}
        return {mark for mark, given in marks.items() if given}


def join_files(
    pieces: Iterable[Summary], folder: Path, size: int, problems: Problems
) -> list[ProcessFile]:
    """The files of a run; what is wrong with them goes to `problems`."""
    files: list[ProcessFile] = []
    for _, several in groupby(pieces, key=lambda summary: summary.piece.file):
        mine = list(several)

        def again(
            piece: Piece, seq: int, latest: Mapping[str, int], process: str = mine[0].process
        ) -> Summary:
            return diagnose(folder / piece.file, piece, size, process, seq, latest)

        files.append(together(mine, again, problems))
    return files


def joined_digests(digests: Sequence[Mapping[str, Sequence[int]]]) -> MutableColumns:
    """The digests of all pieces as one."""
    names = (*DIGEST, *LAST, "rows")
    empty = np.empty(0, np.int64)
    return {
        name: np.concatenate([empty, *(np.array(d[name], np.int64) for d in digests if d)])
        for name in names
    }


def patches_of(store: Store, work: tuple[list[Summary], bool]) -> list[tuple[Piece, CrossingPatch]]:
    """The patches for the pieces of one file, from each other's transactions."""
    return [(summary.piece, patch) for summary, patch in patches(*work, store.load)]


def lives_reported(store: Store, topics: set[int], summary: Summary) -> Ints:
    """The reports of a piece on the lives of topics."""
    names = ("topic", "topic_id", "clock", "inv", "ret", "op", "outcome", "offset")
    return reported_in(store.load(summary, names), topics)


def vague_in(store: Store, lives: TopicLives, summary: Summary) -> dict[int, int]:
    """The number of rows of a piece, by topic, that may belong to any of the topic's lives."""
    return vague(store.load(summary, ("topic", "topic_id", "clock", "inv", "ret", "op")), lives)


def undecided_of(store: Store, work: tuple[Summary, RowChanges]) -> Ints:
    """The records of a piece whose transactions nobody has decided yet."""
    summary, change = work
    return undecided(change.apply(store.load(summary)))


def shown_by(store: Store, sends: Ints, summary: Summary) -> tuple[Ints, Ints]:
    """Indices of the undecided sends that a piece shows as committed, surely and maybe."""
    names = ("topic", "partition", "offset", "id", "op", "outcome", "isolation")
    return shown(sends, store.load(summary, names))


def attempts_of(store: Store, sends: Ints, summary: Summary) -> Ints:
    """The sends in a piece that may have stored the same records."""
    names = ("topic", "id", "op", "outcome", "process", "txn", "seq")
    return attempts(sends, store.load(summary, names))


def rewrite(store: Store, work: tuple[Summary, RowChanges]) -> None:
    """Write the rows of a piece as they turned out to be."""
    summary, change = work
    store.save(summary, change.apply(store.load(summary)) if change else None)


def nameless_sends(summary: Summary) -> list[Key]:
    """The partitions to which a piece sends records without a recorded id, or topic."""
    lines = {n for need in ("send.topic", "send.id") for n in summary.absent.get(need, ())}
    digest = summary.digest
    return [(digest["topic"][line], digest["partition"][line]) for line in sorted(lines)]


def _apart(sends: Ints, nameless: set[Key]) -> Bools:
    """Mask of the sends to partitions to which no nameless send can have gone."""
    topics = {topic for topic, _ in nameless}
    vague = {topic for topic, partition in nameless if partition == NONE}

    def may_be(topic: int, partition: int) -> bool:
        known = (topic, partition) in nameless or (partition == NONE and topic in topics)
        return known or topic in vague or NONE in vague

    return np.array([not may_be(*where) for where in sends[:, :2].tolist()], bool)


def _unlocated_sends(summary: Summary) -> Ints:
    """The lines of a piece's digest of sends whose partition the sender never learnt."""
    names = ("op", "topic", "partition")
    op, topic, partition = (np.array(summary.digest[name], np.int64) for name in names)
    return np.flatnonzero((op == Op.SEND) & (topic != NONE) & (partition == NONE))


def copy_sends(
    store: Store,
    configured: Context,
    partitions: Mapping[int, range],
    work: tuple[Summary, RowChanges],
) -> tuple[Counts, Absent]:
    """Put copies of a piece's unplaced sends beside it: one for each partition of their topic."""
    summary, change = work
    columns = change.apply(store.load(summary))
    rows = np.flatnonzero(of_unknown_partition(columns))
    copies = [
        (row, partition)
        for row in rows.tolist()
        for partition in partitions[int(columns["topic"][row])]
    ]
    which = np.array(copies, np.int64).reshape(-1, 2)
    columns = {name: column[which[:, 0]] for name, column in columns.items()}
    columns["partition"] = narrow("partition", which[:, 1])
    columns["offset"] = np.full(len(which), NONE)  # of a partition that nobody knows
    columns["flags"] = narrow("flags", columns["flags"] | Flag.UNKNOWN_PARTITION)
    store.save(summary, columns, "placed")
    return counts_of(columns, configured, np.zeros(len(columns["op"]), np.int64))
