"""The file of a broker process's steps, written from a pipe."""

import os
import threading
from pathlib import Path

from attrs import define, field


@define(eq=False)
class StepsFile:
    """The steps of a broker's processes, read from a pipe and kept in a file. A limit on the size
    of files, which ends the broker, does not end this."""

    pipe: Path
    file: Path
    _held: int = field(default=-1, init=False)
    _reader: threading.Thread = field(init=False)

    def start(self) -> None:
        os.mkfifo(self.pipe)
        source = os.open(self.pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._held = os.open(self.pipe, os.O_WRONLY)  # it does not end between two processes
        os.set_blocking(source, True)
        self._reader = threading.Thread(target=self._keep, args=(source,), daemon=True)
        self._reader.start()

    def stop(self) -> None:
        """Keep what is still in the pipe; its writers have ended."""
        os.close(self._held)
        self._reader.join()

    def _keep(self, source: int) -> None:
        with self.file.open("wb") as file:
            while data := os.read(source, 1 << 16):
                file.write(data)
        os.close(source)
