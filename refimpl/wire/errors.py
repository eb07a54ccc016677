"""The errors of malformed bytes, and Kafka's numbers for the names of errors."""

from collections.abc import Mapping
from functools import cache

from attrs import frozen
from kio.schema.errors import ErrorCode

from refimpl.wire.api_names import api_name


class WireError(Exception):
    """These bytes are no request; the connection that they came by is closed, as Kafka does."""


@frozen
class MalformedRequest(WireError):
    """A frame that does not hold what its header says."""

    why: str

    def __str__(self) -> str:
        """The reason."""
        return self.why


@frozen
class FrameTooLarge(WireError):
    """A frame above socket.request.max.bytes, or of a negative size."""

    size: int
    limit: int

    def __str__(self) -> str:
        """Both sizes."""
        return f"a frame of {self.size} bytes, where 0 to {self.limit} are allowed"


@frozen
class UnsupportedVersion(WireError):
    """An API that is not served, or a version of it that is not."""

    api_key: int
    version: int

    def __str__(self) -> str:
        """Which one."""
        return f"version {self.version} of {api_name(self.api_key)} is not served"


@cache
def _codes() -> Mapping[str | None, ErrorCode]:
    codes = {code.name.upper(): code for code in ErrorCode}
    return {**codes, None: ErrorCode.none}


@cache
def error_names() -> Mapping[int, str]:
    """Kafka's names of errors, by number; 0 is no error."""
    return {code.value: code.name.upper() for code in ErrorCode}


def error_code(name: str | None) -> ErrorCode:
    """The number of an error by the name that the node gave it; None is no error."""
    return _codes().get(name, ErrorCode.unknown_server_error)
