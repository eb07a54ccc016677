"""Addresses of brokers in answers, each replaced by that of the proxy's listener for it.

Their fields tell which messages hold any: a node's id, host and port side by side, as
Metadata, FindCoordinator and DescribeCluster have them, and answers of Produce and Fetch since
KIP-951.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, cast, get_args

from kio.index import KioIndexError

from refimpl.wire.framing import Buffer
from refimpl.wire.lengths import tags_at
from refimpl.wire.messages import API_VERSIONS, encoded, load_response_schema, read_response

MOST_VERSIONS = 40
_IDS = frozenset(("node_id", "broker_id"))
_PLACE = frozenset(("host", "port"))


class Upstream(NamedTuple):
    """The address of a broker behind the proxy."""

    host: str
    port: int


class Place(NamedTuple):
    """A broker that an answer names."""

    node: int
    address: Upstream


@cache
def holds_addresses(schema: type[Any]) -> bool:
    """True if messages of this class name brokers."""
    return _is_place(schema) or any(map(holds_addresses, _parts(schema).values()))


def _is_place(schema: type[Any]) -> bool:
    names = {one.name for one in fields(schema)}
    return names >= _PLACE and not names.isdisjoint(_IDS)


@cache
def _parts(schema: type[Any]) -> Mapping[str, type[Any]]:
    """The fields of a message that are messages themselves, or arrays of them."""
    found: dict[str, type[Any]] = {}
    for one in fields(schema):
        kinds = [one.type]
        while kinds:
            kind = kinds.pop()
            if isinstance(kind, type) and is_dataclass(kind):
                found[one.name] = kind
            kinds += [inner for inner in get_args(kind) if inner not in (NoneType, ...)]
    return found


@cache
def newest(api_key: int) -> int | None:
    """The newest version of an API that can be read here; None if there is none."""
    for version in range(MOST_VERSIONS, -1, -1):
        with suppress(KioIndexError):
            load_response_schema(api_key, version)
            return version
    return None


@cache
def names_brokers(api_key: int) -> bool:
    """True if answers of this API may name brokers."""
    version = newest(api_key)
    return version is not None and holds_addresses(load_response_schema(api_key, version))


def limited(
    version: int, frame: Buffer, position: int, reads: Callable[[int], bool] = names_brokers
) -> bytes | None:
    """An answer of ApiVersions without the versions in which brokers could be named unread.

    `reads` says of which APIs nothing may pass unread. None where there are no such versions, so
    that the answer can go on as it is.
    """
    if version > (newest(API_VERSIONS) or 0):
        return None  # the broker has a word of its own for a version that nobody knows
    message = read_response(API_VERSIONS, version, frame, position)
    most = {one.api_key: newest(one.api_key) for one in message.api_keys}
    lowered = tuple(
        replace(one, max_version=most[one.api_key])
        if reads(one.api_key) and one.max_version > (most[one.api_key] or 0)
        else one
        for one in message.api_keys
    )
    return None if lowered == message.api_keys else encoded(replace(message, api_keys=lowered))


def read_answer(api_key: int, version: int, frame: Buffer, position: int) -> Any:
    """An answer that names brokers; None if it names none, so that it can go on as it is.

    Raises MalformedRequest, and ValueError for a version that cannot be read.
    """
    if not names_brokers(api_key):
        return None
    if version > (newest(api_key) or 0):
        raise ValueError(f"version {version} of API {api_key} may name brokers, and is not known")
    schema = load_response_schema(api_key, version)
    if not holds_addresses(schema):
        return None
    if only_tagged(schema) and not frame[tags_at(schema, frame, position)]:
        return None
    return read_response(api_key, version, frame, position)


@cache
def only_tagged(schema: type[Any]) -> bool:
    """True if all that names brokers is among the message's tagged fields."""
    plain = {one.name for one in fields(schema) if "tag" not in one.metadata}
    named = {name for name, part in _parts(schema).items() if holds_addresses(part)}
    return not _is_place(schema) and plain.isdisjoint(named)


def places(message: Any) -> Iterator[Place]:
    """The brokers that a message names; a node that is not known has no address."""
    kind: type[Any] = message.__class__
    if _is_place(kind) and message.host:
        yield Place(_node(message), Upstream(message.host, message.port))
    for name, part in _parts(kind).items():
        if holds_addresses(part):
            for one in _listed(getattr(message, name)):
                yield from places(one)


def _node(message: Any) -> int:
    return next(getattr(message, name) for name in sorted(_IDS) if hasattr(message, name))


def _listed(value: Any) -> tuple[Any, ...]:
    if isinstance(value, tuple):
        return cast("tuple[Any, ...]", value)
    return () if value is None else (value,)


def moved(message: Any, local: Mapping[Upstream, Upstream]) -> Any:
    """The same message, with other addresses."""
    kind: type[Any] = message.__class__
    changes: dict[str, Any] = {}
    if _is_place(kind) and message.host:
        changes |= local[Upstream(message.host, message.port)]._asdict()
    for name, part in _parts(kind).items():
        value = getattr(message, name)
        if holds_addresses(part) and value is not None:
            many = tuple(moved(one, local) for one in _listed(value))
            changes[name] = many if isinstance(value, tuple) else many[0]
    return replace(message, **changes)


def written(header: Buffer, message: Any) -> bytes:
    """An answer behind its header."""
    return bytes(header) + encoded(message)
