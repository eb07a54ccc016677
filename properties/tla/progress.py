"""Progress for people: a live bar on a terminal, one plain line per finished job elsewhere."""

from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock
from typing import Protocol

from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

SHOWN = 2
"""The number of running jobs that are named."""


class Watcher(Protocol):
    """Receives the beginnings and ends of jobs."""

    def started(self, name: str) -> None: ...

    def finished(self, name: str, line: str) -> None: ...


@define
class _Live:
    progress: Progress
    running: list[str] = field(factory=list[str])
    lock: Lock = field(factory=Lock)

    def started(self, name: str) -> None:
        with self.lock:
            self.running.append(name)
            self._show()

    def finished(self, name: str, line: str) -> None:
        with self.lock:
            self.running.remove(name)
            self.progress.console.print(line, highlight=False)
            self.progress.advance(self.progress.task_ids[0])
            self._show()

    def _show(self) -> None:
        shown = " ".join(self.running[:SHOWN]) + " …" * (len(self.running) > SHOWN)
        self.progress.update(self.progress.task_ids[0], description=shown)


@define
class _Plain:
    console: Console

    def started(self, name: str) -> None: ...

    def finished(self, name: str, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)


@contextmanager
def watching(console: Console, total: int) -> Generator[Watcher]:
    """A watcher for `total` jobs, on this console."""
    if not console.is_terminal:
        yield _Plain(console)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task("", total=total)
        yield _Live(progress)
