"""Java's share consumers: a JVM of members that are told what to do, and are recorded."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any

from attrs import define, field

from chaos.real.kafka.asking import clock_domain

SOURCE = Path(__file__).parent / "java" / "Sharing.java"
PATIENCE_S = 120.0
_LEAN = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@define
class MembersProcess:
    """The JVM that members of groups live in."""

    process: "subprocess.Popen[str]"
    log: Path
    said: dict[str, "Queue[str]"] = field(factory=dict[str, "Queue[str]"])
    _lock: Any = field(factory=Lock)

    def __attrs_post_init__(self) -> None:
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            name, what = line.strip().split(" ", 1)
            self.said[name].put(what)

    def tell(self, name: str, what: str) -> None:
        """A command, whose answer is heard later."""
        self.said.setdefault(name, Queue())
        assert self.process.stdin is not None
        with self._lock:
            self.process.stdin.write(f"{name} {what}\n")
            self.process.stdin.flush()

    def hear(self, name: str, patience_s: float = PATIENCE_S) -> str:
        """The answer to its next command, without the verb that it begins with."""
        try:
            verb, _, what = self.said[name].get(timeout=patience_s).partition(" ")
        except Empty:
            failed = self.log.read_text(errors="replace")[-1000:]
            raise RuntimeError(f"member {name} says nothing: {failed}") from None
        if verb == "failed:":
            raise RuntimeError(f"member {name} failed: {what}")
        return what

    def ask(self, name: str, what: str) -> str:
        self.tell(name, what)
        return self.hear(name)


@contextmanager
def members(
    folder: Path, classpath: str, bootstrap: str, run: Path, topic: str
) -> Generator[MembersProcess]:
    """The JVM, on Kafka's jars of this class path; it records into `run`."""
    classes, log = folder / "classes", folder / "members.log"
    compiled = ("javac", "-nowarn", "-cp", classpath, "-d", classes, SOURCE)
    done = subprocess.run(compiled, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cannot compile the members: {done.stderr.strip()[:200]}")
    command = ["java", *_LEAN, "-cp", f"{classes}{os.pathsep}{classpath}", "Sharing"]
    command += [bootstrap, str(run), clock_domain(), topic]
    with log.open("w") as errors:
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        process = subprocess.Popen(command, text=True, **pipes)
    try:
        yield MembersProcess(process, log)
    finally:
        process.kill()
        process.wait()
