"""Lines of one transactional id as agents write them, for runs that nobody has played."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from tests.properties.kafka.agent_files import write_files

ID, PRODUCER = "app", 7


@define
class CoordinatorLines:
    """Brokers 1, 2 and 3, of which the first coordinates at first; transaction.version is 2."""

    name: str = ID
    #: Which partition of `__transaction_state` it is in, unlike those of others in the same run
    number: int = 0
    lines: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    node: int = 1
    coordinator_epoch: int = 0
    offset: int = 0
    #: How far the high watermark is behind the end
    behind: int = 0
    requests: int = 0
    epoch: int = -1
    last: int = -1
    state: str = "EMPTY"
    parts: tuple[str, ...] = ()
    version: int = 2

    def __attrs_post_init__(self) -> None:
        self.requests = 1_000 * self.number
        self.line("txnLoad", x=None, sp=self.number, ce=0, end=0, ids=0)

    @property
    def partitions(self) -> tuple[str, str]:
        """Those that it writes to, of a topic of its own."""
        return f"{self.name}-0", f"{self.name}-1"

    def line(self, event: str, **fields: Any) -> dict[str, Any]:
        """Another line."""
        more = {"x": self.name, "hw": self.offset - self.behind, **fields}
        fields = {name: value for name, value in more.items() if value is not None}
        line = {"node": self.node, "ev": event, **fields}
        self.lines.append(line)
        return line

    def write(self, folder: Path) -> Path:
        """The files of the nodes."""
        return write(folder, [self])

    def record(self) -> dict[str, Any]:
        """The state as a line has it."""
        epochs = {"pid": PRODUCER, "pe": self.epoch, "lpe": self.last, "next": -1}
        return {"state": self.state, **epochs, "v2": self.version == 2, "parts": [*self.parts]}

    def ask(self, api: str, epoch: int, **fields: Any) -> int:
        """A request; its number."""
        self.requests += 1
        named = {"pid": -1 if epoch < 0 else PRODUCER, "pe": epoch}
        self.line("txnAsk", r=self.requests, api=api, **named, **fields)
        return self.requests

    def answer(self, number: int, error: str = "NONE", epoch: int = -1) -> None:
        """Its answer."""
        named = {"pid": -1 if epoch < 0 else PRODUCER, "pe": epoch}
        self.line("txnAnswer", r=number, error=error, **named)

    def append(self, by: str, number: int = -1) -> None:
        """The record of a change."""
        more = {"off": self.offset, "by": by, "r": number, **self.record()}
        self.line("txnAppend", sp=self.number, ce=self.coordinator_epoch, **more)
        self.offset += 1

    def change(self, by: str, number: int = -1) -> None:
        """A change that is written and takes effect."""
        self.append(by, number)
        self.line("txnState", **self.record())

    def init(self, epoch: int = -1) -> None:
        """An instance is given the next epoch."""
        number = self.ask("init", epoch)
        self.last = epoch
        self.epoch, self.state, self.parts = self.epoch + 1, "EMPTY", ()
        self.change("init", number)
        self.answer(number, epoch=self.epoch)

    def fence(self, epoch: int = -1) -> None:
        """An instance asks for an epoch in a transaction, which is aborted."""
        number = self.ask("init", epoch)
        self.last, self.epoch, self.state = self.epoch, self.epoch + 1, "PREPARE_ABORT"
        self.change("init", number)
        self.answer(number, "CONCURRENT_TRANSACTIONS")

    def add(self, parts: tuple[str, ...] = ()) -> None:
        """A transaction begins, or goes on in these partitions or both."""
        parts = parts or self.partitions
        number = self.ask("add", self.epoch, parts=[*parts])
        self.state, self.parts = "ONGOING", parts
        self.change("add", number)
        self.answer(number)

    def end(self, commit: bool = True) -> None:
        """EndTxn, up to its answer."""
        number = self.ask("end", self.epoch, commit=commit)
        if self.version == 2:
            self.last, self.epoch = self.epoch, self.epoch + 1
        self.state = "PREPARE_COMMIT" if commit else "PREPARE_ABORT"
        self.change("end", number)
        self.answer(number, epoch=self.epoch if self.version == 2 else -1)

    def markers(self, skip: bool = False) -> None:
        """All markers are written, or skipped."""
        for n, part in enumerate(self.parts):
            self.line("txnMarker", part=part, left=[*self.parts[n + 1 :]], skip=skip)

    def complete(self) -> None:
        """The transaction is over."""
        self.state, self.parts = self.state.replace("PREPARE", "COMPLETE"), ()
        self.change("")

    def transaction(self, commit: bool = True) -> None:
        """All of one."""
        self.add()
        self.end(commit)
        self.markers()
        self.complete()

    def load(self, node: int, record: dict[str, Any] | None) -> None:
        """Another coordinator, which finds this record of the id or none."""
        self.node, self.coordinator_epoch, self.last = node, self.coordinator_epoch + 1, -1
        ids = 0 if record is None else 1
        at = {"sp": self.number, "ce": self.coordinator_epoch}
        self.line("txnLoad", x=None, **at, end=self.offset, ids=ids)
        if record is not None:
            self.line("txnLoaded", **at, **{**record, "lpe": -1})


def write(folder: Path, plays: Sequence[CoordinatorLines]) -> Path:
    """The files of the nodes of a run with these ids, one after the other."""
    return write_files(folder, [line for play in plays for line in play.lines])
