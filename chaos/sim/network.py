"""The network: late, twice, in another order, in one direction only, or not at all."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.messages.broker import Request, Response
from refimpl.messages.controller import UpdateMetadataRequest
from refimpl.messages.transaction_coordination import AddPartitionsToTxnResponse
from refimpl.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse

CALM_JITTER_MS = 5
# The delay of a stray message: long enough for its sender to crash and to be back in sync.
STRAY_MS = 1200
OVERTAKEN_MS = 100
OF_TRANSACTIONS = WriteTxnMarkersRequest, WriteTxnMarkersResponse, AddPartitionsToTxnResponse
"""Messages between coordinators of transactions and leaders, and answers to clients."""

Link: TypeAlias = tuple[int, int]
Entry: TypeAlias = tuple[int, Any]
Message: TypeAlias = Request | Response


@define(eq=False)
class Timeline:
    """The future: for each millisecond, nodes and messages in the order of their insertion.

    Something happens at nearly every millisecond, so sorting would gain nothing.
    """

    now: int = 0
    due: defaultdict[int, list[Entry]] = field(factory=lambda: defaultdict[int, list[Entry]](list))

    def at(self, when: int, node: int, message: Any) -> None:
        """Let a node have a message at a time that has not passed, past the network."""
        assert when >= self.now
        self.due[when].append((node, message))


@define(eq=False)
class Clock:
    """A broker's clock, which may be ahead of simulated time, or behind it."""

    timeline: Timeline
    ahead_ms: int = 0

    def now_ms(self) -> int:
        """The time that the broker reads."""
        return self.timeline.now + self.ahead_ms


@define(eq=False)
class Network:
    """Links between nodes.

    A pair in `cut` lets nothing through in that direction. Everything else is random, so messages
    overtake each other as soon as there is jitter.
    """

    timeline: Timeline
    rng: Random
    delay_ms: int
    jitter_ms: int
    drop: float
    duplicate: float
    stray: float
    slow: dict[Link, int] = field(factory=dict[Link, int])
    cut: set[Link] = field(factory=set[Link])
    cuts: dict[Link, int] = field(factory=dict[Link, int])
    lost: int = 0
    doubled: int = 0
    #: By broker: the extra delay of metadata updates, in ms; negative for never
    lag: dict[int, int] = field(factory=dict[int, int])
    counts: Counter[str] = field(factory=Counter[str])
    _random: Callable[[], float] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Look the random sources up once."""
        self._random = self.rng.random

    def send(self, message: Message) -> None:
        """Carry a message from its source to its target."""
        target, timeline, random = message[1], self.timeline, self._random
        if self.cut and (message[0], target) in self.cut:
            self.lost += 1
            return
        arrives = timeline.now + self.delay_ms
        if self.lag and target in self.lag:
            late_ms = self._lags(message)
            if late_ms < 0:
                return
            arrives += late_ms
        if self.drop and random() < self.drop:
            self.lost += 1
            return
        arrives += int(random() * self.jitter_ms)
        if self.slow and (message[0], target) in self.slow:
            arrives += self.slow[message[0], target]
            self.counts["messages on slow links"] += 1
        if self.stray and random() < self.stray:
            arrives += self._strays_ms()
        timeline.due[arrives].append((target, message))
        if self.duplicate and random() < self.duplicate:
            self.doubled += 1
            late = STRAY_MS if random() < 0.5 else 10 + 6 * self.jitter_ms
            arrives += int(random() * late)
            timeline.due[arrives].append((target, message))

    def _strays_ms(self) -> int:
        """The time for which a message strays; longer than a round trip, it is overtaken."""
        strays_ms = int(self._random() * STRAY_MS)
        if strays_ms > OVERTAKEN_MS:
            self.counts["messages overtaken by others"] += 1
        return strays_ms

    def _lags(self, message: Message) -> int:
        """The extra delay of a message, if it is a metadata update.

        An update after updates that never arrive has skipped them.
        """
        if message[3].__class__ is not UpdateMetadataRequest:
            return 0
        late_ms = self.lag[message[1]]
        self.counts[f"news of the metadata {'skipped' if late_ms < 0 else 'late'}"] += 1
        return late_ms

    def reaches(self, one: int, other: int) -> bool:
        """True if two nodes can talk at this moment, in both directions."""
        return not self.cut or ((one, other) not in self.cut and (other, one) not in self.cut)

    def cut_links(self, links: Iterable[Link]) -> None:
        """Let nothing through on these links, until as many heals have come as cuts."""
        for link in links:
            self.cuts[link] = self.cuts.get(link, 0) + 1
        self.cut = set(self.cuts)

    def heal_links(self, links: Iterable[Link]) -> None:
        """Take one cut back for each of these links."""
        for link in links:
            left = self.cuts.get(link, 0) - 1
            if left > 0:
                self.cuts[link] = left
            else:
                self.cuts.pop(link, None)
        self.cut = set(self.cuts)

    def slow_links(self, links: Iterable[Link], by_ms: int) -> None:
        """Let everything on these links take longer by so much; or, by less, faster again."""
        for link in links:
            self.slow[link] = self.slow.get(link, 0) + by_ms
            if self.slow[link] <= 0:
                del self.slow[link]

    def heal(self) -> None:
        """Be a good network from now on."""
        self.cut, self.cuts = set(), {}
        self.drop = self.duplicate = self.stray = 0.0
        self.slow, self.lag = {}, {}
        self.jitter_ms = min(self.jitter_ms, CALM_JITTER_MS)


@define(eq=False)
class TransactionalNetwork(Network):
    """A network on which markers of transactions may have a fate of their own.

    So may their answers, and those to a leader that verifies a write.
    """

    #: The fates that they have now: held, lost or doubled
    fates: list[str] = field(factory=list[str])

    def send(self, message: Message) -> None:
        """Carry a message; half of the markers meet with a fate, if there is one."""
        if self.fates and message[3].__class__ in OF_TRANSACTIONS and self._random() < 0.5:
            fate = self.fates[-1]
            self.counts[f"markers {fate}"] += 1
            if fate == "lost":
                return
            late = self.timeline.now + int(self._random() * STRAY_MS) + 1
            if fate == "held":
                self.timeline.due[late].append((message[1], message))
                return
            self.doubled += 1
            self.timeline.due[late].append((message[1], message))
        Network.send(self, message)

    def heal(self) -> None:
        """Be a good network from now on."""
        Network.heal(self)
        self.fates.clear()
