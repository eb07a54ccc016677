"""The logs of two brokers as they lie on disk, with the ends of transactions."""

from typing import Any

from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.plan import payload
from traces.generate.scenarios.scenario import MS, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import Detail, Flag, Op

NODES = (1, 2)
_LATE = 20  # seconds after the end


@define(slots=False)
class Copied(Scenario):
    """A topic whose records are copied to both brokers."""

    topic, holes = "copied", 1

    def make(self) -> None:
        """Each generation is one transaction, whose marker follows its records."""
        fields = self.transaction("copier", self.number, 0, 2)
        sequence = self.number * self.each + self.nth
        self.send(**fields, sequence=sequence)
        session = {name: fields[name] for name in ("pid", "pepoch")}
        for node in NODES:
            self._dump(node, session, sequence)
        self.scan()

    def _dump(self, node: int, session: dict[str, Any], sequence: Any) -> None:
        me = {"process": self.process(f"broker-{node}"), "node": node, "epoch": 1}
        stamp, flags = self.sent // MS, int(Flag.TRANSACTIONAL)
        batch = session | self.records() | {"sequence": sequence, "timestamp": stamp}
        inv = self.afterwards(2, _LATE)
        self.call(f"copy-{node}", Op.DUMP, 0, me, inv=inv, flags=flags, **batch)
        end = self.begin + self.each
        control = session | {"partition": self.partitions, "offset": end, "hash": payload(end)}
        control |= {"detail": Detail.MARKERS["commit"], "timestamp": self.at(2) // MS}
        inv = self.afterwards(4, _LATE)
        self.call(f"marker-{node}", Op.MARKER, 0, me, inv=inv, flags=flags, **control)
        if self.last:
            whole = {"partition": self.partitions, "inv": self.afterwards(6, _LATE)}
            for op, offset in (
                (Op.DUMP_END, self.end),
                (Op.DUMP_MARK, self.end),
                (Op.DUMP_START, 0),
            ):
                mine = me | whole | {"offset": offset, "order": int(op)}
                self.call(f"{op.name}-{node}", op, 0, mine)


@in_rows("L14", scenario="Copied")
def stamped_otherwise(s: ScenarioSlot) -> bool:
    """One broker's copy of a record has another time."""
    row = s.one("copy-2")
    return s.put("copy-2", row, timestamp=s.get("copy-2", row, "timestamp") + 1)


@in_rows("L7 L14", scenario="Copied")
def bits_flipped(s: ScenarioSlot) -> bool:
    """One broker's copy of a record has other bytes."""
    row = s.one("copy-2")
    return s.put("copy-2", row, hash=s.get("copy-2", row, "hash") + 1)


@in_rows("P2 P2", scenario="Copied")
def lacking_in_both(s: ScenarioSlot) -> bool:
    """Both brokers lack a record between two others of its session."""
    row = s.one("copy-1", 1, -1)
    return all(s.drop(f"copy-{node}", row) for node in NODES)
