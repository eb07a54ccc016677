"""The versions of installed packages; to read one takes a millisecond."""

from functools import cache
from importlib import metadata


@cache
def version(package: str) -> str:
    """The version of a package. Raises `PackageNotFoundError`."""
    return metadata.version(package)
