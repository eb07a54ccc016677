"""Who is controller: one broker's part in the election, and the condition of every write.

Spec: Controller. The store has ZooKeeper's contract (refimpl/metadata). Whoever holds a machine
sends what it asks for and tells it what came of that; nothing here waits or knows the time.
"""

from collections.abc import Hashable
from typing import Literal

from attrs import define, field, frozen

from refimpl.errors import FencedLeaderEpoch
from refimpl.machines import election_errors as errors
from refimpl.machines.messages import LeaderAndIsr

Role = Literal["follower", "candidate", "unsure", "controller"]
Watch = Literal["unread", "armed", "fired"]


@frozen
class Claim:
    """A transaction: create /controller, ephemeral, and write `controller_epoch` into
    /controller_epoch if that has still `version`. Both happen or neither (KAFKA-6082)."""

    session: int
    controller_epoch: int
    version: int


@frozen
class FencedWrite:
    """What a write of the controller is conditional on.

    In one transaction: check that /controller_epoch has version `fence`, and write the node if it
    has `version`.
    """

    fence: int
    version: int


@define
class Controllership:
    """What the controller of one epoch holds: its fence, and the versions of what it has read.

    The fence is the version of /controller_epoch with which it was elected, not the value: no
    write of a controller that has a successor takes effect, whatever it still believes.
    """

    controller_epoch: int
    fence: int
    versions: dict[Hashable, int] = field(factory=dict[Hashable, int])

    def read(self, node: Hashable, version: int) -> None:
        """Take over what the store has. Whoever reads tells brokers: the decision may be that of
        a predecessor, or its own, of which it never heard."""
        self.versions[node] = version

    def write(self, node: Hashable) -> FencedWrite:
        """The condition of a decision about this node; it has to be read before.

        After an answer was lost the write may be repeated: if it was applied, the store refuses
        it, and `conflict` follows.
        """
        if node not in self.versions:
            raise errors.NotRead(node)
        return FencedWrite(self.fence, self.versions[node])

    def written(self, node: Hashable, version: int) -> None:
        """The store has applied the write; this is the node's version now."""
        self.versions[node] = version

    def conflict(self, node: Hashable) -> None:
        """The node had another version: read it again. It may be the very write that was asked
        for, applied when its answer was lost, so nothing is said of it yet."""
        self.versions.pop(node, None)


@define
class ControllerElection:
    """One broker's part in the election.

    `look` when `must_look`, `claim` as a candidate, and act while there is a `controllership`. It
    is given up as soon as the broker knows better; until then the fence alone protects what it
    writes. `seen` is /controller_epoch as of the last look: its value and its version.
    """

    broker: int
    session: int = 0
    role: Role = "follower"
    watch: Watch = "unread"
    seen: tuple[int, int] = (0, 0)
    controllership: Controllership | None = None
    claiming: bool = False

    @property
    def must_look(self) -> bool:
        """Whether /controller has to be read: never read in this session, or its watch fired."""
        return self.watch != "armed" and not self.claiming

    @property
    def newest_epoch(self) -> int:
        """The newest controller epoch that it knows of: a controller of this epoch was elected."""
        held = self.controllership
        return self.seen[0] if held is None else held.controller_epoch

    # Sessions

    def connect(self, session: int) -> None:
        """A session has begun: no watch is armed, and no node of an earlier one is our own.

        What was about to be done may still be done: the fence refuses it if it must. Whoever
        knows that the last session has expired calls `resign`, too.
        """
        if session == self.session:
            raise errors.SameSession(self.broker, session)
        self.session, self.watch, self.claiming = session, "unread", False

    def suspend(self) -> None:
        """The connection is lost: no watch is armed, and what came of a claim is not known."""
        self.watch, self.claiming = "unread", False

    def resign(self) -> None:
        """Stop being controller, or candidate."""
        self.role, self.controllership = "follower", None

    def restart(self, session: int) -> None:
        """A process has started: it is nothing, and knows nothing."""
        self.connect(session)
        self.resign()
        self.seen = (0, 0)

    # Election

    def fire(self) -> None:
        """The watch on /controller has fired: it was created, or has gone."""
        if self.watch != "armed":
            raise errors.NotArmed(self.broker, self.watch)
        self.watch = "fired"

    def look(self, owner: int | None, controller_epoch: int, version: int) -> None:
        """Take what was read: /controller_epoch first, then /controller, watching it.

        `owner` is the session that made /controller, None if it is not there. A node of our own
        session is the claim whose answer was lost: go on as controller (KAFKA-13407). One of an
        earlier session of ours is somebody else's, and will go (KAFKA-7165).
        """
        if self.claiming:
            raise errors.ClaimUnderWay(self.broker)
        if self.watch == "armed":
            raise errors.NothingNew(self.broker)
        self.watch, self.seen = "armed", (controller_epoch, version)
        if owner is None:
            self.role, self.controllership = "candidate", None
        elif owner != self.session:
            self.resign()
        elif self.controllership is None:
            self._become(controller_epoch, version)

    def claim(self) -> Claim:
        """Try to become controller: nobody was when we looked."""
        if self.role != "candidate":
            raise errors.NotCandidate(self.broker, self.role)
        self.role, self.claiming = "unsure", True
        epoch, version = self.seen
        return Claim(self.session, epoch + 1, version)

    def elected(self, version: int) -> None:
        """The store has applied the claim; /controller_epoch has this version now."""
        self._answered()
        self._become(self.seen[0] + 1, version)

    def beaten(self) -> None:
        """The store has refused the claim: somebody was elected since we looked."""
        self._answered()
        self.resign()

    def fenced(self) -> None:
        """The store has refused a write, because /controller_epoch has another version: somebody
        else is controller."""
        if self.controllership is None:
            raise errors.NotController(self.broker, self.role)
        self.resign()

    def _answered(self) -> None:
        if not self.claiming:
            raise errors.NoClaim(self.broker)
        self.claiming = False

    def _become(self, controller_epoch: int, version: int) -> None:
        self.role = "controller"
        self.controllership = Controllership(controller_epoch, version)


@define
class ControllerFence:
    """The newest controller that a broker has heard of: it obeys no older one (KAFKA-1188)."""

    controller_epoch: int = 0

    def hear(self, controller_epoch: int) -> None:
        """Take news of a controller of this epoch, or refuse them."""
        if controller_epoch < self.controller_epoch:
            raise errors.StaleControllerEpoch(controller_epoch, self.controller_epoch)
        self.controller_epoch = controller_epoch


def check_news(broker: int, known: LeaderAndIsr, told: LeaderAndIsr) -> None:
    """Refuse a decision that is older than the one that a broker knows (KAFKA-2721)."""
    if told.leader_epoch < known.leader_epoch:
        raise FencedLeaderEpoch(broker, told.leader_epoch, known.leader_epoch)
