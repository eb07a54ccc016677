"""A consumer group's view of topics: ids, a hash of everything that assignments depend on, and
names that match a regular expression.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from struct import pack
from typing import Any

from attrs import define, field

from refimpl.groups.consumer_errors import InvalidRegularExpression
from refimpl.groups.topics import TopicDescription, Topics
from refimpl.records.schema import Uuid


def compiled(regex: str) -> Any:
    """A compiled regular expression of RE2, whose Java port Kafka uses; an invalid one is
    refused.
    """
    import re2 as untyped  # pyright: ignore[reportMissingTypeStubs]  # few groups need it

    re2: Any = untyped
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as wrong:
        why = wrong.args[0]
        raise InvalidRegularExpression(
            regex, why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        ) from None


@define(eq=False)
class TopicView:
    """The topics of the cluster; lookups are cached until the topics change."""

    topics: Topics
    _version: int = -1
    _known: dict[str, TopicDescription | None] = field(factory=dict[str, Any])
    _hashes: dict[frozenset[str], int] = field(factory=dict[frozenset[str], int])
    _names: frozenset[str] | None = None

    def ids(self, names: frozenset[str]) -> frozenset[Uuid]:
        """The ids of these topics; topics that do not exist are left out."""
        return frozenset(one.topic_id for name in names if (one := self.topic(name)))

    def ids_in_order(self, names: Iterable[str]) -> list[Uuid]:
        """The same, in the order of the names."""
        return [one.topic_id for name in names if (one := self.topic(name))]

    def partitions(self, names: frozenset[str]) -> Mapping[Uuid, int]:
        """The number of partitions of each topic; topics that do not exist are left out."""
        return {one.topic_id: one.partitions for name in names if (one := self.topic(name))}

    def metadata_hash(self, names: frozenset[str]) -> int:
        """64 bits of everything that an assignment depends on: ids, names, partitions, racks
        (KIP-1101).

        The bits are not Kafka's: a group from Kafka's log has one more rebalance.
        """
        self._renew()
        if names not in self._hashes:
            self._hashes[names] = self._hash(names)
        return self._hashes[names]

    def _hash(self, names: frozenset[str]) -> int:
        known = [one for name in sorted(names) if (one := self.topic(name))]
        if not known:
            return 0
        digest = blake2b(digest_size=8)
        for one in known:
            digest.update(one.topic_id + pack(">i", one.partitions) + one.name.encode() + b"\0")
            for racks in one.racks:
                digest.update("".join(f"{len(rack)}:{rack}" for rack in sorted(racks)).encode())
                digest.update(b"\0")
        return int.from_bytes(digest.digest(), signed=True)

    def names(self) -> frozenset[str]:
        """All topics."""
        self._renew()
        if self._names is None:
            self._names = frozenset(self.topics.names())
        return self._names

    def matching(self, regex: str) -> tuple[str, ...]:
        """The topics whose whole name matches."""
        pattern = compiled(regex)
        return tuple(sorted(name for name in self.names() if pattern.fullmatch(name)))

    def id_of(self, name: str) -> Uuid | None:
        """A topic's id; None if there is no such topic."""
        topic = self.topic(name)
        return None if topic is None else topic.topic_id

    def name_of(self, topic_id: Uuid) -> str | None:
        """A topic's name; None if there is no such topic."""
        topic = self.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def topic(self, name: str) -> TopicDescription | None:
        """A topic by its name."""
        self._renew()
        if name not in self._known:
            self._known[name] = self.topics.by_name(name)
        return self._known[name]

    def _renew(self) -> None:
        if self._version != self.topics.version:
            self._version, self._names = self.topics.version, None
            self._known.clear()
            self._hashes.clear()
