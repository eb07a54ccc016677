"""A record as a consumer sees it."""

from attrs import frozen

Header = tuple[str, bytes | None]


@frozen
class Record:
    """One record; without a value it is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
