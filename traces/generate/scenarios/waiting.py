"""A share group whose member waits: it is given all that is there, and polls on in vain.

Meanwhile an administrator asks where the partition ends, and where the group starts.
"""

from typing import Any

import numpy as np
from attrs import define

from traces.generate.anomalies.registry import in_rows
from traces.generate.plan import TICK
from traces.generate.scenarios.scenario import COMMITTED, MS, NOWHERE, PHASES, Scenario
from traces.generate.scenarios.slot import ScenarioSlot
from traces.model.schema import Detail, Op

_GROUP = "waiting"
_WAITS = range(5, 13)  # phases
_LATE = 15


@define(slots=False)
class Waiting(Scenario):
    """A record that waits while the member polls is given at once."""

    topic = "waited"

    def make(self) -> None:
        """The longest wait is half of the phases in which nothing is there."""
        phase = self.plan.span // PHASES
        settings = {"lock_ms": 1, "delivery_limit": 5, "isolation": "read_committed"}
        settings["stuck_ms"] = 4 * phase // MS
        self.clients.share_groups[_GROUP] = settings
        names = self.clients.names
        fields = {
            "group": names.groups.number(_GROUP),
            "member": names.members.number("waiter#0"),
        }
        waiter = fields | {"process": self.process("waiter")}
        self.send(self.producer("waited-for"))
        if self.first:
            asked: dict[str, Any] = {"topic": self.number_of_topic, "partition": NOWHERE}
            self.call("subscribed", Op.SUBSCRIBE, 0, waiter | asked)
            self.call("joined", Op.SUBSCRIBE, 0, waiter, partition=self.partitions, order=1 << 40)
        self.call("acquired", Op.ACQUIRE, 3, waiter, detail=1, **self.records())
        accept = Detail.ACKS["accept"]
        self.call("accepted", Op.ACKNOWLEDGE, 4, waiter, detail=accept, **self.records())
        size = len(self.partitions)
        phases = np.repeat(np.arange(_WAITS.start, _WAITS.stop), size)
        where = np.tile(self.partitions, len(_WAITS))
        begin = self.at(phases)
        times = {"inv": begin, "ret": begin + phase - TICK}
        self.call("waited", Op.WAITED, 5, waiter, partition=where, **times)
        end = {"offset": self.begin + self.each}
        admin = {"process": self.process("waiting-admin")}
        for half in (0, phase // 2):
            asked = {"inv": begin + half, "ret": begin + half + 500, "partition": where}
            more = {"isolation": COMMITTED} | end
            self.call(f"ends-{half > 0}", Op.LATEST, 5, admin | asked | more)
            asked |= {"inv": begin + half + 1_000, "ret": begin + half + 1_500}
            reported = admin | asked | end | {"group": fields["group"]}
            self.call(f"starts-{half > 0}", Op.COMMITTED, 5, reported)
        self.scan()


@in_rows("S6", scenario="Waiting")
def stuck(s: ScenarioSlot) -> bool:
    """The last record of a generation waits, and its group's member polls for long in vain."""
    row = int(s.rows("acquired")[-1])
    waits = {"offset": s.get("acquired", row, "offset")}
    for block in ("starts-False", "starts-True"):
        for reported in s.rows(block):
            s.put(block, int(reported), **waits)
    for step, block in enumerate(("acquired", "accepted")):
        inv = s.scenario.at(_LATE, 10 * s.partition + 5 * step)
        s.put(block, row, inv=inv, ret=inv + 500)
    return True
