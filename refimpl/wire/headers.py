"""Request and response headers (KIP-482: flexible ones have tagged fields)."""

from struct import Struct, error
from typing import NamedTuple

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import Reader

_HEADER = Struct(">hhi")
_CORRELATION, _FLEXIBLE_CORRELATION = Struct(">i"), Struct(">ib")


class RequestHeader(NamedTuple):
    """Which API in which version, the client's number of the request, and its client.id."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    #: Where the body begins
    size: int


def read_api(data: Buffer) -> tuple[int, int, int]:
    """API key, version and correlation id, which every header begins with."""
    try:
        return _HEADER.unpack_from(data)
    except error:
        raise MalformedRequest(f"{len(data)} bytes, less than any request header has") from None


def read_request_header(data: Buffer, *, flexible: bool) -> RequestHeader:
    """The header of a request; of a flexible one its tagged fields are skipped."""
    api_key, version, correlation_id = read_api(data)
    reader = Reader(data, _HEADER.size)
    client_id = reader.nullable_string()
    if flexible:
        reader.skip_tagged_fields()
    return RequestHeader(api_key, version, correlation_id, client_id, reader.position)


def response_header(correlation_id: int, *, flexible: bool) -> bytes:
    """The header of a response."""
    if flexible:
        return _FLEXIBLE_CORRELATION.pack(correlation_id, 0)
    return _CORRELATION.pack(correlation_id)
