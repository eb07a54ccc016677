"""A conversation with a metadata store, as a generator: it yields operations and is sent results.

What does not come back as a result comes back as an error of the store. A conversation is dropped
when the connection is lost: whoever goes on reads again.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeAlias

from attrs import define, field

from refimpl.metadata.contract import Operation, Request, Response, Result
from refimpl.metadata.errors import StoreError

Answers: TypeAlias = Sequence[Result | StoreError]
Dialogue: TypeAlias = Generator[Sequence[Operation], Any, None]
"""Yields what is asked at once, and is sent the answers in the same order."""


@define(eq=False)
class Conversation:
    """One dialogue: what it waits for, and what it has heard of that."""

    dialogue: Dialogue
    numbers: dict[int, int] = field(factory=dict[int, int])
    answers: dict[int, Result | StoreError] = field(factory=dict[int, Result | StoreError])


@define(eq=False)
class StoreSession:
    """All that one session asks of the store; its conversations go on beside each other."""

    asked: int = 0
    conversations: list[Conversation] = field(factory=list[Conversation])
    outputs: list[Request] = field(factory=list[Request])

    @property
    def busy(self) -> bool:
        """Whether an answer is waited for."""
        return bool(self.conversations)

    def begin(self, dialogue: Dialogue) -> None:
        """Ask for the first time."""
        conversation = Conversation(dialogue)
        self.conversations.append(conversation)
        self._go_on(conversation, lambda: next(dialogue))

    def answered(self, response: Response) -> None:
        """Take an answer; when all that was asked at once is answered the dialogue goes on."""
        for conversation in self.conversations:
            if response.number in conversation.numbers:
                conversation.answers[response.number] = response.result
                if len(conversation.answers) == len(conversation.numbers):
                    self._all_answered(conversation)
                return

    def drop(self) -> None:
        """The connection is lost: nobody knows what came of what was asked."""
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
            self.outputs.append(Request(self.asked, operation))
