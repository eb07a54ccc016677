"""Transactional clients of one run: they start, are killed, sleep, and are taken over.

Each place (`p0`, `app1`) has a transactional id, and processes one after the other. A process that
was taken over goes on, until it hears that it is fenced.
"""

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from attrs import asdict, define, field, frozen

from chaos.real.transacting.client import BROKEN, FENCED, TIMEOUT_MS, ClientTask

SINK, PARTITIONS, GROUP = "results", 2, "applications"
MOVE_S, HANGS_S = 180.0, 60.0
"""For a client to commit something once all brokers are back; and before it is replaced, which is
longer than all its time-outs."""
STOP_S = 90.0
"""For a client to end its transaction; longer than all its calls take once all brokers are back."""


@frozen
class LastingClient:
    """A client that runs for the whole time, in one process after the other."""

    name: str
    library: str
    source: str = ""


def places(source: str = "", applications: int = 2) -> list[LastingClient]:
    """A producer of each library, and applications of librdkafka if there is a source."""
    libraries = "confluent", "aiokafka", "kafka-python"
    producers = [LastingClient(f"p{n}", library) for n, library in enumerate(libraries)]
    there = range(applications if source else 0)
    return [*producers, *(LastingClient(f"app{n}", "confluent", source) for n in there)]


@define(eq=False)
class ClientProcess:
    """A process of a place, and the file that it tells the ends of its transactions in."""

    name: str
    process: subprocess.Popen[bytes]
    told: Path
    asleep: bool = False

    def ended(self) -> Counter[str]:
        """The numbers of transactions that it has committed and aborted so far."""
        return Counter(self.told.read_text().split())

    def wakes(self) -> None:
        if self.asleep:
            self.process.send_signal(signal.SIGCONT)
            self.asleep = False


Marks: TypeAlias = dict[LastingClient, tuple[str, int]]
"""Of each place the name of its process, and how many transactions that has committed."""


@define(eq=False)
class Clients:
    """All of them, recorded into one folder."""

    bootstrap: str
    folder: Path
    rng: Random
    timeout_ms: int = TIMEOUT_MS
    current: dict[LastingClient, ClientProcess] = field(factory=dict[LastingClient, ClientProcess])
    former: list[ClientProcess] = field(factory=list[ClientProcess])
    done: Counter[str] = field(factory=Counter[str])
    stuck: list[str] = field(factory=list[str])
    started: int = 0

    def start(self, place: LastingClient) -> None:
        """Another process takes the place; one that runs there goes on as a zombie."""
        if place in self.current:
            self.former.append(self.current[place])
        name = f"{place.name}-{self.started}"
        self.started += 1
        task = ClientTask(
            name=name,
            library=place.library,
            id=place.name,
            bootstrap=self.bootstrap,
            sink=SINK,
            partitions=PARTITIONS,
            folder=str(self.folder),
            seed=self.rng.randrange(1 << 30),
            source=place.source,
            group=GROUP if place.source else "",
            timeout_ms=self.timeout_ms,
        )
        told = self.folder.parent / f"{name}.out"
        command = [sys.executable, "-m", "chaos.real.transacting.client", json.dumps(asdict(task))]
        with told.open("wb") as out, told.with_suffix(".err").open("wb") as errors:
            process = subprocess.Popen(command, stdout=out, stderr=errors)
        self.current[place] = ClientProcess(name, process, told)

    def look(self) -> None:
        """Replace clients that have ended. A fence is the end of a client."""
        for place, one in [*self.current.items()]:
            code = one.process.poll()
            if code is None:
                continue
            if code not in (FENCED, BROKEN):
                raise RuntimeError(f"{one.name} ended with {code}: {_said(one)}")
            self.done["fenced" if code == FENCED else "broken"] += 1
            self.start(place)

    def happens(self) -> str:
        """Something happens to one of them; what, in words."""
        place = self.rng.choice([*self.current])
        one = self.current[place]
        kind = self.rng.choice(("kill", "sleep", "take over"))
        self.done[kind] += 1
        match kind:
            case "kill":
                one.process.kill()
                one.process.wait()
                self.start(place)
            case "sleep":
                one.process.send_signal(signal.SIGSTOP)
                one.asleep = True
            case _:
                self.start(place)
        return f"{kind} {one.name}"

    def wake(self) -> None:
        """Those who sleep find out what they have missed."""
        for one in (*self.current.values(), *self.former):
            one.wakes()

    def marks(self) -> Marks:
        """The progress of each."""
        return {place: (one.name, one.ended()["commit"]) for place, one in self.current.items()}

    def have_moved(self, since: Marks) -> bool:
        """True if each place has committed something since: its process of then, or another one."""
        self.look()
        before = {
            place: had if (had := since[place])[0] == one.name else (one.name, 0)
            for place, one in self.current.items()
        }
        return all(many > before[place][1] for place, (_, many) in self.marks().items())

    def move(self, meanwhile: Callable[[], None]) -> None:
        """All wake up, and each commits something, while this is called again and again.

        Who does not is replaced once, and then has to. Raises `TimeoutError`.
        """
        self.wake()
        since, began, replaced = self.marks(), time.monotonic(), False
        while not self.have_moved(since):
            meanwhile()
            spent = time.monotonic() - began
            if spent > HANGS_S and not replaced:
                self.replace_hanging(since)
                replaced = True
            if spent > MOVE_S:
                raise TimeoutError(f"{since} {spent:.0f} s ago, and now {self.marks()}")

    def replace_hanging(self, since: Marks) -> None:
        """Replace each client that has not moved, and count it by its library.

        librdkafka's send_offsets_to_transaction may wait beyond its time-out, and for ever (its
        issue 5456); kafka-python's abort_transaction has been seen to, after a send that timed out.
        The next instance of the same transactional id must move, so no broker is excused.
        """
        for place, one in [*self.current.items()]:
            name, had = since[place]
            if one.name == name and one.ended()["commit"] == had:
                self.done[f"hung {place.library}"] += 1
                one.process.kill()
                one.process.wait()
                self.start(place)

    def stop(self) -> None:
        """All end their transactions and leave; who does not is killed, and noted as stuck."""
        self.wake()
        every = [*self.current.values(), *self.former]
        for one in every:
            if one.process.poll() is None:
                one.process.terminate()
        ends = time.monotonic() + STOP_S
        for one in every:
            try:
                one.process.wait(max(0.1, ends - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.stuck.append(one.name)
                one.process.kill()
                one.process.wait()
            for what, many in one.ended().items():
                self.done[what] += many

    def kill(self) -> None:
        """None stays behind."""
        for one in (*self.current.values(), *self.former):
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()


def _said(one: ClientProcess) -> Any:
    return one.told.with_suffix(".err").read_text()[-2000:]
