"""The log directories of a starting broker: whether the logs of its last process are all there.

Spec: Eligibility. A broker that starts without a directory that it had is like one that crashed.
"""

from collections.abc import Iterable

from attrs import frozen


@frozen
class Memory:
    """A directory's memory of the last process that kept logs in it.

    `broker_epoch` is -1 if records of that process may have been lost. `directories` are the ids of
    all directories that it had.
    """

    broker_epoch: int
    directories: frozenset[str]


@frozen
class LogDirectories:
    """The directories that a process starts with, by id, and the memories in them.

    A new directory has no memory.
    """

    here: frozenset[str]
    memories: tuple[Memory, ...]

    @classmethod
    def of(cls, here: Iterable[str], memories: Iterable[Memory]) -> "LogDirectories":
        """The directories with these ids, and what they remember."""
        return cls(frozenset(here), tuple(memories))

    @property
    def are_whole(self) -> bool:
        """True if no directory is missing that a process had.

        The logs of a missing one are made anew, and empty. Its broker may have been eligible for
        what they held (KIP-858, KIP-966).
        """
        return all(one.directories <= self.here for one in self.memories)

    @property
    def survived(self) -> int:
        """The broker epoch of the last process, if all directories agree on it and none is missing;
        else -1: records may be lost.
        """
        epochs = {one.broker_epoch for one in self.memories}
        return epochs.pop() if len(epochs) == 1 and self.are_whole else -1
