"""Lines of one consumer group as agents write them, for runs that nobody has played."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from tests.properties.kafka.agent_files import write_files

TOPIC_ID = "id-of-orders"


def part(number: int) -> str:
    """A partition by the id of its topic."""
    return f"{TOPIC_ID}:{number}"


@define
class MemberLine:
    """A member as its coordinator has it: since which epoch it has what."""

    epoch: int = 0
    previous: int = 0
    state: str = "STABLE"
    assigned: Mapping[int, int] = field(factory=dict[int, int])
    pending: Mapping[int, int] = field(factory=dict[int, int])

    def told(self, name: str, epochs: bool = True, **more: Any) -> dict[str, Any]:
        """The member in a line; `epochs` as Kafka has them since 4.3."""
        those = [
            [[part(p), at] if epochs else part(p) for p, at in sorted(parts.items())]
            for parts in (self.assigned, self.pending)
        ]
        return {
            **{"m": name, "known": True, "e": self.epoch, "pe": self.previous},
            **{"state": self.state, "assigned": those[0], "pending": those[1]},
            **{"topics": ["orders"], "static": False, "classic": False},
            **{"regex": False, **more},
        }


@define
class GroupLines:
    """Brokers 1, 2 and 3, of which the first coordinates at first; two partitions of a topic."""

    name: str = "app"
    #: Which partition of `__consumer_offsets` it is in, unlike those of others in the same run
    number: int = 0
    version: str = "4.3.1"
    lines: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    node: int = 1
    coordinator_epoch: int = 0
    offset: int = 0
    committed: int = 0
    group_epoch: int = 1
    target_epoch: int = 1
    members: dict[str, MemberLine] = field(factory=dict[str, MemberLine])
    target: dict[str, tuple[int, ...]] = field(factory=dict[str, "tuple[int, ...]"])
    offsets: dict[int, int] = field(factory=dict[int, int])
    #: Each leader epoch, and the offset at which it begins in the log
    epochs: list[list[int]] = field(factory=lambda: [[0, 0]])

    def __attrs_post_init__(self) -> None:
        self.line("groupLoad", **self.where, hw=0, end=0, lw=0, lc=0, epochs=self.epochs, groups=0)
        if self.version < "4.3":
            self.group_epoch = self.target_epoch = 0

    @property
    def where(self) -> dict[str, int]:
        """The coordinator's partition and epoch."""
        return {"sp": self.number, "ce": self.coordinator_epoch}

    def line(self, event: str, **fields: Any) -> dict[str, Any]:
        """Another line."""
        line = {"node": self.node, "ev": event, **fields}
        self.lines.append(line)
        return line

    def write(self, folder: Path) -> Path:
        """The files of the nodes."""
        return write(folder, [self])

    # Batches

    def append(self, changed: Sequence[str] = (), records: int = 1, **fields: Any) -> None:
        """An operation whose batch is not written yet."""
        now = [
            self.members[one].told(one, self.version >= "4.3")
            if one in self.members
            else {"m": one, "known": False}
            for one in changed
        ]
        self.offset += records
        more: dict[str, Any] = {"again": False, "from": self.offset - records, "off": self.offset}
        more |= {"records": records, "gone": False, "classic": False}
        epochs = {"ge": self.group_epoch, "te": self.target_epoch}
        self.line("groupOp", g=self.name, **self.where, **more, **epochs, now=now, **fields)

    def flush(self) -> None:
        """The batch is written."""
        self.line("groupWritten", **self.where, off=self.offset, le=self.coordinator_epoch)

    def commit(self) -> None:
        """It is committed."""
        self.committed = self.offset
        self.line("groupCommitted", **self.where, off=self.offset)

    def op(self, changed: Sequence[str] = (), records: int = 1, **fields: Any) -> None:
        """An operation that is written and committed."""
        self.append(changed, records, **fields)
        if records:
            self.flush()
            self.commit()

    # Requests

    def asks(self, name: str, epoch: int, owns: Sequence[int] | None) -> dict[str, Any]:
        """A heartbeat, in a line."""
        said = {} if owns is None else {"owns": [part(p) for p in owns]}
        return {"op": "heartbeat", "m": name, "e": epoch, "static": False, **said}

    def retargets(self, **target: tuple[int, ...]) -> dict[str, Any]:
        """A target is computed, in a line."""
        self.target_epoch, self.target = self.group_epoch, dict(target)
        told = [{"m": one, "parts": [part(p) for p in parts]} for one, parts in target.items()]
        return {"targets": told}

    def joins(self, name: str, *parts: int, **target: tuple[int, ...]) -> None:
        """A member joins and is given these; a target is computed, if one is named."""
        self.group_epoch += 1
        more = self.retargets(**target) if target else {}
        assigned = dict.fromkeys(parts, self.target_epoch)
        self.members[name] = MemberLine(self.target_epoch, assigned=assigned)
        self.op([name], 3, **self.asks(name, 0, ()), **more)

    def beats(
        self,
        name: str,
        owns: Sequence[int] | None = None,
        claims: int | None = None,
        more: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        """A heartbeat, by which the member changes so."""
        before = self.members[name]
        asked = self.asks(name, before.epoch if claims is None else claims, owns)
        if changes:
            self.members[name] = evolve(before, **{"previous": before.epoch, **changes})
        changed = [name] if changes else []
        self.op(changed, len(changed) + 2 * bool(more), **asked, **(more or {}))

    def goes(self, name: str, **by: Any) -> None:
        """A member leaves, or is given up."""
        self.group_epoch += 1
        self.members.pop(name)
        self.target.pop(name, None)
        self.op([name], 4, **by, targets=[{"m": name, "parts": []}])

    def leaves(self, name: str) -> None:
        """It says goodbye."""
        self.goes(name, **self.asks(name, -1, None))

    def times_out(self, name: str) -> None:
        """It is given up."""
        self.goes(name, op="fence", members=[name])

    def refuses(self, name: str, epoch: int, owns: Sequence[int] | None, error: str) -> None:
        """A heartbeat is refused."""
        self.line("groupRefused", g=self.name, **self.asks(name, epoch, owns), error=error)

    def takes(self, name: str, partition: int, offset: int, epoch: int | None = None) -> None:
        """A commit."""
        claimed = self.members[name].epoch if epoch is None else epoch
        self.offsets[partition] = offset
        named = [[f"orders:{partition}", offset]]
        self.op(op="commit", m=name, e=claimed, named=named, committed=named)

    def refuses_commit(self, name: str, partition: int, epoch: int) -> None:
        """A commit is refused."""
        asked = {"op": "commit", "m": name, "e": epoch, "named": [[f"orders:{partition}", 1]]}
        self.line("groupRefused", g=self.name, **asked, error="StaleMemberEpochException")

    # Coordinators

    def load(self, node: int, records: int | None = None, **wrong: Any) -> None:
        """Another coordinator, which finds the group as it is; with so many records of the log."""
        end = self.offset if records is None else records
        self.node, self.coordinator_epoch = node, self.coordinator_epoch + 1
        began = [self.coordinator_epoch, end]
        self.epochs = [*(one for one in self.epochs if one[1] < end), began]
        found = {"hw": min(end, self.committed), "end": end, "lw": end, "lc": 0}
        self.line("groupLoad", **self.where, **found, epochs=self.epochs, groups=1)
        now = [one.told(name, self.version >= "4.3") for name, one in self.members.items()]
        targets = [
            {"m": one, "parts": [part(p) for p in parts]} for one, parts in self.target.items()
        ]
        told: dict[str, Any] = {
            "ge": self.group_epoch,
            "te": self.target_epoch,
            "now": now,
            "targets": targets,
        }
        told["committed"] = [[f"orders:{p}", at] for p, at in self.offsets.items()]
        self.line("groupLoaded", g=self.name, **self.where, **{**told, **wrong})
        self.offset = end

    # What happens every day

    def shared(self) -> None:
        """Two members with a partition each."""
        self.joins("a", 0, 1, a=(0, 1))
        self.joins("b")
        more = self.retargets(a=(0,), b=(1,))
        since = self.members["a"].assigned
        gives: dict[str, Any] = {"assigned": {0: since[0]}, "pending": {1: since[1]}}
        self.beats("a", None, more=more, state="UNREVOKED_PARTITIONS", **gives)
        now = self.target_epoch
        self.beats("a", (0,), state="STABLE", epoch=now, pending={})
        self.beats("b", (), epoch=now, assigned={1: now})


def write(folder: Path, plays: Sequence[GroupLines]) -> Path:
    """The files of the nodes of a run with these groups, one after the other."""
    topic = {"ev": "topic", "node": 1, "topic": "orders", "id": TOPIC_ID}
    lines = [topic, *(line for play in plays for line in play.lines)]
    return write_files(folder, lines, plays[0].version)
