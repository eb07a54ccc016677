"""A conversation with a metadata store, as a generator: it yields operations and is sent results.

A failed operation is answered with an error of the store. A conversation is dropped when the
connection is lost, and the next one reads again.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.metadata.contract import Operation, Result, StoreRequest, StoreResponse
from refimpl.metadata.errors import StoreError

Answers: TypeAlias = Sequence[Result | StoreError]
Dialogue: TypeAlias = Generator[Sequence[Operation], Any, None]
"""Yields operations to send at once, and is sent their answers in the same order."""


@define(eq=False)
class Conversation:
    """One dialogue: the operations that it waits for, and the answers so far."""

    dialogue: Dialogue
    numbers: dict[int, int] = field(factory=dict[int, int])
    answers: dict[int, Result | StoreError] = field(factory=dict[int, Result | StoreError])


@define(eq=False)
class StoreSession:
    """All operations that one session sends to the store; its conversations run side by side."""

    asked: int = 0
    conversations: list[Conversation] = field(factory=list[Conversation])
    outputs: list[StoreRequest] = field(factory=list[StoreRequest])

    @property
    def busy(self) -> bool:
        """True while an answer is awaited."""
        return bool(self.conversations)

    def begin(self, dialogue: Dialogue) -> None:
        """Start a dialogue and send its first operations."""
        conversation = Conversation(dialogue)
        self.conversations.append(conversation)
        self._go_on(conversation, lambda: next(dialogue))

    def answered(self, response: StoreResponse) -> None:
        """Take an answer; the dialogue goes on once all operations sent together are answered."""
        for conversation in self.conversations:
            if response.number in conversation.numbers:
                conversation.answers[response.number] = response.result
                if len(conversation.answers) == len(conversation.numbers):
                    self._all_answered(conversation)
                return

    def drop(self) -> None:
        """Drop all conversations, because the connection is lost: their outcomes are not known."""
        self.conversations = []

    def _all_answered(self, conversation: Conversation) -> None:
        answers = [conversation.answers[number] for number in conversation.numbers]
        self._go_on(conversation, lambda: conversation.dialogue.send(answers))

    def _go_on(self, conversation: Conversation, step: Callable[[], Sequence[Operation]]) -> None:
        try:
            operations = step()
            while not operations:
                operations = conversation.dialogue.send(())
        except StopIteration:
            self.conversations.remove(conversation)
            return
        conversation.numbers, conversation.answers = {}, {}
        for operation in operations:
            self.asked += 1
            conversation.numbers[self.asked] = len(conversation.numbers)
            self.outputs.append(StoreRequest(self.asked, operation))
