"""The embedded store keeps the law book: in memory, and on a disk that crashes."""

from tests.refimpl.metadata.hosting import DurableSubject, EmbeddedSubject
from tests.refimpl.metadata.law_book import LawBook, Subject


class InMemory(LawBook):
    """The embedded store without a disk."""

    def new_subject(self) -> Subject:
        return EmbeddedSubject()


class OnDisk(LawBook):
    """The embedded store on a disk that loses what was not flushed, and tears it."""

    def new_subject(self) -> Subject:
        return DurableSubject()


TestInMemory = InMemory.TestCase
TestOnDisk = OnDisk.TestCase
