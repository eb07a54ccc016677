"""What must hold of a group on a partition, judged at the transitions that could break it."""

from collections import Counter

from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.settings import Settings
from refimpl.machines.group import Coordinator, OffsetCommit


@define(eq=False)
class Processing:
    """Judges what a group's members do with one partition.

    `repeats`: something has happened after which at most once is not promised.
    """

    name: str
    settings: Settings
    partition: PartitionOracle
    counts: Counter[str]
    processed: list[int] = field(factory=list[int], kw_only=True)
    passed: int = field(default=0, kw_only=True)
    repeats: bool = field(default=False, kw_only=True)

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

    def must_be_done(self, committed: int) -> None:
        """Who commits after processing has processed everything below what is committed."""
        if self.settings.commit_when != "after" or self.partition.era:
            return
        processed = self.processed
        while self.passed < len(processed) and processed[self.passed]:
            self.passed += 1
        if committed > self.passed:
            raise self._broken(
                "AtLeastOnce", f"{committed} is committed, {self.passed} is not processed"
            )

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"group g on {self.name}: {what}")


@define(eq=False)
class GroupOracle(Processing):
    """Judges one group on one partition, whose coordinator does not fail."""

    group: Coordinator
    generation: int = field(default=0, kw_only=True)

    def rebalanced(self) -> None:
        """Members came or went: a newer generation, never an older one."""
        group = self.group
        if group.generation <= self.generation:
            raise self._broken("OneOwner", f"generation {group.generation} again")
        self.generation = group.generation

    def joined(self, member: int, generation: int) -> None:
        """A member believes to own the partition: in the group's generation it does."""
        if generation == self.group.generation and member != self.group.owner:
            raise self._broken("OneOwner", f"member {member} besides {self.group.owner}")

    def committed(self, commit: OffsetCommit, before: int) -> None:
        """The coordinator took a commit: of the generation in force, forward, and of work done."""
        group = self.group
        if commit.generation != self.generation:
            raise self._broken("CommitFenced", f"generation {commit.generation} commits")
        if group.committed < before:
            raise self._broken("CommittedMonotone", f"from {before} back to {group.committed}")
        self.must_be_done(group.committed)
