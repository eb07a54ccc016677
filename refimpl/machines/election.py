"""The election of the controller: one broker's part in it, and the condition of every write.

Spec: Controller. The store has ZooKeeper's contract (refimpl/metadata). The caller sends this
machine's requests and reports their results; nothing here waits or knows the time.
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
    """A transaction that creates the ephemeral /controller and raises the controller epoch.

    It writes `controller_epoch` into /controller_epoch if that still has `version`. Both happen or
    neither (KAFKA-6082).
    """

    session: int
    controller_epoch: int
    version: int


@frozen
class FencedWrite:
    """The condition of a write by the controller.

    In one transaction, /controller_epoch must have version `fence`, and the node is written if it
    has `version`.
    """

    fence: int
    version: int


@define
class Controllership:
    """The state of the controller of one epoch: its fence, and the versions of all nodes that it
    read.

    The fence is the version of /controller_epoch with which it was elected, not the value. No write
    of a controller that has a successor takes effect, even if it still believes to be controller.
    """

    controller_epoch: int
    fence: int
    versions: dict[Hashable, int] = field(factory=dict[Hashable, int])

    def read(self, node: Hashable, version: int) -> None:
        """Record the version of a node that was read.

        The reader must send the decision to brokers: it may be a predecessor's, or one of its own
        whose answer was lost.
        """
        self.versions[node] = version

    def write(self, node: Hashable) -> FencedWrite:
        """The condition of a decision about this node, which must have been read before.

        After a lost answer the write may be repeated: if it was applied, the store refuses it, and
        `conflict` follows.
        """
        if node not in self.versions:
            raise errors.NotRead(node)
        return FencedWrite(self.fence, self.versions[node])

    def written(self, node: Hashable, version: int) -> None:
        """Record the node's version after the store has applied the write."""
        self.versions[node] = version

    def conflict(self, node: Hashable) -> None:
        """Forget the version of a node that had another one: it must be read again.

        The store may hold this very write, applied when its answer was lost. So no refusal is
        reported yet.
        """
        self.versions.pop(node, None)


@define
class ControllerElection:
    """One broker's part in the election.

    It calls `look` when `must_look`, `claim` as a candidate, and decides while there is a
    `controllership`. The broker gives that up as soon as it learns of a successor; until then only
    the fence protects its writes. `seen` is /controller_epoch as of the last look: value and
    version.
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
        """True if /controller has to be read: not yet read in this session, or its watch fired."""
        return self.watch != "armed" and not self.claiming

    @property
    def newest_epoch(self) -> int:
        """The newest controller epoch that it knows of; a controller was elected in it."""
        held = self.controllership
        return self.seen[0] if held is None else held.controller_epoch

    # Sessions

    def connect(self, session: int) -> None:
        """Begin a session: no watch is armed, and no node of an earlier session is our own.

        Decisions under way may still be written: the fence refuses them if it must. A caller that
        knows that the last session has expired calls `resign`, too.
        """
        if session == self.session:
            raise errors.SameSession(self.broker, session)
        self.session, self.watch, self.claiming = session, "unread", False

    def suspend(self) -> None:
        """Lose the connection: no watch is armed, and the outcome of a claim is not known."""
        self.watch, self.claiming = "unread", False

    def resign(self) -> None:
        """Stop being controller or candidate."""
        self.role, self.controllership = "follower", None

    def restart(self, session: int) -> None:
        """Start a process: a follower that knows nothing."""
        self.connect(session)
        self.resign()
        self.seen = (0, 0)

    # Election

    def fire(self) -> None:
        """The watch on /controller has fired: the node was created or deleted."""
        if self.watch != "armed":
            raise errors.NotArmed(self.broker, self.watch)
        self.watch = "fired"

    def look(self, owner: int | None, controller_epoch: int, version: int) -> None:
        """Take the values that were read: /controller_epoch first, then /controller, with a watch.

        `owner` is the session that made /controller, None if the node does not exist. A node of our
        own session is the claim whose answer was lost: go on as controller (KAFKA-13407). A node of
        an earlier session of ours does not count as ours, and will go (KAFKA-7165).
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
        """Try to become controller; the last look saw none."""
        if self.role != "candidate":
            raise errors.NotCandidate(self.broker, self.role)
        self.role, self.claiming = "unsure", True
        epoch, version = self.seen
        return Claim(self.session, epoch + 1, version)

    def elected(self, version: int) -> None:
        """Take office: the store has applied the claim, and /controller_epoch has this version
        now.
        """
        self._answered()
        self._become(self.seen[0] + 1, version)

    def beaten(self) -> None:
        """Give up the claim: the store refused it, because another broker was elected since the
        last look.
        """
        self._answered()
        self.resign()

    def fenced(self) -> None:
        """Give up the controllership: the store refused a write by the version of
        /controller_epoch, so another broker is controller.
        """
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
    """The newest controller epoch that a broker knows; it refuses older controllers
    (KAFKA-1188).
    """

    controller_epoch: int = 0

    def hear(self, controller_epoch: int) -> None:
        """Accept metadata from a controller of this epoch, or refuse an older one."""
        if controller_epoch < self.controller_epoch:
            raise errors.StaleControllerEpoch(controller_epoch, self.controller_epoch)
        self.controller_epoch = controller_epoch


def check_news(broker: int, known: LeaderAndIsr, told: LeaderAndIsr) -> None:
    """Refuse a decision older than the one that a broker knows (KAFKA-2721)."""
    if told.leader_epoch < known.leader_epoch:
        raise FencedLeaderEpoch(broker, told.leader_epoch, known.leader_epoch)
