"""A program in Java beside a scenario, which speaks line by line."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Self

from attrs import define, field

LEAN = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def compiled(source: Path, classes: Path, classpath: str) -> str:
    """Compile a source file into a folder; the class path with that folder first."""
    subprocess.run(("javac", "-nowarn", "-cp", classpath, "-d", classes, source), check=True)
    return f"{classes}{os.pathsep}{classpath}"


@define
class Jvm:
    """A running program; its errors are in its log."""

    name: str
    process: "subprocess.Popen[str]"
    log: Path
    said: "Queue[str]" = field(factory=lambda: Queue[str]())

    def __attrs_post_init__(self) -> None:
        Thread(target=self._listen, daemon=True).start()

    @classmethod
    def started(cls, name: str, arguments: Sequence[str], log: Path) -> Self:
        """Start `java` with these arguments, in little memory."""
        with log.open("w") as errors:
            pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            process = subprocess.Popen(["java", *LEAN, *arguments], text=True, **pipes)
        return cls(name, process, log)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.strip())

    def says(self, patience_s: float) -> str:
        """The next line of its output."""
        try:
            return self.said.get(timeout=patience_s)
        except Empty:
            failed = self.log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"the {self.name} says nothing: {failed}") from None

    def write(self, text: str) -> None:
        """Its next input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def close(self, patience_s: float) -> None:
        """End its input, and wait for its own end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(patience_s)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
