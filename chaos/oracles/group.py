"""The promises of a group on one partition: its processed records and committed offsets."""

from bisect import bisect_left
from collections import Counter
from typing import NamedTuple

from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.sim.settings import Settings


class Commit(NamedTuple):
    """A committed offset, and which commit it was."""

    offset: int
    partition: int
    member_id: str
    generation: int
    number: int


@define(eq=False)
class GroupPartition:
    """Judges a group's members on one partition.

    `commits` are the commits by their position in the coordinator's log. `answered` is the highest
    acknowledged offset. `repeats` is set after an event that ends the promise of at most once.
    """

    name: str
    settings: Settings
    partition: PartitionOracle
    counts: Counter[str]
    processed: list[int] = field(factory=list[int])
    passed: int = 0
    repeats: bool = False
    delivered: int = 0
    committed: int = 0
    answered: int = 0
    commits: list[tuple[int, Commit]] = field(factory=list[tuple[int, Commit]])

    def did(self, offset: int) -> None:
        """A record was processed."""
        processed = self.processed
        while len(processed) <= offset:
            processed.append(0)
        processed[offset] += 1
        if processed[offset] > 1:
            self.counts["redeliveries"] += 1
            once = self.settings.commit_when == "before" and not self.repeats
            if once and not self.partition.era:
                raise self._broken("AtMostOnce", f"{offset} is processed again")

    def polled(self, position: int) -> None:
        """A member was handed the record before this position."""
        self.delivered = max(self.delivered, position)

    def took(self, at: int, commit: Commit) -> None:
        """A commit is in the coordinator's log."""
        self.commits.append((at, commit))
        self.committed = commit.offset

    @property
    def reached(self) -> int:
        """The group's furthest commit; a late copy of a commit may have moved the group back."""
        return max(self.committed, self.answered) if self.repeats else self.committed

    def judge(self, commit: Commit) -> None:
        """A commit covers only delivered records and, if promised, only processed ones."""
        if commit.offset > self.delivered and not self.partition.era:
            raise self._broken("CommittedDelivered", f"{commit}, delivered is {self.delivered}")
        self.must_be_done(commit.offset)

    def must_be_done(self, committed: int) -> None:
        """A member that commits after processing has processed every record below the committed
        offset."""
        if self.settings.commit_when != "after" or self.partition.era:
            return
        processed = self.processed
        while self.passed < len(processed) and processed[self.passed]:
            self.passed += 1
        if committed > self.passed:
            raise self._broken(
                "AtLeastOnce", f"{committed} is committed, {self.passed} is not processed"
            )

    def forget(self) -> None:
        """The coordinator's log is another one."""
        self.commits.clear()
        self.committed = 0

    def since(self, at: int) -> list[int]:
        """The offsets that were committed from there on."""
        first = bisect_left(self.commits, at, key=lambda one: one[0])
        return [one.offset for _, one in self.commits[first:]]

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"group g on {self.name}: {what}")
