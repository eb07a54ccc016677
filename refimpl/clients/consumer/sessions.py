"""Fetch sessions: a broker remembers its partitions, and hears of changes alone (KIP-227)."""

from collections.abc import Mapping, Sequence

from attrs import define, field

from refimpl.messages.broker import (
    NEW_SESSION,
    FetchPartition,
    FetchResponse,
    TopicPartition,
)

LAST_EPOCH = 2**31 - 1
NO_SESSION = 0


@define(eq=False)
class ConsumerFetchSession:
    """A client's session with one broker. In epoch 0 the next request names everything."""

    id: int = NO_SESSION
    epoch: int = NEW_SESSION
    partitions: Mapping[TopicPartition, FetchPartition] = field(
        factory=dict[TopicPartition, FetchPartition]
    )

    def named(
        self, wanted: Mapping[TopicPartition, FetchPartition]
    ) -> tuple[Sequence[FetchPartition], Sequence[TopicPartition]]:
        """The partitions that the next request has to name, and those that it takes out."""
        known, self.partitions = self.partitions, wanted
        if self.epoch == NEW_SESSION:
            return [*wanted.values()], ()
        changed = [one for name, one in wanted.items() if known.get(name) != one]
        return changed, [name for name in known if name not in wanted]

    def answered(self, answer: FetchResponse) -> None:
        """Take the session's number from a full answer, or count one more."""
        if answer.error is not None:
            self.failed()
            if answer.error == "FETCH_SESSION_ID_NOT_FOUND":
                self.id = NO_SESSION
        elif self.epoch == NEW_SESSION:
            self.id = answer.session_id
            self.epoch = NEW_SESSION if self.id == NO_SESSION else 1
        else:
            self.epoch = self.epoch + 1 if self.epoch < LAST_EPOCH else 1

    def failed(self) -> None:
        """Nobody knows which partitions the broker remembers: begin another one in its place."""
        self.epoch = NEW_SESSION
