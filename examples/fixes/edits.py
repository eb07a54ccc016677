"""A fix of a finding: the edits of Kafka's own source files, by artifact."""

from attrs import frozen

CORE, METADATA, STORAGE = "kafka_2.13", "kafka-metadata", "kafka-storage"


@frozen
class Edit:
    """At the first place behind `after` where the source has `old`, it has `new`."""

    after: str
    old: str
    new: str


@frozen
class Fix:
    """The changes of one source file of an artifact, and of `more` files."""

    artifact: str
    path: str
    edits: tuple[Edit, ...]
    more: "Fix | None" = None


def edited(source: str, edits: tuple[Edit, ...]) -> str:
    """The source with its changes; raises ValueError where one does not fit."""
    for edit in edits:
        at = source.index(edit.old, source.index(edit.after))
        source = source[:at] + edit.new + source[at + len(edit.old) :]
    return source
