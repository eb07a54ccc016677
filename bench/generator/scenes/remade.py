"""A topic that is deleted and made again: other records at the same offsets, and another id."""

from typing import Any

from attrs import define

from bench.generator.lies.registry import lie
from bench.generator.scenes.scene import Scene
from bench.generator.scenes.spot import Spot
from traces.schema import Flag

AGAIN = 3  # the generation in which it is made again
_NEW = 1 << 30  # apart from the ids of the first life are those of the second


@define(slots=False)
class Remade(Scene):
    """Everybody tells of which life of the topic they speak."""

    topic, holes = "remade", 1

    def play(self) -> None:
        """Only the last life is read when all is over."""
        self.send(self.producer("remaker"))
        if self.number >= AGAIN:
            self.scan()
        former = Flag.REMADE | (0 if self.number >= AGAIN else Flag.FORMER)
        life = self.cast.names.topic_ids.number(self._life(self.number))
        for block in self.blocks.values():
            block["topic_id"] = block["topic"] * 0 + life
            block["flags"] |= former

    def _life(self, number: int) -> str:
        return "again" if number >= AGAIN else "once"

    @property
    def first(self) -> bool:
        """Whether this is the first generation of the last life."""
        return self.number == AGAIN

    @property
    def begin(self) -> int:
        """Offsets begin anew."""
        return super().begin - (AGAIN * self.width if self.number >= AGAIN else 0)

    @property
    def end(self) -> int:
        """The end of the last life's log."""
        return super().end - AGAIN * self.width

    def ids(self, partition: Any, offset: Any) -> Any:
        """Those of the former life are others."""
        return super().ids(partition, offset) + _NEW * (self.number >= AGAIN)


@lie("A1 L5", scene="Remade", first=AGAIN)
def come_back(s: Spot) -> bool:
    """A record of the former life is read in the new one."""
    row, scene = int(s.rows("scans")[-1]), s.scene
    nth = (scene.number - AGAIN) % (AGAIN * scene.each)  # in each generation another one
    offset = nth // scene.each * scene.width + nth % scene.each
    old = int(scene.ids(s.place, offset)) - _NEW
    return s.copy("scans", row, offset=s.get("scans", row, "offset") + 1, id=old)
