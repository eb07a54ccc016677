"""AbsLog: the log that everything else is measured against, and its readers."""

from collections.abc import Mapping
from typing import ClassVar

from properties.conformance.binding import Binding, Bound, of
from properties.modules.descriptor import Module
from properties.tla import Rec, Value
from refimpl.machines.abstract_log import AbstractLog
from refimpl.projection import ABS_LOG


class AbsLog(Binding):
    """The oracle itself: one machine, so there is nothing to compose."""

    module = "AbsLog"
    knobs: ClassVar = {"Dropped": "none"}

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.readers: tuple[int, ...] = tuple(sorted(constants["Readers"]))
        self.max_length: int = constants["MaxLength"]
        self.loss_allowed: bool = constants["LossAllowed"]
        self.log = AbstractLog(self.loss_allowed)

    def commit(self, record: int) -> None:
        if len(self.log.committed) >= self.max_length:
            raise Bound
        self.log.commit(record)

    def observe(self, reader: int, length: int) -> None:
        self.log.observe(reader, length)

    def lose(self, length: int) -> None:
        self.log.lose(length)

    def load(self, state: Mapping[str, Value]) -> None:
        seen = dict(zip(self.readers, state["views"], strict=True))
        self.log = AbstractLog(self.loss_allowed, list(state["committed"]), seen)


def _views(c: AbsLog) -> Value:
    return Rec.function([(reader, c.log.views.get(reader, ())) for reader in c.readers])


AbsLog.projection = {**of(ABS_LOG, lambda c: c.log), "views": _views}

MODULE = Module(binding=AbsLog, machines=("abstract_log",))
