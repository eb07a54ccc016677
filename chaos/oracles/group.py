"""What must hold of a group on a partition, judged at the transitions that could break it."""

from collections import Counter

from attrs import define, field

from chaos.oracles.partition import PartitionOracle
from chaos.oracles.violation import Violation
from chaos.settings import Settings
from refimpl.machines.group import Coordinator, OffsetCommit


@define(eq=False)
class GroupOracle:
    """Judges one group on one partition."""

    name: str
    settings: Settings
    partition: PartitionOracle
    group: Coordinator
    counts: Counter[str]
    processed: list[int] = field(factory=list[int])
    passed: int = 0
    generation: int = 0

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

    def did(self, offset: int) -> None:
        """A record was processed."""
        processed = self.processed
        while len(processed) <= offset:
            processed.append(0)
        processed[offset] += 1
        if processed[offset] > 1:
            self.counts["redeliveries"] += 1
            if self.settings.commit_when == "before" and not self.partition.era:
                raise self._broken("AtMostOnce", f"{offset} is processed again")

    def committed(self, commit: OffsetCommit, before: int) -> None:
        """The coordinator took a commit: of the generation in force, forward, and of work done."""
        group = self.group
        if commit.generation != self.generation:
            raise self._broken("CommitFenced", f"generation {commit.generation} commits")
        if group.committed < before:
            raise self._broken("CommittedMonotone", f"from {before} back to {group.committed}")
        if self.settings.commit_when != "after" or self.partition.era:
            return
        processed = self.processed
        while self.passed < len(processed) and processed[self.passed]:
            self.passed += 1
        if group.committed > self.passed:
            raise self._broken(
                "AtLeastOnce", f"{group.committed} is committed, {self.passed} is not processed"
            )

    def _broken(self, oracle: str, what: str) -> Violation:
        return Violation(oracle, f"group g on {self.name}: {what}")
