"""Request and response headers (KIP-482: flexible ones have tagged fields)."""

from struct import Struct, error

from refimpl.wire.errors import MalformedRequest
from refimpl.wire.framing import Buffer
from refimpl.wire.reader import after_tagged_fields, nullable_string

_HEADER = Struct(">hhi")
_CORRELATION, _FLEXIBLE_CORRELATION = Struct(">i"), Struct(">ib")


def read_api(data: Buffer) -> tuple[int, int, int]:
    """API key, version and correlation id, which every header begins with."""
    try:
        return _HEADER.unpack_from(data)
    except error:
        raise MalformedRequest(f"{len(data)} bytes, less than any request header has") from None


def read_client_id(data: Buffer, *, flexible: bool) -> tuple[str | None, int]:
    """The client.id, which stands behind what `read_api` reads, and where the body begins; tagged
    fields of a flexible header are skipped."""
    client_id, position = nullable_string(data, _HEADER.size)
    return client_id, after_tagged_fields(data, position) if flexible else position


def response_header(correlation_id: int, *, flexible: bool) -> bytes:
    """The header of a response."""
    if flexible:
        return _FLEXIBLE_CORRELATION.pack(correlation_id, 0)
    return _CORRELATION.pack(correlation_id)
