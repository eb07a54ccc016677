"""The clients' history, as trace format v1."""

from typing import Any

from attrs import define, field

from chaos.sim.network import Timeline

Call = dict[str, Any]
_LAST = ("close", "crash")


@define(eq=False)
class History:
    """Client calls, by process, in program order.

    A call takes its place when it is made and is completed when it returns; one that never
    returns stays `info`. Several things happen in the same millisecond here, so times are counted
    on within it.
    """

    timeline: Timeline
    calls: dict[str, list[Call]] = field(factory=dict[str, list[Call]])
    last_ns: int = 0

    def invoke(self, process: str, op: str, made_ns: int | None = None, **fields: Any) -> Call:
        """A client makes a call, now or at a moment before."""
        calls = self.calls.setdefault(process, [])
        call: Call = {
            "process": process,
            "seq": len(calls),
            "op": op,
            "outcome": "info",
            "invoked_ns": self.moment() if made_ns is None else made_ns,
            "clock": "simulated",
            **fields,
        }
        calls.append(call)
        return call

    def complete(self, call: Call, outcome: str = "ok", **fields: Any) -> None:
        """The call returns."""
        call.update(fields, outcome=outcome, returned_ns=self.moment())

    def note(self, process: str, op: str, **fields: Any) -> None:
        """A call that returns at once."""
        self.complete(self.invoke(process, op, **fields))

    def open_processes(self) -> list[str]:
        """The processes that have neither closed nor crashed."""
        return [who for who, calls in self.calls.items() if calls[-1]["op"] not in _LAST]

    def moment(self) -> int:
        """A moment of its own within this millisecond."""
        self.last_ns = max(self.last_ns + 1, self.timeline.now * 1_000_000)
        return self.last_ns
