"""Ids of topics: a name can be used again, an id cannot (KIP-516).

Between two calls that tell one id there was one topic. So it is enough to ask when a client first
uses a topic, and when it leaves; a run's other clients and its final scan ask as well.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from threading import Lock, Thread
from typing import Any
from uuid import UUID

from traces.record.process import Process, now

Ask = Callable[[list[str]], Mapping[str, str]]
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # what a broker tells that does not know ids


class TopicIds:
    """The ids of the topics that a client uses, noted in its process.

    They are asked for beside the client's own calls, in a thread, and what fails is not told.
    `since` tells, of a client that answers from what it knows, when it learnt that.
    """

    def __init__(self, process: Process, ask: Ask | None, since: Callable[[], int] = now) -> None:
        self._process, self.ask, self._since = process, ask, since
        self._met: set[str] = set()
        self._over = False
        self._lock = Lock()

    def met(self, topics: Iterable[str]) -> None:
        """The client uses these topics."""
        new = [topic for topic in topics if topic not in self._met]
        if new and self.ask is not None:
            self._met.update(new)
            Thread(target=self._note, args=(new,), daemon=True).start()

    def made(self, topic: str) -> None:
        """A topic was created: whatever was met under its name is another one."""
        self._met.discard(topic)
        self.met([topic])

    def ask_now(self, topics: list[str]) -> None:
        """Ask for the ids now, and wait for the answer."""
        if self.ask is not None:
            self._met.update(topics)
            self._note(topics)

    def leave(self) -> None:
        """The client leaves: ask once more, and never again."""
        if self._met:
            self._note(sorted(self._met))
        with self._lock:
            self._over = True

    def _note(self, topics: list[str]) -> None:
        invoked = self._since()
        ids: Mapping[str, str] = {}
        try:
            ids = ids if self.ask is None else self.ask(topics)
        except Exception:  # whatever it is, it is no trouble of the application
            return
        with self._lock:
            if ids and not self._over:
                named = sorted(ids)
                self._process.note("describe_topics", invoked, topics=named, topic_ids=dict(ids))


def known(ids: Mapping[str, Any]) -> dict[str, str]:
    """The ids that are some, as Kafka writes them, whichever way a library does."""
    texts = {topic: in_our_words(id) for topic, id in ids.items() if id is not None}
    return {topic: text for topic, text in texts.items() if text != NO_ID}


def in_our_words(id: Any) -> str:
    """Base64 as in Java's Uuid; librdkafka writes / and + for its _ and -, kafka-python a UUID."""
    text = urlsafe_b64encode(id.bytes).decode() if isinstance(id, UUID) else str(id)
    return text.translate(_OF_JAVA).rstrip("=")


_OF_JAVA = str.maketrans("/+", "_-")
