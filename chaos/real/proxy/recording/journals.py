"""The processes of a trace that a proxy writes: one for each thing that a connection is used for.

Their journals are those of the recorder, so that killing the proxy loses nothing. They become
process files when the proxy ends, and not while it serves clients.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from traces.record.contents import PROXY, first_line, process_files
from traces.record.process import Process, open_process
from traces.record.run import TAKEN
from traces.record.versions import version

#: A connection is short-lived beside an application, and there are many: each reserves so much.
WINDOW = 1 << 18
_UNSAFE = re.compile(r"[^\w.-]+", re.ASCII)
_LONGEST = 80


class NotOursError(ValueError):
    """The folder holds what somebody else recorded."""


def is_ours(run: Path) -> bool:
    """True if a proxy recorded this run."""
    heads = [first_line(file).get("recorder") for file in process_files(run)]
    return any(head and str(head.get("client", "")).startswith(PROXY) for head in heads)


def folder_of(run: Path) -> Path:
    """The folder of a run, made where there is none. Raises NotOursError."""
    run.mkdir(parents=True, exist_ok=True)
    if process_files(run) and not is_ours(run):
        raise NotOursError(
            f"{run}: expected a folder that is empty, or that a proxy recorded: "
            "ids of recorded clients are others than those of a proxy"
        )
    return run


@define
class Journals:
    """All processes that are being written."""

    folder: Path
    _open: dict[str, Process] = field(factory=dict[str, Process], init=False)

    def begin(self, name: str, role: str, configured: Mapping[str, Any]) -> Process:
        """A new process; the name is cut down to what a file may be called."""
        safe = _UNSAFE.sub("-", name)[:_LONGEST] or "-"
        head = {
            "role": role,
            "client": f"{PROXY} {version('highwatermark')}",
            "configured": dict(configured),
            "ids": None,
            "hashes": True,
            "watched": True,
        }
        process = open_process(self.folder, safe, head, TAKEN, _later, WINDOW)
        self._open[process.name] = process
        return process

    def end(self, process: Process) -> None:
        """A client has left in good order, for all that is seen here."""
        if self._open.pop(process.name, None) is not None:
            process.end()

    def cut(self, process: Process) -> None:
        """A client goes on with what it does, and the proxy ends."""
        if self._open.pop(process.name, None) is not None:
            process.journal.close()

    def end_all(self) -> None:
        """The proxy ends."""
        for process in tuple(self._open.values()):
            self.end(process)


def _later(journal: Path) -> None:
    """Journals become process files when all clients have left."""
