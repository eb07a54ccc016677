"""One figure after another: the plots of a run, each with a sentence that says the same."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from attrs import frozen

from traces.html import plots
from traces.html.canvas import Clock, Mark
from traces.html.picture import GroupPicture, PartitionTimeline, Picture
from traces.html.series import TopicPartition
from traces.ingest.run import Run
from traces.model.output import number_of
from traces.model.schema import NONE


@frozen
class Figure:
    """One plot or a row of small ones."""

    title: str
    caption: str
    svgs: tuple[tuple[str, str], ...]
    legend: tuple[tuple[str, str], ...] = ()
    wide: bool = True

    @property
    def size(self) -> int:
        return sum(len(svg) for _, svg in self.svgs)


@frozen
class Sheet:
    """The data that all plots of a run share."""

    run: Run
    picture: Picture
    groups: Sequence[GroupPicture]
    clock: Clock
    marks: Sequence[Mark]
    names: dict[TopicPartition, str]
    id: str
    shown: Sequence[TopicPartition]

    def all(self) -> Iterator[Figure]:
        """Every plot that this run has something for, in the order of the page."""
        if self.picture.clocks == 1:  # senders and readers are compared in these
            yield from self._lags()
            yield from self._unseen()
        yield from self._speed()
        yield from self._processes()
        yield from self._offsets()
        yield from self._ownerships()
        yield from self._commits()

    def _lags(self) -> Iterator[Figure]:
        for group in self.groups:
            if not group.lag:
                continue
            name = self.run.names.groups.name(group.number)
            mine = [mark for mark in self.marks if mark.group == group.number]
            total = np.nansum(np.array(list(group.lag.values())), axis=0)
            base = "the last committed offset" if group.commits_offsets else "the last record read"
            caption = (
                f"How many records the group is behind: end of the log less {base}. "
                f"At most {total.max():,.0f}, {total[-1]:,.0f} at the end."
            )
            svg = plots.lag_plot(
                self.clock, group, self.names, mine, f"{self.id}-lag-{group.number}"
            )
            legend = tuple(plots.lag_legend(group, self.names))
            yield Figure(f"Consumer lag of group {name}", caption, (("", svg),), legend)

    def _unseen(self) -> Iterator[Figure]:
        every = list(self.picture.partitions.values())
        if not any(len(one.reads.at) for one in every) or not any(len(o.sends.at) for o in every):
            return
        total = np.sum([one.unseen for one in every], axis=0)
        unread, missing = sum(one.unread for one in every), sum(one.missing for one in every)
        end = f"never read: {unread:,}" if unread else "all of them were read in the end"
        if unread and self.run.meta.complete and not self.run.jepsen:
            end += f", of which not in the final scan either: {missing:,}"
        caption = (
            f"Acknowledged records that no consumer had read yet. At most {total.max():,}; {end}."
        )
        svg = plots.unseen_plot(self.clock, every, self.marks, f"{self.id}-unseen")
        yield Figure("Unseen records", caption, (("", svg),))

    def _speed(self) -> Iterator[Figure]:
        done = self.picture.activity
        if done.acknowledged.any() or done.read.any():
            seconds = (self.picture.end - self.picture.start) / 1e9 / len(done.read)
            sent, read = (curve.sum() * seconds for curve in (done.acknowledged, done.read))
            caption = f"Records per second: {sent:,.0f} were acknowledged and {read:,.0f} read."
            legend = [("send", "acknowledged"), ("read", "read")]
            if done.unacknowledged.any():
                lost = done.unacknowledged.sum() * seconds
                caption += f" Of {lost:,.0f} the send failed or nobody knows."
                legend.append(("bad", "not acknowledged"))
            svg = plots.throughput_plot(self.clock, done, f"{self.id}-throughput")
            yield Figure("Throughput", caption, (("", svg),), tuple(legend))
        if done.latency:
            median, most = np.nanmedian(done.latency[0]) / 1e6, np.nanmax(done.latency[-1]) / 1e6
            caption = (
                "From each acknowledged send to its answer, by the time of the answer: "
                f"the median about {median:,.1f} ms, the highest {most:,.1f} ms."
            )
            svg = plots.latency_plot(self.clock, done, f"{self.id}-latency")
            words = ("median", "99 of 100", "highest")
            legend = tuple(zip(("series-0", "series-1", "quiet"), words, strict=True))
            yield Figure("Latency of sends", caption, (("", svg),), legend)

    def _processes(self) -> Iterator[Figure]:
        done = self.picture.activity
        if not done.processes:
            return
        names = [self.run.names.processes.name(one.process) for one in done.processes]
        crashed = sum(one.crashed_at is not None for one in done.processes)
        caption = f"When each process had a call under way; crashed: {crashed:,}."
        if done.others:
            caption += f" {done.others:,} more processes, the least busy ones, are not shown."
        svg = plots.processes_plot(self.clock, done.processes, names, f"{self.id}-processes")
        legend = (("send", "producer"), ("read", "other client"), ("bad", "failed, unanswered"))
        yield Figure("Processes", caption, (("", svg),), legend)

    def _offsets(self) -> Iterator[Figure]:
        panels = [
            (self.names[key], self._offset_panel(self.picture.partitions[key]))
            for key in self.shown
            if len(self.picture.partitions[key].sends.at)
            or len(self.picture.partitions[key].reads.at)
        ]
        if panels:
            caption = "Every acknowledged send and every read at its time and offset."
            legend = (("send", "sent"), ("read", "read"), *self._mark_legend())
            yield Figure(
                "Offsets against time",
                caption + self._others("partitions"),
                tuple(panels),
                legend,
                wide=False,
            )

    def _offset_panel(self, one: PartitionTimeline) -> str:
        marks = plots.of_offsets(self.marks, one.key)
        prefix = f"{self.id}-offsets-{one.key[0]}-{one.key[1]}"
        return plots.offsets_panel(self.clock, one, marks, prefix)

    def _mark_legend(self) -> Iterator[tuple[str, str]]:
        if any(mark.violated for mark in self.marks):
            yield "bad", "witness of a violation"
        if any(not mark.violated for mark in self.marks):
            yield "warn", "witness of what is allowed"

    def _others(self, what: str) -> str:
        more = len(self.picture.partitions) + self.picture.left_out - len(self.shown)
        return (
            f" {more:,} more {what} are not shown: these have witnesses or the most events."
            if more > 0
            else ""
        )

    def _ownerships(self) -> Iterator[Figure]:
        for group in self.groups:
            if not group.owned:
                continue
            name = self.run.names.groups.name(group.number)
            keys = sorted(
                {(one.topic, one.partition) for one in group.owned},
                key=lambda key: (key not in self.shown, key),
            )
            rows = in_order(self.run, keys[: plots.ROWS])
            names = {key: name_of(self.run, key) for key in rows}
            members = self._members(group)
            generations = {one.generation for one in group.owned} - {NONE}
            hidden = len(keys) - len(rows)
            counts = number_of(len(members), "member"), number_of(len(generations), "generation")
            caption = (
                f"Which member was told that it owns which partition: {', '.join(counts)}. "
                "Two bars of one partition at once are two owners."
            )
            caption += f" {hidden:,} more partitions are not shown." if hidden else ""
            svg, left_out = plots.ownership_plot(
                self.clock, group.owned, rows, names, members, f"{self.id}-owned-{group.number}"
            )
            if left_out:
                caption += f" The {left_out:,} shortest times of ownership are left out."
            legend = tuple(
                dict.fromkeys(
                    (f"series-{colour % 8}", client) for _, client, colour in members.values()
                )
            )
            yield Figure(f"Ownership in group {name}", caption, (("", svg),), legend[:16])

    def _members(self, group: GroupPicture) -> dict[int, tuple[str, str, int]]:
        """Name, client and colour of each member; incarnations of a client share its colour."""
        processes = sorted({one.process for one in group.owned})
        names = {process: self.run.names.processes.name(process) for process in processes}
        clients = sorted({name.partition("#")[0] for name in names.values()})
        colours = {client: n for n, client in enumerate(clients)}
        return {
            process: (name, name.partition("#")[0], colours[name.partition("#")[0]])
            for process, name in names.items()
        }

    def _commits(self) -> Iterator[Figure]:
        for group in self.groups:
            name = self.run.names.groups.name(group.number)
            panels = [
                (self.names[key], self._commit_panel(group, self.picture.partitions[key]))
                for key in self.shown
                if key in group.commits or key in group.refused
            ]
            if panels:
                caption = "Offsets that the group committed, below the end of the log."
                legend = [("commit", "committed"), ("quiet", "end of the log")]
                if group.refused:
                    legend.append(("bad", "commit refused"))
                yield Figure(
                    f"Commit positions of group {name}",
                    caption + self._others("partitions"),
                    tuple(panels),
                    tuple(legend),
                    wide=False,
                )

    def _commit_panel(self, group: GroupPicture, one: PartitionTimeline) -> str:
        marks = plots.of_commits(self.marks, one.key, group.number)
        prefix = f"{self.id}-commits-{group.number}-{one.key[0]}-{one.key[1]}"
        return plots.commits_panel(self.clock, group, one, marks, prefix)


def name_of(run: Run, key: TopicPartition) -> str:
    """A partition as people write it."""
    return f"{run.names.topics.name(key[0])}:{key[1]}"


def in_order(run: Run, keys: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions by the name of their topic and then by number."""
    return sorted(keys, key=lambda key: (run.names.topics.name(key[0]), key))
